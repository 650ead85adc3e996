// SPDX-License-Identifier: GPL-2.0

//! The lifetime core: who keeps a TGT QP, and what makes it go.
//!
//! It uses the kernel crate's locks, atomics and trees and nothing else of the kernel, so that the
//! same source is compiled on the host, where `tools/model` runs it under a model checker in all
//! orders that its steps can come in. So is `rdma/gate.rs`.

pub(crate) mod members;
pub(crate) mod state;
