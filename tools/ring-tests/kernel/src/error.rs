// SPDX-License-Identifier: GPL-2.0

//! Errnos.

use std::convert::Infallible;

/// An errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(&'static str);

/// `EBUSY`
pub const EBUSY: Error = Error("EBUSY");
/// `EFAULT`
pub const EFAULT: Error = Error("EFAULT");
/// `EINVAL`
pub const EINVAL: Error = Error("EINVAL");
/// `EIO`
pub const EIO: Error = Error("EIO");
/// `ENOMEM`
pub const ENOMEM: Error = Error("ENOMEM");
/// `EOVERFLOW`
pub const EOVERFLOW: Error = Error("EOVERFLOW");
/// `EPERM`
pub const EPERM: Error = Error("EPERM");

/// As the kernel's.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
