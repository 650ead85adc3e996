// SPDX-License-Identifier: GPL-2.0

//! The ring of a CQ: the kernel produces, the process consumes.

use std::{
    sync::mpsc::{channel, Receiver},
    time::Duration,
};

use ibxrc::uapi::ib_xrc_cqe;
use kernel::{prelude::*, sync::Arc};

use crate::{
    ring::{CqRing, CqState, Memory},
    shared::Shared,
    xrc::{backend::Cq, comp_channel::CqNotifier, removal::RemovalListener},
};

use super::cq::SoftCq;

/// A completion of which each byte tells the number.
pub fn completion(number: u64) -> ib_xrc_cqe {
    let n = number as u32;
    ib_xrc_cqe {
        wr_id: number,
        srq_user_handle: !number,
        status: n,
        opcode: n,
        byte_len: n,
        wc_flags: n,
        imm_data: n,
        srq_num: n,
        qp_num: n,
        src_qp: n,
        reserved: [n; 4],
    }
}

/// The kernel's side.
pub struct Producer(Arc<SoftCq>);

/// The process' side.
pub struct Consumer {
    ring: CqRing<Shared>,
    memory: Shared,
    events: Receiver<()>,
    /// It owns the memory.
    _cq: Arc<SoftCq>,
}

/// Makes a CQ of at least `cqe` entries.
pub fn cq(cqe: u32) -> (Producer, Consumer) {
    let (sender, events) = channel();
    let cq = SoftCq::new(cqe, Some(CqNotifier(sender))).unwrap();
    // SAFETY: The consumer keeps the CQ.
    let memory = unsafe { Shared::map(cq.ring()) };
    let consumer = Consumer {
        ring: CqRing::new(memory, &cq.ring_info(0)).unwrap(),
        memory,
        events,
        _cq: cq.clone(),
    };
    (Producer(cq), consumer)
}

impl Producer {
    /// Completes number `number`.
    pub fn complete(&self, number: u64, solicited: bool) -> Result {
        self.0.complete(&completion(number), solicited)
    }

    /// The device goes.
    pub fn device_removed(&self) {
        self.0.device_removed();
    }
}

impl Consumer {
    /// Completions that fit.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Takes up to `max` completions.
    pub fn poll(&mut self, max: usize) -> Vec<ib_xrc_cqe> {
        let mut taken = Vec::new();
        let n = self.ring.poll(max, |cqe| taken.push(cqe));
        assert_eq!(n, taken.len());
        taken
    }

    /// Asks for an event. Returns whether completions wait.
    pub fn arm(&mut self, solicited_only: bool) -> bool {
        self.ring.arm(solicited_only)
    }

    /// Asks for none.
    pub fn disarm(&mut self) {
        self.ring.disarm();
    }

    /// Whether a completion was lost.
    pub fn overflown(&self) -> bool {
        self.ring.state() == CqState::Overflow
    }

    /// Whether the device has gone.
    pub fn dead(&self) -> bool {
        self.ring.state() == CqState::Dead
    }

    /// Whether an event comes within `timeout`.
    pub fn event(&self, timeout: Duration) -> bool {
        self.events.recv_timeout(timeout).is_ok()
    }

    /// How many events have come.
    pub fn events(&self) -> usize {
        self.events.try_iter().count()
    }

    /// Reads a word of the ring.
    pub fn word(&self, offset: usize) -> u32 {
        self.memory.load(offset)
    }

    /// Writes to the ring whatever it likes.
    pub fn scribble(&self, offset: usize, word: u32) {
        self.memory.store(offset, word);
    }
}
