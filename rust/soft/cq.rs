// SPDX-License-Identifier: GPL-2.0

//! Completion queues: rings that userspace polls.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        barrier::{
            smp_mb,
            Full, //
        },
        Arc,
        SpinLock, //
    },
};

use crate::{
    bindings,
    linux::shared_memory::SharedMemory,
    xrc::{
        backend::Cq,
        comp_channel::CqNotifier,
        removal::RemovalListener, //
    },
};

use super::ring::ring_offset;

const PRODUCER: usize = core::mem::offset_of!(bindings::ib_xrc_cq_ring, producer);
const FLAGS: usize = core::mem::offset_of!(bindings::ib_xrc_cq_ring, flags);
const CONSUMER: usize = core::mem::offset_of!(bindings::ib_xrc_cq_ring, consumer);
const ARM: usize = core::mem::offset_of!(bindings::ib_xrc_cq_ring, arm);
const STRIDE: usize = size_of::<bindings::ib_xrc_cqe>();

/// A CQ.
#[pin_data]
pub(crate) struct SoftCq {
    ring: SharedMemory,
    /// A power of two.
    entries: u32,
    notifier: Option<CqNotifier>,
    #[pin]
    state: SpinLock<State>,
}

struct State {
    /// The kernel's own copy: the one in the ring is for userspace to read.
    producer: u32,
    flags: u32,
}

impl SoftCq {
    /// Makes an empty CQ of at least `cqe` entries, at most [`MAX_CQE`](super::ring::MAX_CQE). Sleeps.
    pub(super) fn new(cqe: u32, notifier: Option<CqNotifier>) -> Result<Arc<Self>> {
        let entries = cqe.checked_next_power_of_two().ok_or(EINVAL)?;
        let ring = SharedMemory::new(ring_offset(entries, STRIDE))?;

        Arc::pin_init(
            pin_init!(Self {
                ring,
                entries,
                notifier,
                state <- new_spinlock!(
                    State {
                        producer: 0,
                        flags: 0,
                    },
                    "SoftCq::state"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Adds a completion. Does not sleep.
    ///
    /// `EOVERFLOW`: the ring is full. The completion is lost, userspace is told by
    /// `IB_XRC_CQ_RING_OVERFLOW`, and the CQ takes no more. `EIO`: the device is gone.
    pub(super) fn complete(&self, cqe: &bindings::ib_xrc_cqe, solicited: bool) -> Result {
        let mut state = self.state.lock();

        if state.flags & bindings::IB_XRC_CQ_RING_OVERFLOW != 0 {
            return Err(EOVERFLOW);
        }
        if state.flags & bindings::IB_XRC_CQ_RING_DEAD != 0 {
            return Err(EIO);
        }

        // An index that makes no sense says that the ring is full.
        let consumer = self.ring.load_acquire_u32(CONSUMER)?;
        let result = if state.producer.wrapping_sub(consumer) < self.entries {
            let index = state.producer & self.entries.wrapping_sub(1);

            self.ring.write(ring_offset(index, STRIDE), cqe)?;
            state.producer = state.producer.wrapping_add(1);
            self.ring.store_release_u32(PRODUCER, state.producer)
        } else {
            state.flags |= bindings::IB_XRC_CQ_RING_OVERFLOW;
            self.ring.store_release_u32(FLAGS, state.flags)?;
            Err(EOVERFLOW)
        };

        self.raise(solicited || result.is_err())?;
        result
    }

    /// Raises an event if userspace asked for one. Called with the lock held, so that two
    /// completions cannot both answer one arming.
    fn raise(&self, solicited: bool) -> Result {
        // Pairs with the barrier between arming and polling once more: either userspace sees the
        // completion, or this sees that it has armed.
        smp_mb(Full);

        let arm = self.ring.load_relaxed_u32(ARM)?;

        if arm == bindings::IB_XRC_CQ_ARM_NONE
            || arm == bindings::IB_XRC_CQ_ARM_SOLICITED && !solicited
        {
            return Ok(());
        }

        self.ring.xchg_u32(ARM, bindings::IB_XRC_CQ_ARM_NONE)?;
        if let Some(notifier) = &self.notifier {
            notifier.notify();
        }
        Ok(())
    }
}

impl Cq for SoftCq {
    fn ring(&self) -> &SharedMemory {
        &self.ring
    }

    fn ring_info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info {
        bindings::ib_xrc_ring_info {
            mmap_offset,
            mmap_length: self.ring.len() as u64,
            entries: self.entries,
            stride: STRIDE as u32,
        }
    }
}

impl RemovalListener for SoftCq {
    fn device_removed(&self) {
        let mut state = self.state.lock();

        state.flags |= bindings::IB_XRC_CQ_RING_DEAD;
        // The offset is right, so this cannot fail.
        let _ = self.ring.store_release_u32(FLAGS, state.flags);
    }
}
