// SPDX-License-Identifier: GPL-2.0

//! Bindings for what the kernel crate has none for: the verbs, the module's ABI
//! and its C helpers.
//!
//! All other types are those of [`kernel::bindings`], and everything of it is
//! found here too. Only `linux`, `rdma` and, for the plain constants and
//! structures of the ABI, `uverbs` and those above it use this module.
//!
//! Enumerators have their C names.

#[allow(
    clippy::all,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unknown_lints,
    unnecessary_transmutes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::indexing_slicing,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks
)]
mod generated {
    // What is generated here hides what has the same name there: a device, say, that the
    // kernel crate knows only by name.
    pub(crate) use kernel::bindings::*;
    use kernel::{
        ffi,
        prelude::{FromBytes, IntoBytes, Zeroable},
    };
    use pin_init::MaybeZeroable;
    use zerocopy_derive::Immutable;

    // SAFETY: `__BindgenBitfieldUnit<Storage>` is a newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("IB_XRC_GENERATED"), "/bindings_generated.rs"));
}

mod uapi;

pub(crate) use generated::*;

/// What the C compiler says about the layout of types.
mod layout {
    use super::generated::*;

    macro_rules! size_is {
        ($type:ident, $size:literal) => {
            const _: () = assert!(
                ::core::mem::size_of::<$type>() == $size,
                concat!("size of ", stringify!($type), " differs from C")
            );
        };
    }

    macro_rules! offset_is {
        ($type:ident, $field:ident, $offset:literal) => {
            const _: () = assert!(
                ::core::mem::offset_of!($type, $field) == $offset,
                concat!("offset of ", stringify!($type.$field), " differs from C")
            );
        };
    }

    include!(concat!(env!("IB_XRC_GENERATED"), "/layout_generated.rs"));
}
