// SPDX-License-Identifier: GPL-2.0

//! The core as the module has it.

#[path = "../../../rust/rdma/gate.rs"]
pub(crate) mod gate;
#[path = "../../../rust/xrc/lifetime/mod.rs"]
pub(crate) mod lifetime;

#[path = "protocols/mod.rs"]
pub(crate) mod protocols;
#[path = "world/mod.rs"]
pub(crate) mod world;
