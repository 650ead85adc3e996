// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The side that receives: four processes which share three domains.

use std::{net::TcpListener, time::Duration};

use anyhow::{bail, Context, Result};
use ibxrc_ini::Address;

use crate::{
    crew::Crew,
    layout::{creator_of, domain_of, srqs_of, DOMAINS, PROCESSES, SENDERS, SRQS},
    member::Member,
    protocol::{Addresses, Message, Order, Received, Report, Target},
};

/// Waits for the other side, and receives all that it sends.
pub fn receive(device: &str, listener: &TcpListener, patience: Duration) -> Result<()> {
    let (link, _) = listener.accept().context("nobody came")?;
    let mut crew = Crew::new("receiver", link)?;
    let result = play(device, &mut crew, patience);
    match result {
        Ok(()) => crew.dismiss(),
        Err(error) => {
            crew.fail(&error);
            Err(error)
        }
    }
}

fn play(device: &str, crew: &mut Crew, patience: Duration) -> Result<()> {
    let Message::Senders { plan, addresses } = crew.hear(patience)? else {
        bail!("the other side did not say who sends");
    };
    let patience = patience.max(Duration::from_secs(plan.patience));
    let domains = tempfile::Builder::new()
        .prefix("ibxrc-soak-")
        .tempdir()
        .context("cannot make a temporary directory")?;
    for index in 0..PROCESSES {
        let device = device.to_string();
        let member = Member {
            device,
            index,
            plan,
        };
        let mut arguments = member.arguments("receiver");
        let path = domains.path().display().to_string();
        arguments.extend(["--domains".to_string(), path]);
        crew.start(&arguments)?;
    }
    let targets: Vec<Target> = crew
        .gather(patience, |report| match report {
            Report::Listening(targets) => Some(targets),
            _ => None,
        })?
        .into_iter()
        .flatten()
        .collect();
    let targets: [Target; SRQS] = targets.try_into().ok().context("the number of SRQs")?;
    let tgt_qps = connect(crew, &addresses, patience)?;
    crew.order_all(&Order::Start { seconds: 0 })?;
    crew.say(Message::Receivers { tgt_qps, targets })?;

    // The senders look after themselves: they fail if nothing goes on.
    let Message::Sent(counts) = crew.hear(Duration::MAX / 4)? else {
        bail!("the other side did not say what was sent");
    };
    for process in 0..PROCESSES {
        let goals: Vec<_> = srqs_of(process).map(|srq| counts[srq]).collect();
        let goals = goals.try_into().ok().context("the number of SRQs")?;
        crew.order(process, &Order::Finish(goals))?;
    }
    let received: Vec<Received> = crew
        .gather(2 * patience, |report| match report {
            Report::Received(received) => Some(received),
            _ => None,
        })?
        .into_iter()
        .flatten()
        .collect();
    crew.say(Message::Received(received))?;
    let Message::Closed = crew.hear(patience)? else {
        bail!("the other side did not close");
    };
    crew.order_all(&Order::Close)?;
    crew.gather(patience, done)?;
    crew.say(Message::Closed)
}

fn done(report: Report) -> Option<()> {
    (report == Report::Done).then_some(())
}

/// Has a TGT QP made for each of the senders' QPs, and opened by the others of its domain.
fn connect(
    crew: &mut Crew,
    addresses: &[Addresses; SENDERS],
    patience: Duration,
) -> Result<[Addresses; SENDERS]> {
    let all: Vec<(usize, usize)> = (0..SENDERS)
        .flat_map(|sender| (0..DOMAINS).map(move |domain| (sender, domain)))
        .collect();
    let made_by = |process| -> Vec<_> {
        all.iter()
            .filter(|(sender, domain)| creator_of(*sender, *domain) == process)
            .map(|(sender, domain)| (*sender, *domain, addresses[*sender][*domain]))
            .collect()
    };
    for process in 0..PROCESSES {
        crew.order(process, &Order::Create(made_by(process)))?;
    }
    let created = crew.gather(patience, |report| match report {
        Report::Created(created) => Some(created),
        _ => None,
    })?;
    let mut tgt_qps: [[Option<Address>; DOMAINS]; SENDERS] = Default::default();
    for (process, created) in created.into_iter().enumerate() {
        for ((sender, domain, _), address) in made_by(process).into_iter().zip(created) {
            tgt_qps[sender][domain] = Some(address);
        }
    }
    let tgt_qp = |sender: usize, domain: usize| {
        tgt_qps[sender][domain]
            .with_context(|| format!("there is no TGT QP for sender {sender} in domain {domain}"))
    };

    for process in 0..PROCESSES {
        let mut open = Vec::new();
        for (sender, domain) in &all {
            if srqs_of(process).any(|srq| domain_of(srq) == *domain) {
                let qp_num = tgt_qp(*sender, *domain)?.qp_num;
                let src_qp = addresses[*sender][*domain].qp_num;
                open.push((*sender, *domain, qp_num, src_qp));
            }
        }
        crew.order(process, &Order::Open(open))?;
    }
    crew.gather(patience, done)?;

    let mut result = *addresses;
    for (sender, domain) in all {
        result[sender][domain] = tgt_qp(sender, domain)?;
    }
    Ok(result)
}
