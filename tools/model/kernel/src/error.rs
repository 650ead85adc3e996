// SPDX-License-Identifier: GPL-2.0

//! Errnos.

use std::convert::Infallible;

/// An errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(&'static str);

/// `EINVAL`
pub const EINVAL: Error = Error("EINVAL");
/// `EIO`
pub const EIO: Error = Error("EIO");
/// `EOVERFLOW`
pub const EOVERFLOW: Error = Error("EOVERFLOW");
/// `ESTALE`
pub const ESTALE: Error = Error("ESTALE");

/// As the kernel's.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
