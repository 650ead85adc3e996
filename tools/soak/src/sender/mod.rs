// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A process that sends.

mod connection;
mod pending;
mod process;
mod target;

pub use process::live;
