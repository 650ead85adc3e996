// SPDX-License-Identifier: GPL-2.0

//! What a method's attributes look like, and the checks that follow from it.
//!
//! The checks and their order are those of `uverbs_set_attr()` and `uverbs_process_attr()` in
//! `drivers/infiniband/core/uverbs_ioctl.c`, so that a call which is wrong in two ways gets the same
//! errno as there.
//!
//! Pure: needs `core` only, so that it is tested on the host too.

use super::{
    errno::Errno,
    wire::{
        RawAttr,
        F_MANDATORY, //
    }, //
};

/// Most attributes that a method may have.
pub(crate) const MAX_ATTRS: usize = 16;

/// What may be done with an object that a handle names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Use it, together with others.
    Read,
    /// Make it.
    New,
    /// Take it away, alone.
    Destroy,
}

/// What an attribute carries.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data for the kernel: `UVERBS_ATTR_PTR_IN`.
    PtrIn {
        /// Shortest length, bytes.
        min: u16,
        /// Length that the kernel knows, bytes.
        len: u16,
        /// Longer data is taken if the rest is zero.
        zero_trailing: bool,
    },
    /// Room for data from the kernel: `UVERBS_ATTR_PTR_OUT`.
    PtrOut {
        /// Shortest length, bytes.
        min: u16,
        /// Length that the kernel knows, bytes.
        len: u16,
        /// A longer buffer is taken.
        zero_trailing: bool,
    },
    /// A handle of the file: `UVERBS_ATTR_IDR`.
    Handle(Access),
    /// A descriptor that the kernel makes: `UVERBS_ATTR_FD` with `UVERBS_ACCESS_NEW`.
    NewFd,
    /// A descriptor of the caller: `UVERBS_ATTR_RAW_FD`.
    RawFd,
}

impl Kind {
    /// Whether `attr` can be one. `is_zero` looks whether what is beyond the known length of data
    /// that is not inline is zero; bytes that cannot be read are not.
    fn check(&self, attr: &RawAttr, is_zero: impl FnOnce(u16) -> bool) -> Result<(), Errno> {
        match *self {
            Self::PtrIn {
                min,
                len,
                zero_trailing,
            } => {
                if zero_trailing && attr.len > len && !tail_is_zero(attr, len, is_zero) {
                    return Err(Errno::OpNotSupp);
                }
                check_ptr(attr, min, len, zero_trailing)
            }
            Self::PtrOut {
                min,
                len,
                zero_trailing,
            } => check_ptr(attr, min, len, zero_trailing),
            Self::Handle(_) | Self::NewFd => {
                if attr.reserved != 0 || attr.len != 0 {
                    return Err(Errno::Inval);
                }
                Ok(())
            }
            Self::RawFd => {
                if attr.reserved != 0 || attr.len != 0 || i32::try_from(attr.data_s64()).is_err() {
                    return Err(Errno::Inval);
                }
                Ok(())
            }
        }
    }
}

fn tail_is_zero(attr: &RawAttr, len: u16, is_zero: impl FnOnce(u16) -> bool) -> bool {
    if attr.is_inline() {
        attr.inline_data()
            .get(len.into()..attr.len())
            .is_none_or(|tail| tail.iter().all(|byte| *byte == 0))
    } else {
        is_zero(len)
    }
}

fn check_ptr(attr: &RawAttr, min: u16, len: u16, zero_trailing: bool) -> Result<(), Errno> {
    if attr.len < min || (!zero_trailing && attr.len > len) || attr.reserved != 0 {
        return Err(Errno::Inval);
    }
    Ok(())
}

/// One attribute of a method.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttrSpec {
    /// Number of the attribute in its method.
    pub(crate) id: u16,
    /// What it carries.
    pub(crate) kind: Kind,
    /// The method cannot do without it.
    pub(crate) mandatory: bool,
}

