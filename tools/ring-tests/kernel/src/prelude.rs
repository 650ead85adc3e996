// SPDX-License-Identifier: GPL-2.0

//! What everybody needs.

pub use crate::{
    alloc::flags::GFP_KERNEL_ACCOUNT,
    error::{Error, Result, EBUSY, EFAULT, EINVAL, EIO, ENOMEM, EOVERFLOW, EPERM},
    pin_init,
};
pub use model_macros::pin_data;
