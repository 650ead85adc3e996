// SPDX-License-Identifier: GPL-2.0

//! Memory barriers.

use std::sync::atomic::{fence, Ordering};

/// Orders all before it before all behind it.
pub struct Full;

/// A barrier between CPUs.
pub fn smp_mb(_: Full) {
    fence(Ordering::SeqCst);
}
