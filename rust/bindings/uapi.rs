// SPDX-License-Identifier: GPL-2.0

//! The structures of the ABI as bytes.
//!
//! C header: `uapi/rdma/ib_user_xrc.h`

use super::generated::*;
use kernel::transmute;

/// Lets the kernel crate copy values of `$type` from and to userspace.
///
/// bindgen has made zerocopy's derives check each type: it has no padding, and all
/// bytes are valid for it.
macro_rules! plain {
    ($($type:ident),* $(,)?) => {
        $(
            const _: () = {
                const fn is_plain<T: zerocopy::FromBytes + zerocopy::IntoBytes>() {}
                is_plain::<$type>()
            };

            // SAFETY: `zerocopy::FromBytes` says that all byte patterns are valid.
            unsafe impl transmute::FromBytes for $type {}

            // SAFETY: `zerocopy::IntoBytes` says that there is no padding.
            unsafe impl transmute::AsBytes for $type {}
        )*
    };
}

plain!(
    ib_uverbs_comp_event_desc,
    ib_uverbs_qp_attr,
    ib_uverbs_sge,
    ib_xrc_cqe,
    ib_xrc_device_info,
    ib_xrc_disconnect_info,
    ib_xrc_event,
    ib_xrc_holder_info,
    ib_xrc_limits,
    ib_xrc_policy,
    ib_xrc_ring_info,
    ib_xrc_srq_attr,
    ib_xrc_srq_info,
    ib_xrc_tgt_qp_info,
    ib_xrc_wire_hdr,
    ib_xrc_xrcd_info,
);

// The derives cannot check a structure with a union or a flexible array.
const _: () = {
    // attr_id, len, flags, attr_data (u16 or two u8), data (u64 or s64)
    assert!(core::mem::size_of::<ib_uverbs_attr>() == 4 * 2 + 8);
    // length, object_id, method_id, num_attrs, reserved1, driver_id, reserved2
    assert!(core::mem::size_of::<ib_uverbs_ioctl_hdr>() == 4 * 2 + 8 + 2 * 4);
    // wr_id, num_sge, reserved
    assert!(core::mem::size_of::<ib_xrc_recv_wqe>() == 8 + 2 * 4);
};

// SAFETY: All fields and all arms of the unions are integers.
unsafe impl transmute::FromBytes for ib_uverbs_attr {}
// SAFETY: The fields fill the structure and each arm of a union fills the union.
unsafe impl transmute::AsBytes for ib_uverbs_attr {}

// SAFETY: All fields are integers, the flexible array has no element.
unsafe impl transmute::FromBytes for ib_uverbs_ioctl_hdr {}
// SAFETY: The fields fill the structure, the flexible array has no element.
unsafe impl transmute::AsBytes for ib_uverbs_ioctl_hdr {}

// SAFETY: All fields are integers, the flexible array has no element.
unsafe impl transmute::FromBytes for ib_xrc_recv_wqe {}
