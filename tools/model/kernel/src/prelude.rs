// SPDX-License-Identifier: GPL-2.0

//! What everybody needs.

pub use crate::{
    error::{Error, Result, EINVAL, EIO, EOVERFLOW, ESTALE},
    init::PinInit,
    pin_init, try_pin_init,
};
pub use model_macros::pin_data;

/// What an allocation may do.
#[derive(Clone, Copy, Debug)]
pub struct Flags;

/// Allocations that are charged to the calling process.
pub const GFP_KERNEL_ACCOUNT: Flags = Flags;
