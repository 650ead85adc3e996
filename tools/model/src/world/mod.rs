// SPDX-License-Identifier: GPL-2.0

//! What the module has around the core, of which `rust/xrc/{tgt_qp,domain}.rs` and
//! `rust/rdma/client.rs` are the originals, and a device that complains.

mod device;
mod domain;
mod tgt_qp;

pub(crate) use self::{
    domain::{Domain, Registration},
    tgt_qp::TgtQp,
};
