// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An SRQ, with its buffers and its memory for RDMA.

use std::{
    ops::Range,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use ibxrc::{
    Cq, EventFile, Mr, MrAccess, MrAttr, Sge, Srq, SrqAttr, SrqOptions, Wc, WcOpcode, Xrcd,
};

use crate::{
    content::{hash, start_value},
    layout::{area, mailbox, taken, ADDED, MEMORY, SENDERS, SWAPPED},
    mix::Mix,
    protocol::{Received, Target},
    random::{scramble, Random},
    region::Region,
    scatter::{cut, filled, gaps, BUFFER, GAP, MAX_PIECES},
    stream::{Message, Stream},
    tally::{Kind, Tally},
};

/// Receive buffers.
pub const BUFFERS: usize = 8;

/// What nobody may write over is full of this.
const MARK: u8 = 0xa7;

/// A receive buffer.
#[derive(Default)]
struct Buffer {
    /// What its completion will say; `None` if it is not posted.
    wr_id: Option<u64>,
    pieces: Vec<Range<usize>>,
}

pub struct Inbox {
    /// Which of all SRQs it is.
    index: usize,
    srq: Srq,
    mr: Mr,
    iova: u64,
    user_handle: u64,
    random: Random,
    buffers: Vec<Buffer>,
    /// Nothing is posted until then.
    held_until: Option<Instant>,
    streams: Vec<Stream>,
    tallies: [Tally; SENDERS],
    /// So many are to come from each sender, if that is known.
    goal: Option<[u64; SENDERS]>,
    pub backlogs: u64,
    pub limits: u64,
    // These go last: after what writes to them.
    memory: Region,
    space: Region,
}

impl Inbox {
    pub fn create(
        xrcd: &Xrcd,
        cq: &Cq,
        events: &EventFile,
        mix: Mix,
        index: usize,
    ) -> Result<Self> {
        let user_handle = scramble(index as u64);
        let attr = SrqAttr {
            max_wr: BUFFERS as u32,
            max_sge: MAX_PIECES as u32,
            user_handle,
        };
        let options = SrqOptions {
            events: Some(events),
        };
        let srq = xrcd.create_srq_with(cq, attr, options)?;
        let memory = Region::new(MEMORY)?;
        memory.set_word(ADDED, start_value(mix.seed, (index * 2) as u64));
        memory.set_word(SWAPPED, start_value(mix.seed, (index * 2 + 1) as u64));
        // By a name that is not its address, and may not be anybody's.
        let iova = (index as u64 + 1) << 40;
        // SAFETY: References to it are made only where senders leave it alone.
        let mr = unsafe {
            xrcd.reg_mr(MrAttr {
                addr: memory.at(&(0..MEMORY)),
                length: MEMORY,
                iova: Some(iova),
                access: MrAccess::ALL,
            })?
        };
        Ok(Inbox {
            index,
            srq,
            mr,
            iova,
            user_handle,
            random: Random::new(mix.seed, &[3, index as u64]),
            buffers: (0..BUFFERS).map(|_| Buffer::default()).collect(),
            held_until: None,
            streams: (0..SENDERS)
                .map(|sender| Stream::new(mix, sender, index))
                .collect(),
            tallies: Default::default(),
            goal: None,
            backlogs: 0,
            limits: 0,
            memory,
            space: Region::new(BUFFERS * BUFFER)?,
        })
    }

    pub fn num(&self) -> u32 {
        self.srq.num()
    }

    pub fn user_handle(&self) -> u64 {
        self.user_handle
    }

    /// What senders need.
    pub fn target(&self) -> Target {
        Target {
            srq_num: self.srq.num(),
            addr: self.iova,
            rkey: self.mr.rkey(),
        }
    }

    /// Posts buffers that are free: at once, some of them, or, now and then, not for a while.
    pub fn post(&mut self, now: Instant) -> Result<()> {
        if self.held_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        let was_held = self.held_until.take().is_some();
        let free: Vec<_> = (0..BUFFERS)
            .filter(|i| self.buffers[*i].wr_id.is_none())
            .collect();
        if free.is_empty() {
            return Ok(());
        }
        if !was_held && self.random.one_in(64) {
            let longest = if self.random.one_in(8) { 400 } else { 60 };
            let hold = Duration::from_millis(1 + self.random.below(longest));
            self.held_until = Some(now + hold);
            return Ok(());
        }
        let n = 1 + self.random.below(free.len() as u64) as usize;
        for i in free.into_iter().take(n) {
            self.post_buffer(i)?;
        }
        if self.random.one_in(64) {
            let limit = self.random.below(BUFFERS as u64 + 1) as u32;
            self.srq.set_limit(limit)?;
        }
        Ok(())
    }

    /// Bytes of a buffer, from its start on.
    fn in_space(buffer: usize, range: Range<usize>) -> Range<usize> {
        let start = buffer * BUFFER;
        start + range.start..start + range.end
    }

    /// The bytes of a buffer that something in it but the first piece's contents must not touch.
    fn head(pieces: &[Range<usize>]) -> Range<usize> {
        let first = &pieces[0];
        first.start..first.start + first.len().min(GAP)
    }

    fn post_buffer(&mut self, i: usize) -> Result<()> {
        let pieces = cut(&mut self.random);
        for range in gaps(&pieces).chain([Self::head(&pieces)]) {
            // SAFETY: It is not posted.
            unsafe { self.space.fill(Self::in_space(i, range), MARK) };
        }
        let sges: Vec<_> = pieces
            .iter()
            .map(|piece| Sge {
                addr: self.space.at(&Self::in_space(i, piece.clone())),
                length: piece.len() as u32,
            })
            .collect();
        let wr_id = self.random.next();
        // SAFETY: Nobody looks at it before it has completed, and it is freed after the SRQ.
        unsafe { self.srq.post_recv(wr_id, &sges)? };
        self.buffers[i] = Buffer {
            wr_id: Some(wr_id),
            pieces,
        };
        Ok(())
    }

    /// A message of this sender is in one of the buffers, or in the mailbox: checks that it
    /// is the one that was to come.
    pub fn take(&mut self, sender: usize, wc: &Wc) -> Result<()> {
        let number = self.tallies[sender].sum(|_| true).messages;
        let expected = self.streams[sender]
            .next()
            .context("the stream has an end")?;
        self.check(sender, &expected, wc).with_context(|| {
            format!(
                "message {number} of sender {sender} for SRQ {}, {expected:?}: {wc:?}",
                self.index
            )
        })?;
        self.tallies[sender].add(expected.kind, expected.len);
        if expected.kind == Kind::WriteImm {
            let count = self.tallies[sender].of(Kind::WriteImm).messages;
            // From now on the sender may write over it.
            let byte = self.memory.byte(taken(sender));
            byte.store(count as u8, Ordering::Release);
        }
        Ok(())
    }

    fn check(&mut self, sender: usize, expected: &Message, wc: &Wc) -> Result<()> {
        let buffer = self
            .buffers
            .iter()
            .position(|buffer| buffer.wr_id == Some(wc.wr_id))
            .context("no such buffer is posted")?;
        let opcode = match expected.kind {
            Kind::WriteImm => WcOpcode::RECV_RDMA_WITH_IMM,
            _ => WcOpcode::RECV,
        };
        ensure!(wc.opcode == opcode, "the opcode should be {opcode:?}");
        ensure!(wc.byte_len as usize == expected.len, "the length is wrong");
        ensure!(wc.imm == expected.imm, "the immediate data is wrong");
        ensure!(wc.solicited == expected.solicited, "the flags are wrong");

        let Buffer { pieces, .. } = std::mem::take(&mut self.buffers[buffer]);
        if expected.kind == Kind::WriteImm {
            let start = mailbox(sender).start;
            let place = start + expected.place.start..start + expected.place.end;
            // SAFETY: The sender leaves it alone until it is told that it was taken.
            check_contents(expected, 0, unsafe { self.memory.bytes(place) })?;
            self.check_mark(buffer, Self::head(&pieces), "the buffer was written to")?;
        } else {
            let mut at = 0;
            for range in filled(&pieces, expected.len) {
                let range = Self::in_space(buffer, range);
                // SAFETY: It has completed.
                let bytes = unsafe { self.space.bytes(range) };
                check_contents(expected, at, bytes)?;
                at += bytes.len();
            }
        }
        for gap in gaps(&pieces) {
            self.check_mark(buffer, gap, "something was written beside the pieces")?;
        }
        Ok(())
    }

    fn check_mark(&self, buffer: usize, range: Range<usize>, what: &str) -> Result<()> {
        let range = Self::in_space(buffer, range);
        // SAFETY: It is not posted any more.
        let bytes = unsafe { self.space.bytes(range) };
        if bytes.iter().any(|byte| *byte != MARK) {
            bail!("{what}: {bytes:02x?}");
        }
        Ok(())
    }

    /// Messages that have come.
    pub fn count(&self) -> u64 {
        self.tallies.iter().map(|t| t.sum(|_| true).messages).sum()
    }

    /// So many messages are to come from each sender.
    pub fn set_goal(&mut self, goal: [u64; SENDERS]) {
        self.goal = Some(goal);
    }

    /// Whether all messages have come, if that is known. More than all is an error.
    pub fn is_complete(&self) -> Result<bool> {
        let Some(goal) = self.goal else {
            return Ok(false);
        };
        let counts = self.counts();
        if counts.iter().zip(&goal).any(|(count, goal)| count > goal) {
            bail!(
                "SRQ {} got {counts:?} messages, but {goal:?} were sent",
                self.index
            );
        }
        Ok(counts == goal)
    }

    fn counts(&self) -> [u64; SENDERS] {
        std::array::from_fn(|sender| self.tallies[sender].sum(|_| true).messages)
    }

    /// The kernel counts as we do, and nothing waits.
    pub fn check_kernel(&self, xrcd: &Xrcd) -> Result<()> {
        let info = self.info(xrcd)?;
        ensure!(
            !info.error && info.waiting_msgs == 0 && info.recv_msgs == self.count(),
            "of SRQ {}, which got {} messages, the kernel says {info:?}",
            self.index,
            self.count()
        );
        Ok(())
    }

    fn info(&self, xrcd: &Xrcd) -> Result<ibxrc::SrqInfo> {
        xrcd.srqs()?
            .into_iter()
            .find(|srq| srq.srq_num == self.num())
            .ok_or_else(|| anyhow!("the domain does not have SRQ {}", self.num()))
    }

    /// What there was, in the end.
    pub fn received(&self) -> Received {
        let hash_of = |sender| {
            // SAFETY: The senders are done.
            hash(unsafe { self.memory.bytes(area(sender)) })
        };
        Received {
            tallies: self.tallies.clone(),
            added: self.memory.word(ADDED).load(Ordering::Acquire),
            swapped: self.memory.word(SWAPPED).load(Ordering::Acquire),
            areas: std::array::from_fn(hash_of),
            backlogs: self.backlogs,
            limits: self.limits,
        }
    }

    /// Where it stands.
    pub fn state(&self, xrcd: &Xrcd) -> String {
        let posted = self.buffers.iter().filter(|b| b.wr_id.is_some()).count();
        let goal = match self.goal {
            Some(goal) => format!(" of {goal:?}"),
            None => String::new(),
        };
        let kernel = match self.info(xrcd) {
            Ok(info) => format!("{info:?}"),
            Err(error) => error.to_string(),
        };
        format!(
            "SRQ {} ({}): received {:?}{goal}, {posted} buffers posted{}, held back {} times; \
             {kernel}",
            self.index,
            self.num(),
            self.counts(),
            if self.held_until.is_some() {
                ", the others held"
            } else {
                ""
            },
            self.backlogs,
        )
    }

    /// Closes everything.
    pub fn close(self) -> Result<()> {
        self.srq.close()?;
        self.mr.close()?;
        Ok(())
    }
}

fn check_contents(expected: &Message, at: usize, bytes: &[u8]) -> Result<()> {
    expected.content.check(at, bytes).map_err(|wrong| {
        let end = bytes.len().min(wrong + 16);
        anyhow!("byte {} is wrong: {:02x?}", at + wrong, &bytes[wrong..end])
    })
}
