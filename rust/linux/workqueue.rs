// SPDX-License-Identifier: GPL-2.0

//! A workqueue of one's own, which can be waited for.
//!
//! Work on a system workqueue may still run when the module that queued it is unloaded; nothing in
//! the kernel crate waits for it.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    prelude::*,
    workqueue::Queue, //
};

use crate::bindings;

/// An unbound workqueue.
///
/// # Invariants
///
/// `ptr` is a workqueue that `alloc_workqueue()` has made and nobody has destroyed.
pub(crate) struct Workqueue {
    ptr: NonNull<bindings::workqueue_struct>,
}

// SAFETY: Workqueues may be used, and destroyed, from any thread.
unsafe impl Send for Workqueue {}
// SAFETY: As above; all operations do their own locking.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Makes a workqueue that runs as many items at a time as the kernel allows. Sleeps.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: The format and its one argument are strings, and fit each other.
        let ptr = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                bindings::wq_flags_WQ_UNBOUND,
                bindings::wq_consts_WQ_MAX_ACTIVE as kernel::ffi::c_int,
                name.as_char_ptr(),
            )
        };

        // INVARIANT: Just made.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
        })
    }

    /// Waits until no item is left; until it returns only running items may queue others. Sleeps.
    pub(crate) fn drain(&self) {
        // SAFETY: By the type invariant this is a live workqueue.
        unsafe { bindings::drain_workqueue(self.ptr.as_ptr()) };
    }
}

impl Deref for Workqueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant this is a workqueue, which lives as long as `self`.
        unsafe { Queue::from_raw(self.ptr.as_ptr()) }
    }
}

impl Drop for Workqueue {
    /// Waits for the items that are left. Must not run on the workqueue itself.
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is a live workqueue, and with `self` its last user
        // goes.
        unsafe { bindings::destroy_workqueue(self.ptr.as_ptr()) };
    }
}
