// SPDX-License-Identifier: GPL-2.0

//! Buffers for receiving.

use core::{ptr::NonNull, slice};

use kernel::{
    alloc::Flags,
    prelude::*, //
};

use crate::bindings;

/// Bytes of a receive buffer.
pub(crate) const RECV_BUFFER_SIZE: usize = 4096;

type Data = [u8; RECV_BUFFER_SIZE];

/// A buffer and what is needed to post it.
///
/// It is known by its address while it is posted.
pub(super) struct Slot {
    /// What the core calls on completion.
    pub(super) cqe: bindings::ib_cqe,
    /// Where the queue it is posted to keeps it.
    pub(super) index: usize,
    /// Where the device sees it while it is posted.
    pub(super) dma_addr: u64,
    /// Bytes received.
    len: usize,
    /// Of a `KBox`, initialised. The device writes to it while it is posted, so there is no
    /// reference to it then.
    data: NonNull<Data>,
}

/// A receive buffer that is not posted: memory and nothing else. It holds no device.
///
/// # Invariants
///
/// `0` comes from a `KBox`, is owned, and not known to any device; so is its `data`.
pub(crate) struct RecvBuffer(NonNull<Slot>);

// SAFETY: It owns memory, which any thread may use and free.
unsafe impl Send for RecvBuffer {}
// SAFETY: A shared reference only reads.
unsafe impl Sync for RecvBuffer {}

impl RecvBuffer {
    /// Allocates a buffer. May sleep.
    pub(crate) fn new(flags: Flags) -> Result<Self> {
        let data = KBox::<Data>::zeroed(flags)?;
        let slot = KBox::new_uninit(flags)?;
        let slot = slot.write(Slot {
            cqe: bindings::ib_cqe { done: None },
            index: 0,
            dma_addr: 0,
            len: 0,
            data: NonNull::from(KBox::leak(data)),
        });

        // INVARIANT: Both were just allocated.
        Ok(Self(NonNull::from(KBox::leak(slot))))
    }

    /// What was received. Nothing before the buffer has been posted.
    pub(crate) fn data(&self) -> &[u8] {
        // SAFETY: By the type invariants it is ours and initialised, and `set_len` sees to
        // `len` being within it.
        unsafe {
            let slot = self.0.as_ref();
            slice::from_raw_parts(slot.data.as_ptr().cast(), slot.len)
        }
    }

    /// Says how much has been received.
    pub(super) fn set_len(&mut self, len: usize) {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_mut() }.len = len.min(RECV_BUFFER_SIZE);
    }

    /// Where the data is.
    pub(super) fn data_ptr(&self) -> *mut Data {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }.data.as_ptr()
    }

    /// Gives up the ownership, to post it.
    pub(super) fn into_raw(self) -> NonNull<Slot> {
        let slot = self.0;

        core::mem::forget(self);
        slot
    }

    /// # Safety
    ///
    /// `slot` is from `into_raw`, for which this is called once, and no device knows it.
    pub(super) unsafe fn from_raw(slot: NonNull<Slot>) -> Self {
        // INVARIANT: The caller says so.
        Self(slot)
    }
}

impl Drop for RecvBuffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        let slot = unsafe { KBox::from_raw(self.0.as_ptr()) };
        // SAFETY: By the type invariants; `slot` is not used any more but to free it.
        drop(unsafe { KBox::from_raw(slot.data.as_ptr()) });
    }
}
