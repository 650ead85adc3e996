// SPDX-License-Identifier: GPL-2.0

//! XRC domains: who owns a TGT QP, and when it dies.
//!
//! The domain logic ([`domain`], [`tgt_qp`], [`device`]) knows the [`backend`] trait only; who keeps
//! a TGT QP, and what makes it go, is decided in its [`lifetime`] core. An open
//! file is a [`context`], its handles stand for an [`object`], and [`methods`] has a table for each
//! call. The lock order stands in `Documentation/locking.rst`. There is no unsafe code here.

pub(crate) mod backend;
mod binding;
pub(crate) mod comp_channel;
pub(crate) mod context;
pub(crate) mod device;
mod domain;
pub(crate) mod event_file;
mod event_queue;
mod holders;
mod lifetime;
mod linger;
mod list;
mod methods;
mod object;
mod policy;
mod quota;
pub(crate) mod registry;
pub(crate) mod removal;
pub(crate) mod srq_num;
mod subscribers;
pub(crate) mod tgt_qp;
mod users;
mod wait;
pub(crate) mod workqueues;
