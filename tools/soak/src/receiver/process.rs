// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The process: its domains, TGT QPs and SRQs, and what it does with them.

use std::{
    collections::HashMap,
    fs::File,
    os::fd::AsFd,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use ibxrc::{
    verbs::{IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE},
    Context, EventFile, EventKind, QpAttr, ReportTo, TgtQp, TgtQpOptions, Wc, Xrcd, XrcdOptions,
};
use ibxrc_ini::{Address, Device};
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    io::Errno,
};

use crate::{
    layout::{creator_leaves, domain_of, srqs_of, DOMAINS, SRQS_EACH},
    member::Member,
    protocol::{Order, Report},
    random::Random,
    role::{tell, unexpected, Orders},
};

use super::{
    inbox::{Inbox, BUFFERS},
    waiter::Waiter,
};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    member: Member,
    /// The directory with a file for each domain.
    #[arg(long)]
    domains: PathBuf,
}

/// A connection of a domain that we are in.
struct Connection {
    sender: usize,
    domain: usize,
    /// The sender's QP.
    src_qp: u32,
    /// `None` once the registration is given back.
    tgt_qp: Option<TgtQp>,
    ours: bool,
}

struct Receiver {
    seed: u64,
    patience: Duration,
    random: Random,
    device: Device,
    connections: HashMap<u32, Connection>,
    inboxes: Vec<Inbox>,
    waiters: Vec<Waiter>,
    /// By their number.
    xrcds: Vec<(usize, Xrcd)>,
    events: EventFile,
    finishing: bool,
    /// When a message came last.
    last: Instant,
}

/// Lives the life of the process.
pub fn live(options: &Options, orders: &Orders) -> Result<()> {
    let mut it = Some(Receiver::start(options)?);
    let receiver = it.as_ref().context("just started")?;
    let targets: Vec<_> = receiver.inboxes.iter().map(Inbox::target).collect();
    let targets = targets.try_into().ok().context("the number of SRQs")?;
    tell(&Report::Listening(targets))?;
    while let Some(order) = orders.next() {
        let Some(receiver) = &mut it else {
            return Err(unexpected(order));
        };
        match order {
            Order::Create(which) => {
                let addresses: Result<_> = which
                    .iter()
                    .map(|(sender, domain, ini)| receiver.create(*sender, *domain, ini))
                    .collect();
                tell(&Report::Created(addresses?))?;
            }
            Order::Open(which) => {
                for (sender, domain, qp_num, src_qp) in which {
                    receiver.open(sender, domain, qp_num, src_qp)?;
                }
                tell(&Report::Done)?;
            }
            Order::Start { .. } => {
                if let Err(error) = receiver.receive(orders) {
                    return Err(error.context(receiver.state()));
                }
                tell(&Report::Received(
                    receiver.inboxes.iter().map(Inbox::received).collect(),
                ))?;
            }
            Order::Tell => tell(&Report::State(receiver.state()))?,
            Order::Close => {
                it.take().map_or(Ok(()), Receiver::close)?;
                tell(&Report::Done)?;
            }
            order => return Err(unexpected(order)),
        }
    }
    Ok(())
}

fn open_xrcd(context: &Context, dir: &Path, domain: usize) -> Result<Xrcd> {
    let path = dir.join(domain.to_string());
    let file = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    Ok(context.open_xrcd(XrcdOptions {
        file: Some(file.as_fd()),
        create: true,
        ..Default::default()
    })?)
}

impl Receiver {
    fn start(options: &Options) -> Result<Self> {
        let Member {
            device,
            index,
            plan,
        } = &options.member;
        let (index, mix) = (*index, plan.mix);
        let context = Context::open(device)?;
        let events = context.create_event_file(None)?;
        let mut random = Random::new(mix.seed, &[4, index as u64]);
        let mut xrcds = Vec::new();
        let mut waiters = Vec::new();
        let mut inboxes = Vec::new();
        // Every other process has one CQ for all of its SRQs.
        let shared = index % 2 == 0;
        for srq in srqs_of(index) {
            let domain = domain_of(srq);
            xrcds.push((domain, open_xrcd(&context, &options.domains, domain)?));
            let (_, xrcd) = &xrcds[xrcds.len() - 1];
            if waiters.is_empty() || !shared {
                let entries = if shared { BUFFERS * SRQS_EACH } else { BUFFERS };
                waiters.push(Waiter::create(&context, entries, random.next())?);
            }
            let cq = &waiters[waiters.len() - 1].cq;
            inboxes.push(Inbox::create(xrcd, cq, &events, mix, srq)?);
        }
        Ok(Receiver {
            seed: mix.seed,
            patience: Duration::from_secs(plan.patience),
            random,
            device: Device::open(device, 1)?,
            connections: HashMap::new(),
            inboxes,
            waiters,
            xrcds,
            events,
            finishing: false,
            last: Instant::now(),
        })
    }

