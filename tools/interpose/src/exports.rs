// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What the dynamic linker finds before the functions of libibverbs: they have the names and
//! the types of those.

use std::{
    ffi::{c_int, c_uint, c_ulong, c_void, CStr},
    io,
    ptr::NonNull,
};

use ibxrc::verbs::*;

use crate::{
    channel, context, cq, events, ioctl, mr, qp,
    real::{self, real},
    report, srq, unsupported,
};

macro_rules! exports {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $ours:path;)*) => {
        $(
            /// # Safety
            ///
            /// See its manual page.
            #[no_mangle]
            pub unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: The caller's word.
                unsafe { $ours($($arg),*) }
            }
        )*

        /// Ours of this name.
        pub(crate) fn find(name: &CStr) -> Option<*mut c_void> {
            $(
                if name.to_bytes() == stringify!($name).as_bytes() {
                    return Some($name as *mut c_void);
                }
            )*
            None
        }
    };
}

exports! {
    ibv_open_device(device: *mut ibv_device) -> *mut ibv_context = open_device;
    ibv_close_device(context: *mut ibv_context) -> c_int = close_device;
    ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int
        = context::query_device;
    ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device = get_device_list;
    ibv_import_device(fd: c_int) -> *mut ibv_context = import_device;
    ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int = mr::dealloc_pd;
    ibv_rereg_mr(
        mr: *mut ibv_mr,
        flags: c_int,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int
    ) -> c_int = mr::rereg;
    ibv_reg_dmabuf_mr(
        pd: *mut ibv_pd,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int
    ) -> *mut ibv_mr = mr::reg_dmabuf;
    ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int
        = unsupported::attach_mcast;
    ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int
        = unsupported::detach_mcast;
    ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int = unsupported::query_ece;
    ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int = unsupported::set_ece;
    ibv_query_qp_data_in_order(qp: *mut ibv_qp, op: ibv_wr_opcode, flags: u32) -> c_int
        = unsupported::query_data_in_order;
    ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel
        = channel::create;
    ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int = channel::destroy;
    ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void
    ) -> c_int = channel::get_event;
    ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) = cq::ack_events;
    ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int
        = events::get;
    ibv_ack_async_event(event: *mut ibv_async_event) = events::ack;
    ioctl(fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int = ioctl::call;
    ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        vector: c_int
    ) -> *mut ibv_cq = cq::create;
    ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int = cq::resize;
    ibv_destroy_cq(cq: *mut ibv_cq) -> c_int = cq::destroy;
    ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int
        = srq::modify;
    ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int = srq::query;
    ibv_destroy_srq(srq: *mut ibv_srq) -> c_int = srq::destroy;
    ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp = qp::create;
    ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int = qp::modify;
    ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibv_qp_init_attr
    ) -> c_int = qp::query;
    ibv_destroy_qp(qp: *mut ibv_qp) -> c_int = qp::destroy;
    ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr
        = mr::reg;
    ibv_reg_mr_iova(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_int
    ) -> *mut ibv_mr = mr::reg_iova;
    ibv_reg_mr_iova2(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_uint
    ) -> *mut ibv_mr = mr::reg_iova2;
    ibv_dereg_mr(mr: *mut ibv_mr) -> c_int = mr::dereg;
    ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex = qp::to_ex;
}

/// # Safety
///
/// See ibv_open_device(3).
unsafe fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: The caller's word.
    let verbs = unsafe { (real().open_device)(device) };
    if let Some(verbs) = NonNull::new(verbs) {
        // SAFETY: It was just opened.
        unsafe { context::adopt(verbs) };
    }
    verbs
}

/// # Safety
///
/// See ibv_import_device(3).
unsafe fn import_device(fd: c_int) -> *mut ibv_context {
    let Some(import) = real::import_device() else {
        return report::null(libc::EOPNOTSUPP);
    };
    // SAFETY: The caller's word.
    let verbs = unsafe { import(fd) };
    if let Some(verbs) = NonNull::new(verbs) {
        // What it shares with the one it comes from are objects of the device. XRC domains
        // are found by their files, and are not imported.
        // SAFETY: It is new.
        unsafe { context::adopt(verbs) };
    }
    verbs
}

/// # Safety
///
/// See ibv_get_device_list(3).
unsafe fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: The caller's word.
    let list = unsafe { (real().get_device_list)(count) };
    if list.is_null() {
        if io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            report::complain("the kernel has no RDMA: load its module with `modprobe ib_uverbs`");
        }
    // SAFETY: It ends with NULL.
    } else if unsafe { (*list).is_null() } {
        report::complain("there is no RDMA device here; `rdma link` shows those that there are");
    }
    list
}

/// # Safety
///
/// See ibv_close_device(3).
unsafe fn close_device(verbs: *mut ibv_context) -> c_int {
    context::forget(verbs);
    // SAFETY: The caller's word.
    unsafe { (real().close_device)(verbs) }
}
