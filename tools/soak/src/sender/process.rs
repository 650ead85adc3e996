// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The process: its connections, each with a thread of its own.

use std::{
    sync::{mpsc, Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use anyhow::{ensure, Context as _, Result};
use ibxrc_ini::{Device, IniQp};

use crate::{
    layout::{domain_of, srqs_in, DOMAINS, SRQS},
    member::Member,
    protocol::{Addresses, Order, Report, Sent, Target},
    random::Random,
    role::{tell, unexpected, Orders},
};

use super::connection::{create_qp, Connection};

/// Lives the life of the process.
pub fn live(member: &Member, orders: &Orders) -> Result<()> {
    let device = Device::open(&member.device, 1)?;
    let mut random = Random::new(member.plan.mix.seed, &[5, member.index as u64]);
    let qps: Vec<IniQp> = (0..DOMAINS)
        .map(|_| create_qp(&device, &mut random))
        .collect::<Result<_>>()?;
    let addresses: Vec<_> = qps.iter().map(IniQp::address).collect();
    let addresses: Addresses = addresses.try_into().ok().context("the number of QPs")?;
    tell(&Report::Addresses(addresses))?;

    let mut qps = Some(qps);
    let mut connections = Vec::new();
    while let Some(order) = orders.next() {
        match order {
            Order::Connect { tgt_qps, targets } => {
                let qps = qps.take().context("connected already")?;
                connections = connect(member, qps, &tgt_qps, &targets)?;
                tell(&Report::Done)?;
            }
            Order::Start { seconds } => {
                let seconds = Duration::from_secs(seconds);
                connections = run(connections, seconds, orders)?;
                tell(&Report::Sent(sent(&connections)?))?;
            }
            Order::Tell => tell(&Report::State("nothing to send".to_string()))?,
            Order::Close => {
                connections.clear();
                tell(&Report::Done)?;
            }
            order => return Err(unexpected(order)),
        }
    }
    Ok(())
}

fn connect(
    member: &Member,
    qps: Vec<IniQp>,
    tgt_qps: &Addresses,
    targets: &[Target; SRQS],
) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for (domain, (mut qp, tgt)) in qps.into_iter().zip(tgt_qps).enumerate() {
        qp.connect(tgt)?;
        connections.push(Connection::new(
            member.plan.mix,
            (member.index, domain),
            qp,
            srqs_in(domain).into_iter().map(|srq| (srq, targets[srq])),
            Duration::from_secs(member.plan.patience),
        ));
    }
    Ok(connections)
}

/// Lets all connections work at a time, and waits until they are done.
fn run(
    connections: Vec<Connection>,
    seconds: Duration,
    orders: &Orders,
) -> Result<Vec<Connection>> {
    const TICK: Duration = Duration::from_millis(50);
    let deadline = Instant::now() + seconds;
    let count = connections.len();
    let (done, results) = mpsc::channel();
    let mut states = Vec::new();
    for (i, mut connection) in connections.into_iter().enumerate() {
        let state = Arc::new(Mutex::new(String::new()));
        states.push(state.clone());
        let done = done.clone();
        thread::spawn(move || {
            let result = connection.run(deadline, &state);
            // If nobody listens all is over.
            let _ = done.send((i, result.map(|()| connection)));
        });
    }
    drop(done);

    let state = || {
        let lines: Vec<_> = states
            .iter()
            .filter_map(|state| Some(state.lock().ok()?.clone()))
            .collect();
        lines.join("\n  ")
    };
    let mut finished = Vec::new();
    while finished.len() < count {
        match results.recv_timeout(TICK) {
            Ok((i, result)) => {
                finished.push((i, result.with_context(state)?));
                continue;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => (),
            // A thread that panics has said so.
            Err(mpsc::RecvTimeoutError::Disconnected) => anyhow::bail!("a thread panicked"),
        }
        match orders.look()? {
            None => (),
            Some(Order::Tell) => tell(&Report::State(state()))?,
            Some(order) => return Err(unexpected(order)),
        }
    }
    finished.sort_by_key(|(i, _)| *i);
    Ok(finished.into_iter().map(|(_, c)| c).collect())
}

/// What was sent to each SRQ.
fn sent(connections: &[Connection]) -> Result<Vec<Sent>> {
    ensure!(connections.len() == DOMAINS, "not connected");
    (0..SRQS)
        .map(|srq| {
            connections[domain_of(srq)]
                .targets()
                .iter()
                .find(|target| target.index == srq)
                .map(|target| target.sent())
                .with_context(|| format!("nothing was sent to SRQ {srq}"))
        })
        .collect()
}
