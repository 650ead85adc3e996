// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel module's ioctl framing that need nothing but `core`, with their tests.

#![allow(dead_code)]

#[path = "../../../rust/uverbs/errno.rs"]
mod errno;
#[path = "../../../rust/uverbs/spec.rs"]
mod spec;
#[path = "../../../rust/uverbs/usage.rs"]
mod usage;
#[path = "../../../rust/uverbs/wire.rs"]
mod wire;
