// SPDX-License-Identifier: GPL-2.0

//! Sleeping which a process that is killed does not wait for the end of.
//!
//! C header: [`include/linux/sched.h`](srctree/include/linux/sched.h)

use kernel::{
    ffi::c_long,
    time::msecs_to_jiffies, //
};

use crate::bindings;

/// Sleeps for about a millisecond, or until a fatal signal comes. Process context.
pub(crate) fn sleep_killable() {
    // CAST: One or a few jiffies.
    // SAFETY: Takes any time, and the caller may sleep.
    unsafe { bindings::schedule_timeout_killable(msecs_to_jiffies(1) as c_long) };
}

/// Whether the calling thread is to die. Process context.
pub(crate) fn fatal_signal_pending() -> bool {
    // SAFETY: Looks at the calling thread.
    unsafe { bindings::ib_xrc_helper_fatal_signal_pending() }
}
