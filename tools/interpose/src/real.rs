// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The functions of libibverbs that have ours in front of them.
//!
//! They are asked for by the library's name: it may be loaded where "the next one" does not
//! find it. A thread that waits in one of them may be cancelled, which unwinds it.

use std::{
    ffi::{c_char, c_int, c_uint, c_void, CStr},
    mem,
    ptr::NonNull,
    sync::OnceLock,
};

use ibxrc::verbs::*;

use crate::dlsym::dlsym;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// See the manual page of each.
        pub(crate) struct Real {
            library: NonNull<c_void>,
            $(pub(crate) $field: unsafe extern "C-unwind" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Real {
            fn load() -> Option<Self> {
                const NAME: &CStr = c"libibverbs.so.1";
                // SAFETY: A string. The library stays loaded.
                let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW) };
                let library = NonNull::new(library)?;
                let symbol = |name: &CStr| {
                    // SAFETY: An open library.
                    NonNull::new(unsafe { dlsym(library.as_ptr(), name) })
                };
                Some(Real {
                    library,
                    // SAFETY: The function has this type.
                    $($field: unsafe {
                        mem::transmute::<
                            NonNull<c_void>,
                            unsafe extern "C-unwind" fn($($arg),*) $(-> $ret)?,
                        >(symbol($name)?)
                    },)*
                })
            }
        }
    };
}

/// Functions that older versions of libibverbs lack.
macro_rules! newer_functions {
    ($($field:ident = $name:literal: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        $(
            /// See its manual page.
            pub(crate) fn $field() -> Option<unsafe extern "C" fn($($arg),*) $(-> $ret)?> {
                let place = NonNull::new(address($name))?;
                // SAFETY: The function has this type.
                Some(unsafe {
                    mem::transmute::<
                        NonNull<c_void>,
                        unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                    >(place)
                })
            }
        )*
    };
}

newer_functions! {
    import_device = c"ibv_import_device": fn(c_int) -> *mut ibv_context;
    query_ece = c"ibv_query_ece": fn(*mut ibv_qp, *mut ibv_ece) -> c_int;
    set_ece = c"ibv_set_ece": fn(*mut ibv_qp, *mut ibv_ece) -> c_int;
    query_qp_data_in_order = c"ibv_query_qp_data_in_order":
        fn(*mut ibv_qp, ibv_wr_opcode, u32) -> c_int;
    reg_dmabuf_mr = c"ibv_reg_dmabuf_mr":
        fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
}

// SAFETY: A handle of dlopen(3) is for all threads.
unsafe impl Send for Real {}
// SAFETY: As above.
unsafe impl Sync for Real {}

functions! {
    open_device = c"ibv_open_device": fn(*mut ibv_device) -> *mut ibv_context;
    close_device = c"ibv_close_device": fn(*mut ibv_context) -> c_int;
    get_device_name = c"ibv_get_device_name": fn(*mut ibv_device) -> *const c_char;
    query_device = c"ibv_query_device": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    get_device_list = c"ibv_get_device_list": fn(*mut c_int) -> *mut *mut ibv_device;
    dealloc_pd = c"ibv_dealloc_pd": fn(*mut ibv_pd) -> c_int;
    rereg_mr = c"ibv_rereg_mr":
        fn(*mut ibv_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int;
    attach_mcast = c"ibv_attach_mcast": fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int;
    detach_mcast = c"ibv_detach_mcast": fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int;
    create_comp_channel = c"ibv_create_comp_channel":
        fn(*mut ibv_context) -> *mut ibv_comp_channel;
    destroy_comp_channel = c"ibv_destroy_comp_channel": fn(*mut ibv_comp_channel) -> c_int;
    get_async_event = c"ibv_get_async_event":
        fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ack_async_event = c"ibv_ack_async_event": fn(*mut ibv_async_event);
    create_cq = c"ibv_create_cq":
        fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    resize_cq = c"ibv_resize_cq": fn(*mut ibv_cq, c_int) -> c_int;
    destroy_cq = c"ibv_destroy_cq": fn(*mut ibv_cq) -> c_int;
    get_cq_event = c"ibv_get_cq_event":
        fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events": fn(*mut ibv_cq, c_uint);
    modify_srq = c"ibv_modify_srq": fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int;
    query_srq = c"ibv_query_srq": fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int;
    destroy_srq = c"ibv_destroy_srq": fn(*mut ibv_srq) -> c_int;
    create_qp = c"ibv_create_qp": fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp = c"ibv_modify_qp": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    query_qp = c"ibv_query_qp":
        fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
    destroy_qp = c"ibv_destroy_qp": fn(*mut ibv_qp) -> c_int;
    qp_to_qp_ex = c"ibv_qp_to_qp_ex": fn(*mut ibv_qp) -> *mut ibv_qp_ex;
    reg_mr = c"ibv_reg_mr": fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    reg_mr_iova2 = c"ibv_reg_mr_iova2":
        fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
    dereg_mr = c"ibv_dereg_mr": fn(*mut ibv_mr) -> c_int;
}

/// The handle of libibverbs.
pub(crate) fn library() -> *mut c_void {
    real().library.as_ptr()
}

/// Where libibverbs itself has a function; NULL: nowhere.
pub(crate) fn address(name: &CStr) -> *mut c_void {
    // SAFETY: An open library.
    let found = unsafe { dlsym(library(), name) };
    if found.is_null() {
        // It is not the program that asked.
        // SAFETY: It forgets what it tells.
        unsafe { libc::dlerror() };
    }
    found
}

/// Loads them, once for all. Whoever calls a function of libibverbs has the library.
pub(crate) fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| match Real::load() {
        Some(real) => real,
        None => {
            crate::report::complain("there is no libibverbs.so.1, or it is too old");
            std::process::exit(127);
        }
    })
}
