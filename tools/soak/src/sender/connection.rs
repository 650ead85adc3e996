// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A connection to a domain, and what is done with it.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use ibxrc::verbs::{
    ibv_wc, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
    IBV_WC_SUCCESS,
};
use ibxrc_ini::{Device, IniQp, IniQpAttr, Op, Work};

use crate::{
    arena::Arena,
    content::Content,
    mix::Mix,
    protocol::Target as Where,
    random::Random,
    schedule::{Action, Schedule, Step},
    size::MAX_LEN,
    stream::Message,
    tally::{Count, Kind, Tally},
};

use super::{
    pending::{Pending, Then},
    target::Target,
};

/// Bytes to send from and read into.
const MEMORY: usize = 3 * MAX_LEN;
/// Work requests that may not be done.
const MOST_PENDING: usize = 32;
/// Work requests in a row that are not signaled.
const MOST_UNSIGNALED: usize = 8;
/// Things begun before completions are looked for.
const MOST_BEGUN: usize = 8;
/// Bytes of what an atomic works on.
const WORD: usize = size_of::<u64>();

/// A QP that is not connected yet.
pub fn create_qp(device: &Device, random: &mut Random) -> Result<IniQp> {
    let mut psn = random.next() as u32 & 0x00ff_ffff;
    if random.one_in(2) {
        // So that it wraps around soon.
        psn |= 0x00ff_f800;
    }
    Ok(IniQp::create(
        device,
        IniQpAttr {
            // And a byte that does not matter.
            memory: MEMORY + 1,
            psn,
            // A peer that does not answer is found by the time without progress.
            retry_cnt: 7,
            ..Default::default()
        },
    )?)
}

pub struct Connection {
    mix: Mix,
    sender: usize,
    domain: usize,
    qp: IniQp,
    qp_num: u32,
    schedule: Schedule,
    targets: Vec<Target>,
    arena: Arena,
    pending: VecDeque<Pending>,
    /// What could not be begun yet.
    next: Option<(Step, Option<Message>)>,
    next_id: u64,
    /// Work requests since the last one that is signaled.
    unsignaled: usize,
    /// Not before then is a mailbox asked about again.
    ask_after: Instant,
    /// When something was done last.
    last: Instant,
    /// Buffers for what is compared.
    spare: Vec<Vec<u8>>,
    patience: Duration,
}

impl Connection {
    /// `qp` is connected. `targets`: the SRQs of the domain.
    pub fn new(
        mix: Mix,
        (sender, domain): (usize, usize),
        qp: IniQp,
        targets: impl IntoIterator<Item = (usize, Where)>,
        patience: Duration,
    ) -> Self {
        let targets: Vec<_> = targets
            .into_iter()
            .map(|(index, place)| Target::new(mix, sender, index, place))
            .collect();
        Connection {
            mix,
            sender,
            domain,
            qp_num: qp.address().qp_num,
            qp,
            schedule: Schedule::new(mix, sender, domain, targets.len()),
            targets,
            arena: Arena::new(MEMORY),
            pending: VecDeque::new(),
            next: None,
            next_id: 0,
            unsignaled: 0,
            ask_after: Instant::now(),
            last: Instant::now(),
            spare: Vec::new(),
            patience,
        }
    }

    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Works until then, and until all is done. `state` says now and then where it stands.
    pub fn run(&mut self, deadline: Instant, state: &Mutex<String>) -> Result<()> {
        const TICK: Duration = Duration::from_millis(100);
        let result = self.work(deadline, TICK, |connection| {
            if let Ok(mut state) = state.lock() {
                *state = connection.state();
            }
        });
        if let Ok(mut state) = state.lock() {
            *state = self.state();
        }
        result.with_context(|| format!("sender {}, domain {}", self.sender, self.domain))
    }

    fn work(
        &mut self,
        deadline: Instant,
        tick: Duration,
        mut tell: impl FnMut(&Self),
    ) -> Result<()> {
        let mut told = Instant::now();
        self.last = told;
        loop {
            let completed = self.poll()?;
            let now = Instant::now();
            if now - told > tick {
                told = now;
                tell(self);
            }
            let mut begun = 0;
            if now < deadline {
                while begun < MOST_BEGUN && self.begin_next()? {
                    begun += 1;
                }
            } else if self.pending.is_empty() {
                return Ok(());
            }
            if begun > 0 {
                self.last = now;
                continue;
            }
            if completed {
                continue;
            }
            ensure!(
                now - self.last < self.patience,
                "nothing was done in {} s",
                self.patience.as_secs()
            );
            if !self.pending.is_empty() && self.pending.iter().all(|p| !p.signaled) {
                self.nudge()?;
            }
            let timeout = match self.pending.is_empty() {
                true => Duration::from_millis(1),
                false => tick,
            };
            self.qp.wait(timeout)?;
        }
    }

