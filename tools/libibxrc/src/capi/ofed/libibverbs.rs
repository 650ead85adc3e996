// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The functions of libibverbs, which this library does not link. A thread that waits in one
//! of them may be cancelled, which unwinds it.

use std::{
    ffi::{c_int, c_uint, c_void, CStr},
    mem,
    ptr::NonNull,
    sync::OnceLock,
};

use crate::{
    error::{Errno, Error, Result},
    verbs::*,
};

macro_rules! functions {
    ($($name:ident: $symbol:literal fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// See the manual page of each.
        pub(super) struct Libibverbs {
            $(pub(super) $name: unsafe extern "C-unwind" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Libibverbs {
            fn load() -> Option<Self> {
                Some(Libibverbs {
                    // SAFETY: The function has this type.
                    $($name: unsafe {
                        mem::transmute::<
                            NonNull<c_void>,
                            unsafe extern "C-unwind" fn($($arg),*) $(-> $ret)?,
                        >(symbol($symbol)?)
                    },)*
                })
            }
        }
    };
}

functions! {
    query_device: c"ibv_query_device" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    get_async_event: c"ibv_get_async_event" fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ack_async_event: c"ibv_ack_async_event" fn(*mut ibv_async_event);
    create_cq: c"ibv_create_cq"
        fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    destroy_cq: c"ibv_destroy_cq" fn(*mut ibv_cq) -> c_int;
    get_cq_event: c"ibv_get_cq_event"
        fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events: c"ibv_ack_cq_events" fn(*mut ibv_cq, c_uint);
    create_srq: c"ibv_create_srq" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    modify_srq: c"ibv_modify_srq" fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int;
    query_srq: c"ibv_query_srq" fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int;
    destroy_srq: c"ibv_destroy_srq" fn(*mut ibv_srq) -> c_int;
    create_qp: c"ibv_create_qp" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp: c"ibv_modify_qp" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    query_qp: c"ibv_query_qp"
        fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
    destroy_qp: c"ibv_destroy_qp" fn(*mut ibv_qp) -> c_int;
}

impl Libibverbs {
    /// EOPNOTSUPP: it is not there.
    pub(super) fn get() -> Result<&'static Self> {
        static LOADED: OnceLock<Option<Libibverbs>> = OnceLock::new();
        LOADED
            .get_or_init(Self::load)
            .as_ref()
            .ok_or(Error::System {
                what: "load libibverbs.so.1",
                errno: Errno::EOPNOTSUPP,
            })
    }
}

/// What the program would call: under `ibxrc run` that is not libibverbs itself. A program
/// that has it in a plugin has it under its name only.
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: A string.
    let found = NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    found.or_else(|| {
        // SAFETY: A string. The library stays loaded.
        let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
        let library = NonNull::new(library)?;
        // SAFETY: An open library and a string.
        NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
    })
}
