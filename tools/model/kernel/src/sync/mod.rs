// SPDX-License-Identifier: GPL-2.0

//! Locks and references.

pub mod atomic;
mod mutex;
pub mod srcu;

pub use self::{mutex::Mutex, srcu::Srcu};

/// Not loom's: that an object lives until its last reference goes is the kernel's matter, and the
/// steps of counting would only multiply the orders to explore.
pub use std::sync::Arc;