/// Whether `specs` can be the attributes of a method: not too many, no number twice, nothing that
/// can never be given, at most one that is destroyed.
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "in range by the loops' conditions, and run by the compiler only; a const fn has no get()"
)]
pub(crate) const fn is_well_formed(specs: &[AttrSpec]) -> bool {
    let mut i = 0;
    let mut destroyed = 0;

    if specs.len() > MAX_ATTRS {
        return false;
    }
    while i < specs.len() {
        let mut j = 0;

        while j < i {
            if specs[i].id == specs[j].id {
                return false;
            }
            j += 1;
        }
        match specs[i].kind {
            Kind::PtrIn { min, len, .. } | Kind::PtrOut { min, len, .. } => {
                if min > len {
                    return false;
                }
            }
            Kind::Handle(Access::Destroy) => destroyed += 1,
            _ => (),
        }
        i += 1;
    }
    destroyed <= 1
}

/// Which attributes of a method a call has.
pub(crate) struct Presence<'a> {
    specs: &'a [AttrSpec],
    present: [bool; MAX_ATTRS],
}

impl<'a> Presence<'a> {
    /// None of `specs` so far.
    pub(crate) const fn new(specs: &'a [AttrSpec]) -> Self {
        Self {
            specs,
            present: [false; MAX_ATTRS],
        }
    }

    /// Checks the next attribute of the call. Says which of the specs it is for, or `None` if it is
    /// to be ignored.
    pub(crate) fn admit(
        &mut self,
        attr: &RawAttr,
        is_zero: impl FnOnce(u16) -> bool,
    ) -> Result<Option<(usize, &'a AttrSpec)>, Errno> {
        let found = self
            .specs
            .iter()
            .zip(self.present.iter_mut())
            .enumerate()
            .find(|(_, (spec, _))| spec.id == attr.attr_id);

        let Some((index, (spec, present))) = found else {
            if attr.flags & F_MANDATORY != 0 {
                return Err(Errno::ProtoNoSupport);
            }
            return Ok(None);
        };

        if *present {
            return Err(Errno::Inval);
        }
        spec.kind.check(attr, is_zero)?;
        *present = true;
        Ok(Some((index, spec)))
    }