    fn xrcd(&self, domain: usize) -> Result<&Xrcd> {
        self.xrcds
            .iter()
            .find(|(number, _)| *number == domain)
            .map(|(_, xrcd)| xrcd)
            .with_context(|| format!("we are not in domain {domain}"))
    }

    /// What tells of errors of a TGT QP. Its number is not known yet.
    fn options(&self, sender: usize, domain: usize) -> TgtQpOptions<'_> {
        TgtQpOptions {
            events: Some(ReportTo {
                file: &self.events,
                user_handle: (sender * DOMAINS + domain) as u64,
            }),
        }
    }

    /// Makes a TGT QP and connects it.
    fn create(&mut self, sender: usize, domain: usize, ini: &Address) -> Result<Address> {
        let tgt_qp = self
            .xrcd(domain)?
            .create_tgt_qp_with(self.options(sender, domain))?;
        let device = &self.device;
        let access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        tgt_qp.connect(&QpAttr {
            access_flags: Some(access),
            max_dest_rd_atomic: Some(ini.rd_atomic.min(device.rd_atomic())),
            ..ini.tgt_attr(device.port(), device.gid().index, device.mtu())
        })?;
        let address = Address {
            qp_num: tgt_qp.qp_num(),
            psn: 0,
            gid: device.gid().gid,
            lid: device.lid(),
            mtu: device.mtu(),
            rd_atomic: device.rd_atomic(),
        };
        self.connections.insert(
            address.qp_num,
            Connection {
                sender,
                domain,
                src_qp: ini.qp_num,
                tgt_qp: Some(tgt_qp),
                ours: true,
            },
        );
        Ok(address)
    }

    /// Registers with a TGT QP that somebody else has made.
    fn open(&mut self, sender: usize, domain: usize, qp_num: u32, src_qp: u32) -> Result<()> {
        if self.connections.contains_key(&qp_num) {
            return Ok(());
        }
        let tgt_qp = self
            .xrcd(domain)?
            .open_tgt_qp_with(qp_num, self.options(sender, domain))?;
        self.connections.insert(
            qp_num,
            Connection {
                sender,
                domain,
                src_qp,
                tgt_qp: Some(tgt_qp),
                ours: false,
            },
        );
        Ok(())
    }

    /// Receives until all is there.
    fn receive(&mut self, orders: &Orders) -> Result<()> {
        for connection in self.connections.values_mut() {
            if connection.ours && creator_leaves(connection.sender, connection.domain) {
                if let Some(tgt_qp) = connection.tgt_qp.take() {
                    tgt_qp.close()?;
                }
            }
        }
        self.last = Instant::now();
        loop {
            match orders.look()? {
                None => (),
                Some(Order::Tell) => tell(&Report::State(self.state()))?,
                Some(Order::Finish(goals)) => {
                    for (inbox, goal) in self.inboxes.iter_mut().zip(goals) {
                        inbox.set_goal(goal);
                    }
                    self.finishing = true;
                    self.last = Instant::now();
                }
                Some(order) => return Err(unexpected(order)),
            }
            self.take_events()?;
            let taken = self.poll()?;
            let now = Instant::now();
            for inbox in &mut self.inboxes {
                inbox.post(now)?;
            }
            if taken > 0 {
                self.last = now;
                continue;
            }
            let mut complete = true;
            for inbox in &self.inboxes {
                complete &= inbox.is_complete()?;
            }
            if complete {
                return self.check_end();
            }
            ensure!(
                !self.finishing || now - self.last < self.patience,
                "no message has come in {} s, and not all are there",
                self.patience.as_secs()
            );
            self.wait()?;
        }
    }

    /// Nothing more comes.
    fn check_end(&mut self) -> Result<()> {
        thread::sleep(Duration::from_millis(100));
        ensure!(self.poll()? == 0, "there are more messages than were sent");
        self.take_events()?;
        for (inbox, (_, xrcd)) in self.inboxes.iter().zip(&self.xrcds) {
            inbox.check_kernel(xrcd)?;
        }
        for connection in self.connections.values() {
            if let Some(tgt_qp) = &connection.tgt_qp {
                let (_, info) = tgt_qp.query()?;
                ensure!(info.refused_msgs == 0, "messages were refused: {info:?}");
            }
        }
        Ok(())
    }

    fn take_events(&mut self) -> Result<()> {
        while let Some(event) = self.events.try_read()? {
            let inbox = self
                .inboxes
                .iter_mut()
                .find(|inbox| inbox.user_handle() == event.user_handle);
            match (event.kind, inbox) {
                (EventKind::SrqBacklog { srq_num, .. }, Some(inbox)) if srq_num == inbox.num() => {
                    inbox.backlogs += 1;
                }
                (EventKind::SrqLimit { srq_num, .. }, Some(inbox)) if srq_num == inbox.num() => {
                    inbox.limits += 1;
                }
                _ => bail!("{event:?}"),
            }
        }
        Ok(())
    }

    /// Takes what has completed. Returns how many messages.
    fn poll(&mut self) -> Result<usize> {
        let mut taken = 0;
        for waiter in &mut self.waiters {
            let mut wcs = [Wc::default(); BUFFERS];
            let most = 1 + self.random.below(BUFFERS as u64) as usize;
            let n = waiter.poll(&mut wcs[..most], self.patience)?;
            for wc in &wcs[..n] {
                ensure!(wc.status.is_success(), "a message failed: {wc:?}");
                let inbox = self
                    .inboxes
                    .iter_mut()
                    .find(|inbox| inbox.num() == wc.srq_num)
                    .with_context(|| format!("a message for another SRQ: {wc:?}"))?;
                ensure!(
                    inbox.user_handle() == wc.srq_user_handle,
                    "the user handle is not {:#x}: {wc:?}",
                    inbox.user_handle()
                );
                let connection = self
                    .connections
                    .get(&wc.qp_num)
                    .with_context(|| format!("a message from another TGT QP: {wc:?}"))?;
                ensure!(
                    connection.src_qp == wc.src_qp,
                    "the sender's QP is {}: {wc:?}",
                    connection.src_qp
                );
                inbox.take(connection.sender, wc)?;
            }
            taken += n;
        }
        Ok(taken)
    }

    /// There was no completion: waits for one, in one way or another.
    fn wait(&mut self) -> Result<()> {
        if self.random.one_in(4) {
            thread::yield_now();
            return Ok(());
        }
        let solicited_only = self.random.one_in(3);
        let mut armed = true;
        for waiter in &mut self.waiters {
            armed &= waiter.arm(solicited_only)?;
        }
        if !armed {
            return Ok(());
        }
        // A buffer that is held is to be posted in time, and what is not solicited to be taken.
        let millis = 1 + self.random.below(if solicited_only { 10 } else { 40 });
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: (millis * 1_000_000) as i64,
        };
        let channels: Vec<_> = self.waiters.iter().map(|w| w.channel().as_fd()).collect();
        let mut fds: Vec<_> = channels
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(errno) => return Err(errno).context("cannot wait for events"),
        }
        drop(fds);
        for waiter in &mut self.waiters {
            waiter.wait(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Where things stand.
    fn state(&self) -> String {
        let mut lines = vec![format!(
            "receiver (seed {}): {} events, last message {:.1} s ago",
            self.seed,
            self.waiters.iter().map(|w| w.events).sum::<u64>(),
            self.last.elapsed().as_secs_f64()
        )];
        for (inbox, (_, xrcd)) in self.inboxes.iter().zip(&self.xrcds) {
            lines.push(inbox.state(xrcd));
        }
        for (qp_num, connection) in &self.connections {
            let state = match &connection.tgt_qp {
                None => continue,
                Some(tgt_qp) => match tgt_qp.query() {
                    Ok((_, info)) => format!("{info:?}"),
                    Err(error) => error.to_string(),
                },
            };
            lines.push(format!(
                "TGT QP {qp_num} of sender {} in domain {}: {state}",
                connection.sender, connection.domain
            ));
        }
        lines.join("\n  ")
    }

    /// Closes everything, which has to work.
    fn close(self) -> Result<()> {
        for connection in self.connections.into_values() {
            if let Some(tgt_qp) = connection.tgt_qp {
                tgt_qp.close()?;
            }
        }
        for inbox in self.inboxes {
            inbox.close()?;
        }
        for waiter in self.waiters {
            waiter.close()?;
        }
        for (_, xrcd) in self.xrcds {
            xrcd.close()?;
        }
        self.events.close()?;
        Ok(())
    }
}
