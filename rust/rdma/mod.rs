// SPDX-License-Identifier: GPL-2.0

//! Safe Rust over the kernel's verbs.
//!
//! It knows nothing of XRC domains; only [`qp_attr`] knows which transitions an XRC TGT QP
//! may make.
//!
//! # Who may call what where
//!
//! | function | context |
//! |---|---|
//! | what only reads a [`Device`](device::Device), [`Device::enter`](device::Device::enter) | any |
//! | making a [`Pd`](pd::Pd), [`Mr`](mr::Mr) or [`Qp`](qp::Qp), modify, query | process, inside the device's gate |
//! | dropping a `Pd`, `Mr` or `Qp` | process; not from a [`QpHandler`](qp::QpHandler) |
//! | [`RecvQueue::post`](recv_queue::RecvQueue::post) | process, with no spinlock held that `QpHandler::error` takes |
//! | `QpHandler::received`, `flushed` | run in a workqueue, one at a time per QP; may sleep and post |
//! | `QpHandler::error` | runs in any context, at any time until the `Qp` has been dropped |
//! | [`Client`](client::Client) | its functions run in process context |
//!
//! # Removal
//!
//! Making an object needs a [`GateGuard`](gate::GateGuard), and each object counts itself on
//! its device. When the device goes, the gate is closed and drained, the client drops its
//! objects, and the removal waits for the count to fall to zero. So an object's driver is
//! there as long as the object is, and dropping one needs no guard. What is left of a device
//! then, a [`Device`](device::Device) or a [`RecvBuffer`](recv_buffer::RecvBuffer), is memory.

pub(crate) mod cgroup;
pub(crate) mod client;
pub(crate) mod device;
mod device_events;
pub(crate) mod gate;
pub(crate) mod mr;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod qp_attr;
pub(crate) mod recv_buffer;
pub(crate) mod recv_queue;
pub(crate) mod wc;
