// SPDX-License-Identifier: GPL-2.0

//! What the module's rings use of the kernel crate, on the host.
//!
//! Names, types and meaning are the kernel's.

pub mod alloc;
pub mod error;
#[path = "../../../model/kernel/src/init.rs"]
pub mod init;
pub mod mm;
pub mod page;
pub mod prelude;
pub mod sync;
pub mod transmute;
