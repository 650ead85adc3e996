// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The functions of libibverbs that an INI QP needs.
//!
//! This library does not link libibverbs, which receivers do without. Whoever has a QP has
//! it loaded. They are asked for by its name, so that they are its own even in a process
//! where somebody has put functions of the same names before them.

use std::{
    ffi::{c_int, c_void, CStr},
    mem,
    ptr::NonNull,
    sync::OnceLock,
};

use crate::{
    error::{Errno, Error, Result},
    verbs::*,
};

type RegMr = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
type DeregMr = unsafe extern "C" fn(*mut ibv_mr) -> c_int;
type QueryQp =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
type ModifyQp = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
type QueryDevice = unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int;

/// See the manual page of each.
pub(super) struct Libibverbs {
    pub(super) reg_mr: RegMr,
    pub(super) dereg_mr: DeregMr,
    pub(super) query_qp: QueryQp,
    pub(super) modify_qp: ModifyQp,
    pub(super) query_device: QueryDevice,
    pub(super) query_port: QueryPort,
}

impl Libibverbs {
    /// Loads it, once for all. EOPNOTSUPP: it is not there.
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

    fn load() -> Option<Self> {
        // SAFETY: A string. The library stays loaded.
        let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
        let library = NonNull::new(library)?;
        let symbol = |name: &CStr| {
            // SAFETY: An open library and a string.
            NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
        };
        // SAFETY: These functions have these types.
        unsafe {
            Some(Libibverbs {
                reg_mr: mem::transmute::<NonNull<c_void>, RegMr>(symbol(c"ibv_reg_mr")?),
                dereg_mr: mem::transmute::<NonNull<c_void>, DeregMr>(symbol(c"ibv_dereg_mr")?),
                query_qp: mem::transmute::<NonNull<c_void>, QueryQp>(symbol(c"ibv_query_qp")?),
                modify_qp: mem::transmute::<NonNull<c_void>, ModifyQp>(symbol(c"ibv_modify_qp")?),
                query_device: mem::transmute::<NonNull<c_void>, QueryDevice>(symbol(
                    c"ibv_query_device",
                )?),
                query_port: mem::transmute::<NonNull<c_void>, QueryPort>(symbol(
                    c"ibv_query_port",
                )?),
            })
        }
    }
}