    /// Takes completions. Returns whether there were any.
    fn poll(&mut self) -> Result<bool> {
        let mut done = Vec::new();
        self.qp.poll(&mut done)?;
        for wc in &done {
            self.complete(wc)?;
        }
        Ok(!done.is_empty())
    }

    fn complete(&mut self, wc: &ibv_wc) -> Result<()> {
        loop {
            let Some(pending) = self.pending.pop_front() else {
                bail!("{}: nothing is posted", describe(wc));
            };
            let (id, kind, len) = (pending.id, pending.kind, pending.range.len());
            let is_it = id == wc.wr_id;
            let checked = if is_it {
                self.check(wc, &pending)
            } else if pending.signaled {
                Err(anyhow!("a later one is done, and this one not"))
            } else {
                // One that is done says that those before it are, too.
                Ok(())
            };
            checked
                .and_then(|()| self.finish(pending))
                .with_context(|| {
                    format!(
                        "work request {id} ({kind:?}, {len} bytes), {}",
                        describe(wc)
                    )
                })?;
            if is_it {
                return Ok(());
            }
        }
    }

    fn check(&self, wc: &ibv_wc, pending: &Pending) -> Result<()> {
        ensure!(wc.status == IBV_WC_SUCCESS, "it failed");
        ensure!(
            wc.opcode == pending.opcode && wc.qp_num == self.qp_num,
            "the completion is of something else: opcode {} and QP {}",
            pending.opcode,
            self.qp_num
        );
        ensure!(pending.signaled, "it was not signaled");
        ensure!(
            pending.opcode != IBV_WC_RDMA_READ || wc.byte_len as usize == pending.range.len(),
            "the length is wrong"
        );
        Ok(())
    }

    /// A work request is done.
    fn finish(&mut self, pending: Pending) -> Result<()> {
        let target = &mut self.targets[pending.target];
        let memory = self.qp.memory(pending.range.clone());
        let mut news = pending.kind.is_some();
        match pending.then {
            Then::Nothing => (),
            Then::Compare(expected) => {
                target.was_read();
                if let Some(at) = memory.iter().zip(&expected).position(|(a, b)| a != b) {
                    let end = memory.len().min(at + 16);
                    bail!(
                        "byte {at} that was read from SRQ {} is wrong: {:02x?} instead of {:02x?}",
                        target.index,
                        &memory[at..end],
                        &expected[at..end]
                    );
                }
                self.spare.push(expected);
            }
            Then::Taken => {
                target.asking = false;
                let before = target.mailbox.len();
                ensure!(
                    target.mailbox.set_taken(memory[0]),
                    "SRQ {} has taken {} messages (modulo 256) from the mailbox, where there \
                     are {before} only",
                    target.index,
                    memory[0]
                );
                news = target.mailbox.len() < before;
                if !news {
                    self.ask_after = Instant::now() + Duration::from_millis(2);
                }
            }
            Then::Added => target.was_added_to(word(memory)?)?,
            Then::Swapped { compare } => {
                target.was_swapped(compare, word(memory)?)?;
            }
        }
        if let Some(kind) = pending.kind {
            target.tally.add(kind, pending.range.len());
        }
        if pending.gives_back {
            self.arena.give_back();
        }
        if news {
            self.last = Instant::now();
        }
        Ok(())
    }

    /// Begins the next thing of the schedule. `false`: something has to be done before.
    fn begin_next(&mut self) -> Result<bool> {
        let (step, message) = match self.next.take() {
            Some(next) => next,
            None => {
                let step = self.schedule.next().context("the schedule has an end")?;
                let message = match step.action {
                    Action::Message => self.targets[step.target].stream.next(),
                    _ => None,
                };
                (step, message)
            }
        };
        let begun = self.begin(&step, message.as_ref())?;
        if !begun {
            self.next = Some((step, message));
        }
        Ok(begun)
    }