    /// Checks that nothing is missing.
    pub(crate) fn complete(&self) -> Result<(), Errno> {
        let mut attrs = self.specs.iter().zip(self.present.iter());

        if attrs.any(|(spec, present)| spec.mandatory && !present) {
            return Err(Errno::Inval);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U32: Kind = Kind::PtrIn {
        min: 4,
        len: 4,
        zero_trailing: false,
    };
    const STRUCT: Kind = Kind::PtrIn {
        min: 16,
        len: 16,
        zero_trailing: true,
    };
    const SMALL: Kind = Kind::PtrIn {
        min: 4,
        len: 4,
        zero_trailing: true,
    };
    const OUT: Kind = Kind::PtrOut {
        min: 16,
        len: 16,
        zero_trailing: true,
    };
    const NEW: Kind = Kind::Handle(Access::New);

    fn attr(len: u16) -> RawAttr {
        RawAttr {
            attr_id: 1,
            len,
            flags: 0,
            reserved: 0,
            data: 0,
        }
    }

    fn check(kind: Kind, attr: RawAttr, zero: bool) -> Result<(), Errno> {
        kind.check(&attr, |_| zero)
    }

    #[test]
    fn exact_input() {
        assert_eq!(check(U32, attr(4), true), Ok(()));
        assert_eq!(check(U32, attr(3), true), Err(Errno::Inval));
        assert_eq!(check(U32, attr(8), true), Err(Errno::Inval));
        assert_eq!(check(U32, attr(9), false), Err(Errno::Inval));
        assert_eq!(
            check(
                U32,
                RawAttr {
                    reserved: 1,
                    ..attr(4)
                },
                true
            ),
            Err(Errno::Inval)
        );
    }

    #[test]
    fn longer_input() {
        assert_eq!(check(STRUCT, attr(16), false), Ok(()));
        assert_eq!(check(STRUCT, attr(24), true), Ok(()));
        assert_eq!(check(STRUCT, attr(24), false), Err(Errno::OpNotSupp));
        assert_eq!(check(STRUCT, attr(15), true), Err(Errno::Inval));
        // The tail comes before the reserved bits.
        let both = RawAttr {
            reserved: 1,
            ..attr(24)
        };
        assert_eq!(check(STRUCT, both, false), Err(Errno::OpNotSupp));
        assert_eq!(check(STRUCT, both, true), Err(Errno::Inval));
    }

    #[test]
    fn longer_inline_input() {
        let data = u64::from_ne_bytes([1, 2, 3, 4, 0, 0, 0, 5]);
        // Byte 7 does not count while len is 7.
        assert_eq!(check(SMALL, RawAttr { data, ..attr(7) }, false), Ok(()));
        assert_eq!(
            check(SMALL, RawAttr { data, ..attr(8) }, true),
            Err(Errno::OpNotSupp)
        );
    }

    #[test]
    fn asks_for_the_tail() {
        let mut from = None;
        let _ = STRUCT.check(&attr(24), |len| {
            from = Some(len);
            true
        });
        assert_eq!(from, Some(16));
    }

    #[test]
    fn output() {
        assert_eq!(check(OUT, attr(16), false), Ok(()));
        assert_eq!(check(OUT, attr(64), false), Ok(()));
        assert_eq!(check(OUT, attr(8), false), Err(Errno::Inval));
    }

    #[test]
    fn handles_and_fds() {
        assert_eq!(check(NEW, attr(0), true), Ok(()));
        assert_eq!(check(NEW, attr(4), true), Err(Errno::Inval));
        assert_eq!(
            check(
                Kind::NewFd,
                RawAttr {
                    reserved: 256,
                    ..attr(0)
                },
                true
            ),
            Err(Errno::Inval)
        );
        for (fd, ok) in [
            (-1i64, true),
            (i32::MAX.into(), true),
            (i32::MIN.into(), true),
            (1 << 31, false),
            (-(1 << 31) - 1, false),
            (0xffff_ffff, false),
        ] {
            let a = RawAttr {
                data: fd as u64,
                ..attr(0)
            };
            assert_eq!(check(Kind::RawFd, a, true).is_ok(), ok, "{fd}");
        }
    }

    const SPECS: &[AttrSpec] = &[
        AttrSpec {
            id: 0x1000,
            kind: NEW,
            mandatory: true,
        },
        AttrSpec {
            id: 0x1001,
            kind: U32,
            mandatory: false,
        },
    ];

    #[test]
    fn walk() {
        let mut presence = Presence::new(SPECS);
        let new = RawAttr {
            attr_id: 0x1000,
            ..attr(0)
        };
        let word = RawAttr {
            attr_id: 0x1001,
            ..attr(4)
        };

        assert_eq!(presence.complete(), Err(Errno::Inval));
        assert_eq!(presence.admit(&word, |_| true), Ok(Some((1, &SPECS[1]))));
        assert_eq!(presence.complete(), Err(Errno::Inval));
        // A duplicate, even a bad one, is a duplicate.
        assert_eq!(presence.admit(&word, |_| true), Err(Errno::Inval));
        assert_eq!(presence.admit(&new, |_| true), Ok(Some((0, &SPECS[0]))));
        assert_eq!(presence.complete(), Ok(()));
    }

    #[test]
    fn unknown() {
        let mut presence = Presence::new(SPECS);
        let odd = RawAttr {
            attr_id: 1,
            reserved: 7,
            ..attr(99)
        };

        assert_eq!(presence.admit(&odd, |_| false), Ok(None));
        assert_eq!(presence.admit(&odd, |_| false), Ok(None));
        let must = RawAttr {
            flags: F_MANDATORY,
            ..odd
        };
        assert_eq!(presence.admit(&must, |_| true), Err(Errno::ProtoNoSupport));
    }

    #[test]
    fn failed_attribute_is_not_present() {
        let mut presence = Presence::new(SPECS);
        let bad = RawAttr {
            attr_id: 0x1001,
            ..attr(5)
        };
        assert_eq!(presence.admit(&bad, |_| true), Err(Errno::Inval));
        assert!(!presence.present[1]);
    }

    #[test]
    fn well_formed() {
        let destroy = |id| AttrSpec {
            id,
            kind: Kind::Handle(Access::Destroy),
            mandatory: true,
        };

        assert!(is_well_formed(SPECS));
        assert!(!is_well_formed(&[SPECS[0], SPECS[0]]));
        assert!(!is_well_formed(&[destroy(1), destroy(2)]));
        assert!(!is_well_formed(&[SPECS[0]; MAX_ATTRS + 1]));
        let min = Kind::PtrIn {
            min: 2,
            len: 1,
            zero_trailing: true,
        };
        assert!(!is_well_formed(&[AttrSpec {
            id: 1,
            kind: min,
            mandatory: true
        }]));
    }
}
