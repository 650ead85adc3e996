// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Domains: see `infiniband/xrc.h`.

use std::ffi::c_int;

use super::{
    close,
    device::{array, store_count},
    get, give, null, status,
};
use crate::{
    uapi::{ib_xrc_tgt_qp_info, ib_xrc_xrcd_info},
    verbs::{ibxrc_context, ibxrc_xrcd},
    Xrcd,
};

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_open_xrcd(
    context: *mut ibxrc_context,
    fd: c_int,
    oflags: c_int,
) -> *mut ibxrc_xrcd {
    // SAFETY: The caller's word.
    let context = unsafe { get(context) };
    give(context.and_then(|context| Xrcd::open_raw(&context.inner, fd, oflags as u32)))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_close_xrcd(xrcd: *mut ibxrc_xrcd) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(xrcd, Xrcd::close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_query_xrcd(
    xrcd: *mut ibxrc_xrcd,
    info: *mut ib_xrc_xrcd_info,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (xrcd, info) = unsafe { (get(xrcd)?, info.as_mut().ok_or_else(null)?) };
        *info = xrcd.query_raw()?;
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_list_tgt_qps(
    xrcd: *mut ibxrc_xrcd,
    qps: *mut ib_xrc_tgt_qp_info,
    max: u32,
    count: *mut u32,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { store_count(count, || get(xrcd)?.tgt_qps_into(array(qps, max)?)) }
}
