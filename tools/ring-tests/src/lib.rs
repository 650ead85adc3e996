// SPDX-License-Identifier: GPL-2.0

//! The rings, with the module's side and the library's side of each: both are the source
//! that is used, over [`kernel`], which has what the module needs of the kernel.

#![allow(dead_code)]

mod linux;
mod rdma;
mod shared;
pub mod soft;
mod xrc;

use ibxrc::uapi as bindings;

/// The library's side.
#[path = "../../libibxrc/src/ring.rs"]
mod ring;

// What that has from its crate.
#[allow(clippy::enum_variant_names)] // The name is part of what the library offers.
#[path = "../../libibxrc/src/error.rs"]
mod error;
#[path = "../../libibxrc/src/framing.rs"]
mod framing;
use ibxrc::uapi;
mod cq {
    pub(crate) use ibxrc::WcStatus;
}
mod qp_attr {
    pub(crate) use ibxrc::QpState;
}