    fn begin(&mut self, step: &Step, message: Option<&Message>) -> Result<bool> {
        // A step is three work requests at most.
        if self.pending.len() + 3 > MOST_PENDING {
            return Ok(false);
        }
        match (&step.action, message) {
            (Action::Message, Some(message)) if message.kind == Kind::WriteImm => {
                self.begin_write_imm(step, message)
            }
            (Action::Message, Some(message)) => self.begin_send(step, message),
            (Action::Message, None) => bail!("the stream has an end"),
            (Action::Write { place, content }, _) => {
                let Some(range) = self.arena.take(place.len()) else {
                    return Ok(false);
                };
                self.write(step, place, *content, range, true)?;
                Ok(true)
            }
            (Action::Read { place }, _) => {
                let Some(range) = self.arena.take(place.len()) else {
                    return Ok(false);
                };
                self.read(step, place, range, true)?;
                Ok(true)
            }
            (Action::FetchAdd, _) => self.begin_atomic(step, |target| {
                let op = Op::FetchAdd {
                    addr: target.added_addr(),
                    rkey: target.rkey(),
                    add: 1,
                };
                (Kind::FetchAdd, IBV_WC_FETCH_ADD, op, Then::Added)
            }),
            (Action::CompareSwap, _) => self.begin_atomic(step, |target| {
                let compare = target.guess();
                let op = Op::CompareSwap {
                    addr: target.swapped_addr(),
                    rkey: target.rkey(),
                    compare,
                    swap: compare + 1,
                };
                (
                    Kind::CompareSwap,
                    IBV_WC_COMP_SWAP,
                    op,
                    Then::Swapped { compare },
                )
            }),
        }
    }

    fn begin_write_imm(&mut self, step: &Step, message: &Message) -> Result<bool> {
        let target = &mut self.targets[step.target];
        if !target.mailbox.has_room(&message.place) {
            self.ask(step.target)?;
            return Ok(false);
        }
        let Some(range) = self.arena.take(message.len) else {
            return Ok(false);
        };
        target.mailbox.put(message.place.clone());
        let op = Op::Write {
            addr: target.mailbox_addr(message.place.start),
            rkey: target.rkey(),
            imm: message.imm,
        };
        message.content.write(0, self.qp.memory_mut(range.clone()));
        let pending = Pending::new(step, Kind::WriteImm, IBV_WC_RDMA_WRITE, range);
        self.post(op, message.solicited, pending)?;
        Ok(true)
    }

    /// Sends a message: as it is or, if it has a place, from what is read from there.
    fn begin_send(&mut self, step: &Step, message: &Message) -> Result<bool> {
        let len = message.len;
        let echo = !message.place.is_empty();
        let Some(range) = self.arena.take(if echo { 2 * len } else { len }) else {
            return Ok(false);
        };
        let range = if echo {
            let (first, second) = (range.start..range.start + len, range.start + len..range.end);
            self.write(step, &message.place, message.content, first, false)?;
            self.read(step, &message.place, second.clone(), false)?;
            second
        } else {
            message.content.write(0, self.qp.memory_mut(range.clone()));
            range
        };
        let pending = Pending {
            // What is read is there only when the RDMA READ is done.
            fence: step.fence || echo,
            ..Pending::new(step, message.kind, IBV_WC_SEND, range)
        };
        self.post(Op::Send { imm: message.imm }, message.solicited, pending)?;
        Ok(true)
    }

    /// RDMA WRITE to the area.
    fn write(
        &mut self,
        step: &Step,
        place: &Range<usize>,
        content: Content,
        range: Range<usize>,
        gives_back: bool,
    ) -> Result<()> {
        content.write(0, self.qp.memory_mut(range.clone()));
        let target = &mut self.targets[step.target];
        // What is read must not be what is written after it.
        let fence = step.fence || target.is_being_read(place);
        target.write(place, content);
        let op = Op::Write {
            addr: target.area_addr(place.start),
            rkey: target.rkey(),
            imm: None,
        };
        let pending = Pending {
            gives_back,
            fence,
            ..Pending::new(step, Kind::Write, IBV_WC_RDMA_WRITE, range)
        };
        self.post(op, false, pending)
    }

