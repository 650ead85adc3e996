// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The side that sends: four processes. It also sees whether what arrived is what was sent.

use std::{
    net::{TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, Context, Result};

use crate::{
    crew::Crew,
    layout::{SENDERS, SRQS},
    member::Member,
    protocol::{Message, Order, Plan, Report},
    verdict::{judge, Outcome},
};

/// Sends to the other side for so many seconds.
pub fn send(device: &str, link: TcpStream, plan: Plan, seconds: u64) -> Result<Outcome> {
    let mut crew = Crew::new("sender", link)?;
    match play(device, &mut crew, plan, seconds) {
        Ok(outcome) => {
            crew.dismiss()?;
            Ok(outcome)
        }
        Err(error) => {
            crew.fail(&error);
            Err(error)
        }
    }
}

/// Connects to the other side, which may not be there yet.
pub fn connect(address: impl ToSocketAddrs, patience: Duration) -> Result<TcpStream> {
    let deadline = Instant::now() + patience;
    loop {
        match TcpStream::connect(&address) {
            Ok(link) => return Ok(link),
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("cannot reach the other side")
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn play(device: &str, crew: &mut Crew, plan: Plan, seconds: u64) -> Result<Outcome> {
    let patience = Duration::from_secs(plan.patience);
    for index in 0..SENDERS {
        let device = device.to_string();
        let member = Member {
            device,
            index,
            plan,
        };
        crew.start(&member.arguments("sender"))?;
    }
    let addresses = crew.gather(patience, |report| match report {
        Report::Addresses(addresses) => Some(addresses),
        _ => None,
    })?;
    let addresses = addresses.try_into().ok().context("the number of senders")?;
    crew.say(Message::Senders { plan, addresses })?;
    let Message::Receivers { tgt_qps, targets } = crew.hear(2 * patience)? else {
        bail!("the other side did not say who receives");
    };
    for (index, tgt_qps) in tgt_qps.into_iter().enumerate() {
        crew.order(index, &Order::Connect { tgt_qps, targets })?;
    }
    let done = |report| (report == Report::Done).then_some(());
    crew.gather(patience, done)?;

    crew.order_all(&Order::Start { seconds })?;
    let sent = crew.gather(
        Duration::from_secs(seconds) + 3 * patience,
        |report| match report {
            Report::Sent(sent) => sent.try_into().ok(),
            _ => None,
        },
    )?;
    let sent: [[_; SRQS]; SENDERS] = sent.try_into().ok().context("the number of senders")?;
    let count = |srq: usize, sender: usize| {
        let received = sent[sender][srq].tally.received();
        received.sum(|_| true).messages
    };
    crew.say(Message::Sent(std::array::from_fn(|srq| {
        std::array::from_fn(|sender| count(srq, sender))
    })))?;
    let Message::Received(received) = crew.hear(3 * patience)? else {
        bail!("the other side did not say what it received");
    };
    let received = received.try_into().ok().context("the number of SRQs")?;
    let outcome = judge(plan.mix.seed, &sent, &received)?;

    crew.order_all(&Order::Close)?;
    crew.gather(patience, done)?;
    crew.say(Message::Closed)?;
    match crew.hear(patience)? {
        Message::Closed => Ok(outcome),
        _ => bail!("the other side did not close"),
    }
}
