// SPDX-License-Identifier: GPL-2.0

//! The ring of an SRQ: the process produces, the kernel consumes.

use std::{cell::RefCell, mem::offset_of, sync::Arc};

use ibxrc::uapi::ib_xrc_srq_ring;
use kernel::prelude::*;

use crate::{
    linux::user_memory::UserMemory,
    rdma::qp::QpError,
    ring::{Memory, SrqRing},
    shared::Shared,
};

use super::recv_ring::{RecvRing, RecvWr};

/// The kernel's side.
pub struct Consumer {
    ring: Arc<RecvRing>,
    consumer: u32,
}

/// The process' side.
pub struct Producer {
    ring: SrqRing<Shared>,
    memory: Shared,
    /// It owns the memory.
    _ring: Arc<RecvRing>,
}

/// A work request that the kernel has read.
pub struct Request(RecvWr);

/// What has become of data for a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scattered {
    /// It is there.
    All,
    /// There is no room for it.
    TooLong,
    /// Its place cannot be written to.
    Fault,
}

/// Makes an SRQ of at least `max_wr` work requests of `max_sge` entries, of which `start` were
/// used before.
pub fn srq(max_wr: u32, max_sge: u32, start: u32) -> (Producer, Consumer) {
    let ring = Arc::new(RecvRing::new(max_wr, max_sge).unwrap());
    // SAFETY: The producer keeps the ring.
    let memory = unsafe { Shared::map(ring.memory()) };
    ring.take(start).unwrap();
    memory.store(offset_of!(ib_xrc_srq_ring, producer), start);
    let producer = Producer {
        ring: SrqRing::new(memory, &ring.info(0), max_sge).unwrap(),
        memory,
        _ring: ring.clone(),
    };
    assert_eq!(producer.ring.entries(), ring.entries());
    let consumer = Consumer {
        ring,
        consumer: start,
    };
    (producer, consumer)
}

impl Producer {
    /// Work requests that fit.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Posts a work request, if it can be.
    pub fn post(&mut self, wr_id: u64, sges: &[(u64, u32)]) -> bool {
        self.ring.post(wr_id, sges.iter().copied()).is_ok()
    }

    /// Whether the kernel is to be told.
    pub fn need_kick(&self) -> bool {
        self.ring.need_kick()
    }

    /// Bytes of the ring.
    pub fn size(&self) -> usize {
        self.memory.len()
    }

    /// Writes to the ring whatever it likes.
    pub fn scribble(&self, offset: usize, word: u32) {
        self.memory.store(offset, word);
    }
}

impl Consumer {
    /// How many wait, as the process says.
    pub fn posted(&self) -> u32 {
        self.ring.posted(self.consumer).unwrap()
    }

    /// Reads the next one.
    pub fn read(&self) -> Result<Option<Request>> {
        Ok(self.ring.read(self.consumer)?.map(Request))
    }

    /// Has taken it.
    pub fn take(&mut self) {
        self.consumer = self.consumer.wrapping_add(1);
        self.ring.take(self.consumer).unwrap();
    }

    /// Tells `enum ib_xrc_srq_ring_flags`.
    pub fn set_flags(&self, flags: u32) {
        self.ring.set_flags(flags);
    }
}

impl Request {
    /// What its completion carries.
    pub fn wr_id(&self) -> u64 {
        self.0.wr_id
    }

    /// Copies `data` to behind the first `skip` bytes of its buffers. `memory` is what is mapped,
    /// from address `start` on.
    pub fn scatter(&self, start: u64, memory: &mut Vec<u8>, skip: u64, data: &[u8]) -> Scattered {
        let user = UserMemory {
            start,
            bytes: RefCell::new(std::mem::take(memory)),
        };
        let result = self.0.scatter(&user, skip, data);
        *memory = user.bytes.into_inner();
        match result.unwrap() {
            None => Scattered::All,
            Some(QpError::Request) => Scattered::TooLong,
            Some(QpError::Access) => Scattered::Fault,
        }
    }
}
