// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The sender's side: an ordinary RC QP of libibverbs.
//!
//! A request of the user may become many of the RC QP, or two. [`IniQp`] keeps book:
//! [`engine`] knows which goes when and what a completion means, [`work`] what it looks
//! like, [`memory`] has the headers and copies of inline data.

mod engine;
mod libibverbs;
mod memory;
#[cfg(test)]
mod model;
mod qp;
mod work;

pub use qp::{IniQp, IniQpAttr};
