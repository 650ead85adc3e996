// SPDX-License-Identifier: GPL-2.0

//! How many calls use an object.
//!
//! What `uverbs_try_lock_object()` in `drivers/infiniband/core/rdma_core.c` does: a call that uses an
//! object shares it with other calls, a call that takes it away must be alone. Nobody waits: whoever
//! comes too late gets `EBUSY`.
//!
//! Pure: needs `core` only, so that it is tested on the host too.

use super::errno::Errno;

/// The users of an object, as the number which is kept in an atomic: the number of those that share
/// it, or -1.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usage(pub(crate) i32);

impl Usage {
    /// Nobody.
    pub(crate) const NONE: Self = Self(0);

    /// One call, alone.
    pub(crate) const EXCLUSIVE: Self = Self(-1);

    /// One more that shares the object.
    pub(crate) const fn share(self) -> Result<Self, Errno> {
        match self.0 {
            ..0 | i32::MAX => Err(Errno::Busy),
            n => Ok(Self(n.wrapping_add(1))),
        }
    }

    /// One that has the object for itself.
    pub(crate) const fn exclude(self) -> Result<Self, Errno> {
        match self {
            Self::NONE => Ok(Self::EXCLUSIVE),
            _ => Err(Errno::Busy),
        }
    }

    /// Without one of those that share the object, or the one that has it alone.
    pub(crate) const fn release(self) -> Self {
        match self.0 {
            ..=0 => Self::NONE,
            n => Self(n.wrapping_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let one = Usage::NONE.share().unwrap();
        let two = one.share().unwrap();

        assert_eq!(two.exclude(), Err(Errno::Busy));
        assert_eq!(two.release(), one);
        assert_eq!(one.release(), Usage::NONE);
    }

    #[test]
    fn excludes() {
        let alone = Usage::NONE.exclude().unwrap();

        assert_eq!(alone.share(), Err(Errno::Busy));
        assert_eq!(alone.exclude(), Err(Errno::Busy));
        assert_eq!(alone.release(), Usage::NONE);
    }

    #[test]
    fn does_not_overflow() {
        assert_eq!(Usage(i32::MAX).share(), Err(Errno::Busy));
    }
}
