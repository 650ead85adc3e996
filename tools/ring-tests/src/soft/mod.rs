// SPDX-License-Identifier: GPL-2.0

//! The module's side of the rings, and what tests have of both sides.

pub mod completions;
#[path = "../../../../rust/soft/cq.rs"]
mod cq;
pub mod receives;
#[path = "../../../../rust/soft/recv_ring.rs"]
mod recv_ring;
#[path = "../../../../rust/soft/ring.rs"]
mod ring;
