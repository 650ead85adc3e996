// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel module's ioctl framing that need nothing but `core`, with their tests.

#![allow(dead_code)]

#[path = "../../../rust/uverbs/errno.rs"]
mod errno;
#[path = "../../../rust/uverbs/spec.rs"]
mod spec;
#[path = "../../../rust/uverbs/usage.rs"]
mod usage;
#[path = "../../../rust/uverbs/wire.rs"]
mod wire;

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use ibxrc::uapi::{ib_uverbs_attr, ib_uverbs_ioctl_hdr};
    use proptest::{array::uniform, prelude::*, sample::select};

    use super::{
        errno::Errno,
        spec::{is_well_formed, Access, AttrSpec, Kind, Presence, MAX_ATTRS},
        wire::{Header, RawAttr, F_MANDATORY},
    };

    /// Numbers at which something ends, and others.
    fn short() -> impl Strategy<Value = u16> {
        prop_oneof![0u16..24, any::<u16>(), Just(4096), Just(u16::MAX)]
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            (short(), short(), any::<bool>()).prop_map(|(a, b, zero_trailing)| Kind::PtrIn {
                min: a.min(b),
                len: a.max(b),
                zero_trailing,
            }),
            (short(), short(), any::<bool>()).prop_map(|(a, b, zero_trailing)| Kind::PtrOut {
                min: a.min(b),
                len: a.max(b),
                zero_trailing,
            }),
            select(&[Access::Read, Access::New, Access::Destroy]).prop_map(Kind::Handle),
            Just(Kind::NewFd),
            Just(Kind::RawFd),
        ]
    }

    /// The attributes of a method, numbered from 0x1000 on.
    fn specs() -> impl Strategy<Value = Vec<AttrSpec>> {
        prop::collection::vec((kind(), any::<bool>()), 0..=MAX_ATTRS).prop_map(|specs| {
            (0x1000..)
                .zip(specs)
                .map(|(id, (kind, mandatory))| AttrSpec {
                    id,
                    kind,
                    mandatory,
                })
                .collect()
        })
    }

    /// An attribute of a call, of a number that the method has or may have, and whether the tail
    /// of what it points to is zero.
    fn attr() -> impl Strategy<Value = (RawAttr, bool)> {
        let rarely = |more: BoxedStrategy<u16>| prop_oneof![4 => Just(0), 1 => more];
        let attr = (
            0x0fffu16..0x1000 + MAX_ATTRS as u16 + 1,
            prop_oneof![Just(0), short()],
            prop_oneof![0u16..4, any::<u16>()],
            rarely(any::<u16>().boxed()),
            prop_oneof![0u64..1000, any::<u64>()],
        );
        let attr = attr.prop_map(|(attr_id, len, flags, reserved, data)| RawAttr {
            attr_id,
            len,
            flags,
            reserved,
            data,
        });
        (attr, any::<bool>())
    }

    /// What uverbs_ioctl.c says of an attribute, put otherwise: what is zero behind the known
    /// length, what is as long as it may be, what is reserved.
    fn fits(kind: Kind, attr: &RawAttr, zero: bool) -> Result<(), Errno> {
        let inline = attr.len <= 8;
        let data = attr.data.to_ne_bytes();
        let behind = |len: u16| (len..attr.len).all(|i| data[usize::from(i)] == 0);
        let (min, max, zero) = match kind {
            Kind::PtrIn {
                min,
                len,
                zero_trailing: true,
            } => {
                let zero = attr.len <= len || if inline { behind(len) } else { zero };
                (min, u16::MAX, zero)
            }
            Kind::PtrOut {
                min,
                zero_trailing: true,
                ..
            } => (min, u16::MAX, true),
            Kind::PtrIn { min, len, .. } | Kind::PtrOut { min, len, .. } => (min, len, true),
            Kind::Handle(_) | Kind::NewFd => (0, 0, true),
            Kind::RawFd if i32::try_from(attr.data as i64).is_err() => return Err(Errno::Inval),
            Kind::RawFd => (0, 0, true),
        };
        match zero {
            false => Err(Errno::OpNotSupp),
            true if attr.reserved != 0 => Err(Errno::Inval),
            true if (min..=max).contains(&attr.len) => Ok(()),
            true => Err(Errno::Inval),
        }
    }

    proptest! {
        #[test]
        fn a_header_is_what_c_has_written(bytes in uniform::<_, { Header::SIZE }>(any::<u8>())) {
            type C = ib_uverbs_ioctl_hdr;
            let header = Header::parse(&bytes);
            let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            let u32_at = |at: usize| u32::from(u16_at(at)) | (u32::from(u16_at(at + 2)) << 16);
            let u64_at = |at: usize| u64::from(u32_at(at)) | (u64::from(u32_at(at + 4)) << 32);
            prop_assert_eq!(size_of::<C>(), Header::SIZE);
            prop_assert_eq!(header, Header {
                length: u16_at(offset_of!(C, length)),
                object_id: u16_at(offset_of!(C, object_id)),
                method_id: u16_at(offset_of!(C, method_id)),
                num_attrs: u16_at(offset_of!(C, num_attrs)),
                reserved1: u64_at(offset_of!(C, reserved1)),
                driver_id: u32_at(offset_of!(C, driver_id)),
                reserved2: u32_at(offset_of!(C, reserved2)),
            });
        }

        #[test]
        fn an_attribute_is_what_c_has_written(
            bytes in uniform::<_, { RawAttr::SIZE }>(any::<u8>()),
        ) {
            type C = ib_uverbs_attr;
            let attr = RawAttr::parse(&bytes);
            let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            let data = offset_of!(C, __bindgen_anon_1);
            prop_assert_eq!(size_of::<C>(), RawAttr::SIZE);
            prop_assert_eq!(attr.attr_id, u16_at(offset_of!(C, attr_id)));
            prop_assert_eq!(attr.len, u16_at(offset_of!(C, len)));
            prop_assert_eq!(attr.flags, u16_at(offset_of!(C, flags)));
            prop_assert_eq!(attr.reserved, u16_at(offset_of!(C, attr_data)));
            prop_assert_eq!(attr.data.to_ne_bytes(), &bytes[data..]);
            prop_assert_eq!(attr.inline_data(), &bytes[data..]);
            prop_assert_eq!(attr.is_inline(), attr.len <= 8);
        }

        #[test]
        fn a_header_is_for_this_driver_and_as_long_as_it_says(
            num_attrs in prop_oneof![0u16..300, any::<u16>()],
            off in prop_oneof![4 => Just(0i32), 1 => -40i32..40],
            reserved in prop_oneof![4 => Just((0, 0)), 1 => any::<(u64, u32)>()],
            driver_id in 6u32..9,
        ) {
            let wanted = 24 + 16 * i32::from(num_attrs);
            let header = Header {
                length: (wanted + off) as u16,
                object_id: 1,
                method_id: 1,
                num_attrs,
                reserved1: reserved.0,
                driver_id,
                reserved2: reserved.1,
            };
            let result = if i32::from(header.length) != wanted || wanted > 4096 {
                Err(Errno::Inval)
            } else if reserved != (0, 0) {
                Err(Errno::ProtoNoSupport)
            } else if driver_id != 7 {
                Err(Errno::Inval)
            } else {
                Ok(())
            };
            prop_assert_eq!(header.check(4096, 7), result);
        }

        #[test]
        fn attributes_are_admitted_once_and_as_specified(
            specs in specs(),
            attrs in prop::collection::vec(attr(), 0..40),
        ) {
            let mut presence = Presence::new(&specs);
            let mut seen = vec![false; specs.len()];
            for (attr, zero) in attrs {
                let index = usize::from(attr.attr_id).wrapping_sub(0x1000);
                let mut asked = None;
                let admitted = presence.admit(&attr, |from| {
                    asked = Some(from);
                    zero
                });
                let wanted = match specs.get(index) {
                    None if attr.flags & F_MANDATORY != 0 => Err(Errno::ProtoNoSupport),
                    None => Ok(None),
                    Some(_) if seen[index] => Err(Errno::Inval),
                    Some(spec) => fits(spec.kind, &attr, zero).map(|()| Some((index, spec))),
                };
                prop_assert_eq!(admitted, wanted);
                if let Ok(Some((index, _))) = wanted {
                    seen[index] = true;
                }
                // Nothing is read of what is not longer than what is known.
                if let Some(from) = asked {
                    prop_assert!(from < attr.len && !attr.is_inline());
                }
            }
            let missing = specs.iter().zip(&seen).any(|(spec, seen)| spec.mandatory && !seen);
            let complete = if missing { Err(Errno::Inval) } else { Ok(()) };
            prop_assert_eq!(presence.complete(), complete);
        }

        #[test]
        fn a_method_is_well_formed_if_its_attributes_can_be_told_apart(
            mut specs in specs(),
            twice in any::<bool>(),
        ) {
            if twice && specs.len() > 1 {
                specs[0].id = specs[specs.len() - 1].id;
            }
            let destroyed = |spec: &&AttrSpec| spec.kind == Kind::Handle(Access::Destroy);
            let fine = specs.iter().filter(destroyed).count() < 2 && !(twice && specs.len() > 1);
            prop_assert_eq!(is_well_formed(&specs), fine);
        }
    }
}
