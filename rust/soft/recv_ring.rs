// SPDX-License-Identifier: GPL-2.0

//! The ring into which userspace posts the buffers of an SRQ.

use kernel::prelude::*;

use crate::{
    bindings,
    linux::{
        shared_memory::SharedMemory,
        user_memory::UserMemory, //
    },
    rdma::qp::QpError,
};

use super::ring::{
    ring_offset,
    MAX_SRQ_SGE, //
};

const CONSUMER: usize = core::mem::offset_of!(bindings::ib_xrc_srq_ring, consumer);
const FLAGS: usize = core::mem::offset_of!(bindings::ib_xrc_srq_ring, flags);
const PRODUCER: usize = core::mem::offset_of!(bindings::ib_xrc_srq_ring, producer);
const WQE_SIZE: usize = size_of::<bindings::ib_xrc_recv_wqe>();
const SGE_SIZE: usize = size_of::<bindings::ib_uverbs_sge>();

/// The ring of an SRQ. Userspace may write anything into it at any time: the kernel keeps what it
/// relies on itself.
pub(super) struct RecvRing {
    memory: SharedMemory,
    /// A power of two.
    entries: u32,
    max_sge: u32,
    stride: usize,
}

impl RecvRing {
    /// An empty ring for at least `max_wr` work requests of `max_sge` scatter entries. Sleeps.
    pub(super) fn new(max_wr: u32, max_sge: u32) -> Result<Self> {
        let entries = max_wr.checked_next_power_of_two().ok_or(EINVAL)?;
        let stride = (max_sge as usize)
            .saturating_mul(SGE_SIZE)
            .saturating_add(WQE_SIZE);

        Ok(Self {
            memory: SharedMemory::new(ring_offset(entries, stride))?,
            entries,
            max_sge,
            stride,
        })
    }

    /// The memory, to be mapped.
    pub(super) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Work requests that fit.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Scatter entries of a work request.
    pub(super) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Where it is and how to read it.
    pub(super) fn info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info {
        bindings::ib_xrc_ring_info {
            mmap_offset,
            mmap_length: self.memory.len() as u64,
            entries: self.entries,
            stride: self.stride as u32,
        }
    }

    /// How many work requests are posted, as userspace says, if `consumer` were taken.
    pub(super) fn posted(&self, consumer: u32) -> Result<u32> {
        Ok(self
            .memory
            .load_acquire_u32(PRODUCER)?
            .wrapping_sub(consumer))
    }

    /// Reads the work request after the `consumer` that were taken. `EINVAL`: what userspace wrote
    /// makes no sense.
    pub(super) fn read(&self, consumer: u32) -> Result<Option<RecvWr>> {
        let posted = self.posted(consumer)?;

        if posted == 0 {
            return Ok(None);
        }
        if posted > self.entries {
            return Err(EINVAL);
        }

        // Each word is read once: userspace may write it meanwhile.
        let index = consumer & self.entries.wrapping_sub(1);
        let mut at = ring_offset(index, self.stride);
        let wqe: bindings::ib_xrc_recv_wqe = self.memory.read(at)?;

        if wqe.num_sge > self.max_sge || wqe.reserved != 0 {
            return Err(EINVAL);
        }

        let mut wr = RecvWr {
            wr_id: wqe.wr_id,
            sges: [Default::default(); MAX_SRQ_SGE as usize],
            num_sge: wqe.num_sge as usize,
        };

        at = at.saturating_add(WQE_SIZE);
        for sge in wr.sges.iter_mut().take(wr.num_sge) {
            *sge = self.memory.read(at)?;
            at = at.saturating_add(SGE_SIZE);
        }
        Ok(Some(wr))
    }

    /// Tells userspace that `consumer` work requests were taken.
    pub(super) fn take(&self, consumer: u32) -> Result {
        self.memory.store_release_u32(CONSUMER, consumer)
    }

    /// Tells userspace `enum ib_xrc_srq_ring_flags`.
    pub(super) fn set_flags(&self, flags: u32) {
        // The offset is right, so this cannot fail.
        let _ = self.memory.store_release_u32(FLAGS, flags);
    }
}

/// A receive work request, copied from the ring.
pub(super) struct RecvWr {
    /// What its completion carries.
    pub(super) wr_id: u64,
    sges: [bindings::ib_uverbs_sge; MAX_SRQ_SGE as usize],
    num_sge: usize,
}

impl RecvWr {
    fn sges(&self) -> impl Iterator<Item = &bindings::ib_uverbs_sge> {
        self.sges.iter().take(self.num_sge)
    }

    /// Copies `data` into the buffers, after the first `skip` bytes of them. Returns why that is not
    /// possible. `EBUSY`: the owner keeps its memory locked.
    pub(super) fn scatter(
        &self,
        memory: &UserMemory,
        mut skip: u64,
        mut data: &[u8],
    ) -> Result<Option<QpError>> {
        let room = self
            .sges()
            .fold(0u64, |room, sge| room.saturating_add(sge.length.into()));

        if room.saturating_sub(skip) < data.len() as u64 {
            return Ok(Some(QpError::Request));
        }
        for sge in self.sges() {
            let length = u64::from(sge.length);
            let start = skip.min(length);

            skip = skip.saturating_sub(start);

            let room = length.saturating_sub(start) as usize;
            let (now, later) = data.split_at(data.len().min(room));
            let Some(addr) = sge.addr.checked_add(start) else {
                return Ok(Some(QpError::Access));
            };

            match memory.write(addr, now) {
                Ok(()) => {}
                Err(error) if error == EBUSY => return Err(error),
                Err(_) => return Ok(Some(QpError::Access)),
            }
            data = later;
        }
        Ok(None)
    }
}
