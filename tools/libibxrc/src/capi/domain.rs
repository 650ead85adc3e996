// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Domains: see `infiniband/xrc.h`.

use std::ffi::c_int;

use super::{
    close,
    device::{array, store_count},
    get, give, known, null, report_to, status,
};
use crate::{
    uapi::{ib_xrc_policy, ib_xrc_srq_info, ib_xrc_tgt_qp_info, ib_xrc_xrcd_info},
    verbs::{
        ibxrc_context, ibxrc_xrcd, ibxrc_xrcd_init_attr, IBXRC_XRCD_INIT_ATTR_EVENTS,
        IBXRC_XRCD_INIT_ATTR_JOB_KEY, IBXRC_XRCD_INIT_ATTR_POLICY,
    },
    xrcd::RawOptions,
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
    give(context.and_then(|context| {
        let options = RawOptions {
            fd,
            oflags: oflags as u32,
            policy: None,
            job_key: None,
            events: None,
        };
        Xrcd::open_raw(&context.inner, &options)
    }))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_open_xrcd_ex(
    context: *mut ibxrc_context,
    attr: *const ibxrc_xrcd_init_attr,
) -> *mut ibxrc_xrcd {
    const POLICY: u32 = IBXRC_XRCD_INIT_ATTR_POLICY;
    const JOB_KEY: u32 = IBXRC_XRCD_INIT_ATTR_JOB_KEY;
    const EVENTS: u32 = IBXRC_XRCD_INIT_ATTR_EVENTS;
    give((|| {
        // SAFETY: The caller's word.
        let attr = unsafe { attr.as_ref() }.ok_or_else(null)?;
        let mask = attr.comp_mask;
        known(mask, POLICY | JOB_KEY | EVENTS)?;
        // SAFETY: The caller's word.
        let context = unsafe { get(context)? };
        let policy = match mask & POLICY {
            0 => None,
            // SAFETY: The caller's word.
            _ => Some(*unsafe { attr.policy.as_ref() }.ok_or_else(null)?),
        };
        let options = RawOptions {
            fd: attr.fd,
            oflags: attr.oflags as u32,
            policy,
            job_key: (mask & JOB_KEY != 0).then_some(attr.job_key),
            // SAFETY: The caller's word.
            events: unsafe { report_to(mask, EVENTS, attr.event_file, attr.xrcd_context)? },
        };
        Xrcd::open_raw(&context.inner, &options)
    })())
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

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_query_xrcd_policy(
    xrcd: *mut ibxrc_xrcd,
    policy: *mut ib_xrc_policy,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (xrcd, policy) = unsafe { (get(xrcd)?, policy.as_mut().ok_or_else(null)?) };
        *policy = xrcd.query_policy_raw()?;
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_list_srqs(
    xrcd: *mut ibxrc_xrcd,
    srqs: *mut ib_xrc_srq_info,
    max: u32,
    count: *mut u32,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { store_count(count, || get(xrcd)?.srqs_into(array(srqs, max)?)) }
}
