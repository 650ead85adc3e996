// SPDX-License-Identifier: GPL-2.0

//! The memory that a ring is in, and that of the process that owns it.

#[path = "../../../../rust/linux/shared_memory.rs"]
pub(crate) mod shared_memory;
pub(crate) mod user_memory;