    /// RDMA READ of the area.
    fn read(
        &mut self,
        step: &Step,
        place: &Range<usize>,
        range: Range<usize>,
        gives_back: bool,
    ) -> Result<()> {
        let target = &mut self.targets[step.target];
        let mut expected = self.spare.pop().unwrap_or_default();
        expected.clear();
        expected.extend_from_slice(target.read(place));
        if self.mix.lossy {
            self.qp.memory_mut(range.clone()).copy_from_slice(&expected);
        }
        let op = Op::Read {
            addr: target.area_addr(place.start),
            rkey: target.rkey(),
        };
        let pending = Pending {
            gives_back,
            then: Then::Compare(expected),
            ..Pending::new(step, Kind::Read, IBV_WC_RDMA_READ, range)
        };
        self.post(op, false, pending)
    }

    fn begin_atomic(
        &mut self,
        step: &Step,
        what: impl FnOnce(&Target) -> (Kind, u32, Op, Then),
    ) -> Result<bool> {
        let Some(range) = self.arena.take(WORD) else {
            return Ok(false);
        };
        let (kind, opcode, op, then) = what(&self.targets[step.target]);
        let pending = Pending {
            then,
            ..Pending::new(step, kind, opcode, range)
        };
        self.post(op, false, pending)?;
        Ok(true)
    }

    /// Asks how many were taken from a mailbox: by reading a byte, which is whole whenever it is
    /// read.
    fn ask(&mut self, index: usize) -> Result<()> {
        if self.targets[index].asking || Instant::now() < self.ask_after {
            return Ok(());
        }
        let Some(range) = self.arena.take(1) else {
            return Ok(());
        };
        let target = &mut self.targets[index];
        target.asking = true;
        if self.mix.lossy {
            // Without an answer there is no news.
            self.qp.memory_mut(range.clone())[0] = target.mailbox.taken();
        }
        let op = Op::Read {
            addr: target.taken_addr(),
            rkey: target.rkey(),
        };
        let pending = Pending {
            then: Then::Taken,
            ..Pending::extra(index, IBV_WC_RDMA_READ, range)
        };
        self.post(op, false, pending)
    }

    /// Nothing that is posted will complete: posts something that does.
    fn nudge(&mut self) -> Result<()> {
        let target = &self.targets[0];
        let op = Op::Read {
            addr: target.area_addr(0),
            rkey: target.rkey(),
        };
        let pending = Pending {
            gives_back: false,
            ..Pending::extra(0, IBV_WC_RDMA_READ, MEMORY..MEMORY + 1)
        };
        self.post(op, false, pending)
    }

    fn post(&mut self, op: Op, solicited: bool, pending: Pending) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let signaled = pending.signaled || self.unsignaled >= MOST_UNSIGNALED;
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
        self.qp.post(&Work {
            id,
            srq_num: self.targets[pending.target].srq_num(),
            op,
            range: pending.range.clone(),
            solicited,
            fence: pending.fence,
            signaled,
        })?;
        self.pending.push_back(Pending {
            id,
            signaled,
            ..pending
        });
        Ok(())
    }

    /// Where it stands.
    fn state(&self) -> String {
        let mut tally = Tally::default();
        for target in &self.targets {
            tally += &target.tally;
        }
        let Count { messages, bytes } = tally.sum(|_| true);
        let mailboxes: Vec<_> = self.targets.iter().map(|t| t.mailbox.len()).collect();
        let pending: Vec<_> = self
            .pending
            .iter()
            .map(|pending| {
                let kind = pending.kind.map_or("-", Kind::name);
                let fence = if pending.fence { " fence" } else { "" };
                format!("{kind} {}{fence}", pending.range.len())
            })
            .collect();
        format!(
            "sender {}, domain {}, QP {}: {messages} done, {bytes} bytes, the last {:.1} s ago; \
             {} pending from {:?} on: {}; next {:?}; in the mailboxes {mailboxes:?}",
            self.sender,
            self.domain,
            self.qp_num,
            self.last.elapsed().as_secs_f64(),
            self.pending.len(),
            self.pending.front().map(|pending| pending.id),
            pending.join(", "),
            self.next,
        )
    }
}

/// A completion, for messages.
fn describe(wc: &ibv_wc) -> String {
    format!(
        "completion of {}: status {}, opcode {}, {} bytes, QP {}, vendor error {:#x}",
        wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num, wc.vendor_err
    )
}

/// What an atomic found.
fn word(memory: &[u8]) -> Result<u64> {
    Ok(u64::from_ne_bytes(memory.try_into()?))
}
