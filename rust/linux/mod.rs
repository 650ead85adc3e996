// SPDX-License-Identifier: GPL-2.0

//! Safe Rust over facilities of the kernel for which the kernel crate has nothing yet.
//!
//! Knows neither verbs nor XRC. Users of these types write no `unsafe`.

pub(crate) mod anon_file;
pub(crate) mod chardev;
pub(crate) mod inode;
mod mmap;
pub(crate) mod own_memory;
pub(crate) mod shared_memory;
pub(crate) mod sleep;
pub(crate) mod user_memory;
pub(crate) mod workqueue;
