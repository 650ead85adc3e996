// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A process that receives.

mod inbox;
mod process;
mod waiter;

pub use process::{live, Options};
