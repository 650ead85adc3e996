// SPDX-License-Identifier: GPL-2.0

//! What the lifetime core uses of the kernel crate, on a model checker.
//!
//! Names, types and meaning are the kernel's. What threads share is made of loom's types, so that
//! every access is a step that others may come before or after.

pub mod error;
pub mod init;
pub mod prelude;
pub mod rbtree;
pub mod sync;
