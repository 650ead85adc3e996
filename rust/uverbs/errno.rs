// SPDX-License-Identifier: GPL-2.0

//! The errors of the framing.
//!
//! Pure: needs `core` only, so that it is tested on the host too.

/// Why a call is refused before its handler runs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// Resource is in use, or in the wrong kind of use.
    Busy,
    /// The call is malformed.
    Inval,
    /// What has been given beyond what the kernel knows is not zero.
    OpNotSupp,
    /// The kernel does not know the object, the method or a mandatory attribute.
    ProtoNoSupport,
}
