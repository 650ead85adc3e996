// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! TGT QPs: see `infiniband/xrc.h`.

use std::{ffi::c_int, time::Duration};

use super::{
    attr::{from_kernel, to_kernel},
    close,
    device::{array, store_count},
    get, give, known, null, report_to, status,
};
use crate::{
    error::Result,
    tgt_qp::{Registration, Target},
    uapi::{ib_uverbs_qp_attr, ib_xrc_disconnect_info, ib_xrc_holder_info, ib_xrc_tgt_qp_info},
    verbs::{
        ibv_qp_attr, ibv_qp_state, ibxrc_tgt_qp, ibxrc_tgt_qp_init_attr, ibxrc_xrcd,
        IBXRC_TGT_QP_INIT_ATTR_EVENTS,
    },
    TgtQp, TgtQpOptions,
};

/// # Safety
///
/// As [`get`].
unsafe fn by_handle<'a>(qp: *mut ibxrc_tgt_qp) -> Result<Target<'a>> {
    // SAFETY: The caller's word.
    Ok(Target::Handle(&unsafe { get(qp) }?.handle))
}

/// # Safety
///
/// As [`get`].
unsafe fn by_number<'a>(xrcd: *mut ibxrc_xrcd, qp_num: u32) -> Result<Target<'a>> {
    Ok(Target::Number {
        // SAFETY: The caller's word.
        xrcd: &unsafe { get(xrcd) }?.inner,
        qp_num,
    })
}

/// # Safety
///
/// `attr` is NULL or good.
unsafe fn modify(
    target: Result<Target<'_>>,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
) -> Result<()> {
    // SAFETY: The caller's word.
    let attr = unsafe { attr.as_ref() }.ok_or_else(null)?;
    target?.modify(&to_kernel(attr, attr_mask)?)
}

/// # Safety
///
/// `attr` and `info` are NULL or good.
unsafe fn query(
    target: Result<Target<'_>>,
    attr: *mut ibv_qp_attr,
    info: *mut ib_xrc_tgt_qp_info,
) -> Result<()> {
    let mut raw = ib_uverbs_qp_attr::default();
    // SAFETY: The caller's word.
    let (attr, info) = unsafe { (attr.as_mut(), info.as_mut()) };
    target?.query(attr.is_some().then_some(&mut raw), info)?;
    if let Some(attr) = attr {
        *attr = from_kernel(&raw);
    }
    Ok(())
}

/// # Safety
///
/// `attr` and `state` are NULL or good.
unsafe fn connect(
    target: Result<Target<'_>>,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
    timeout_ms: Option<u32>,
    state: *mut ibv_qp_state,
) -> Result<()> {
    // SAFETY: The caller's word.
    let attr = unsafe { attr.as_ref() }.ok_or_else(null)?;
    let (now, result) = target?.connect(&to_kernel(attr, attr_mask)?, timeout_ms);
    // SAFETY: The caller's word.
    if let (Some(now), Some(state)) = (now, unsafe { state.as_mut() }) {
        *state = now as ibv_qp_state;
    }
    result
}

/// # Safety
///
/// `info` is NULL or good.
unsafe fn disconnect(
    target: Result<Target<'_>>,
    registration: Registration,
    timeout_ms: u32,
    info: *mut ib_xrc_disconnect_info,
) -> Result<()> {
    let found = target?.disconnect(registration, timeout_ms)?;
    // SAFETY: The caller's word.
    if let Some(info) = unsafe { info.as_mut() } {
        *info = found;
    }
    Ok(())
}

/// # Safety
///
/// `attr` is NULL or good.
unsafe fn options<'a>(attr: *const ibxrc_tgt_qp_init_attr) -> Result<TgtQpOptions<'a>> {
    const EVENTS: u32 = IBXRC_TGT_QP_INIT_ATTR_EVENTS;
    // SAFETY: The caller's word.
    let attr = unsafe { attr.as_ref() }.ok_or_else(null)?;
    known(attr.comp_mask, EVENTS)?;
    Ok(TgtQpOptions {
        // SAFETY: The caller's word.
        events: unsafe { report_to(attr.comp_mask, EVENTS, attr.event_file, attr.qp_context)? },
    })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_tgt_qp(xrcd: *mut ibxrc_xrcd) -> *mut ibxrc_tgt_qp {
    // SAFETY: The caller's word.
    give(unsafe { get(xrcd) }.and_then(|xrcd| xrcd.create_tgt_qp()))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_open_tgt_qp(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
) -> *mut ibxrc_tgt_qp {
    // SAFETY: The caller's word.
    give(unsafe { get(xrcd) }.and_then(|xrcd| xrcd.open_tgt_qp(qp_num)))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_tgt_qp_ex(
    xrcd: *mut ibxrc_xrcd,
    attr: *const ibxrc_tgt_qp_init_attr,
) -> *mut ibxrc_tgt_qp {
    // SAFETY: The caller's word.
    give(unsafe { get(xrcd) }.and_then(|xrcd| {
        // SAFETY: The caller's word.
        xrcd.create_tgt_qp_with(unsafe { options(attr)? })
    }))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_open_tgt_qp_ex(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    attr: *const ibxrc_tgt_qp_init_attr,
) -> *mut ibxrc_tgt_qp {
    // SAFETY: The caller's word.
    give(unsafe { get(xrcd) }.and_then(|xrcd| {
        // SAFETY: The caller's word.
        xrcd.open_tgt_qp_with(qp_num, unsafe { options(attr)? })
    }))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_close_tgt_qp(qp: *mut ibxrc_tgt_qp) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(qp, TgtQp::close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_tgt_qp_num(qp: *const ibxrc_tgt_qp) -> u32 {
    // SAFETY: The caller's word.
    unsafe { get(qp) }.map_or(0, TgtQp::qp_num)
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_modify_tgt_qp(
    qp: *mut ibxrc_tgt_qp,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { modify(by_handle(qp), attr, attr_mask) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_modify_tgt_qpn(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { modify(by_number(xrcd, qp_num), attr, attr_mask) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_query_tgt_qp(
    qp: *mut ibxrc_tgt_qp,
    attr: *mut ibv_qp_attr,
    info: *mut ib_xrc_tgt_qp_info,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { query(by_handle(qp), attr, info) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_query_tgt_qpn(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    attr: *mut ibv_qp_attr,
    info: *mut ib_xrc_tgt_qp_info,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { query(by_number(xrcd, qp_num), attr, info) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_connect_tgt_qp(
    qp: *mut ibxrc_tgt_qp,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
    state: *mut ibv_qp_state,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { connect(by_handle(qp), attr, attr_mask, None, state) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_connect_tgt_qpn(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
    state: *mut ibv_qp_state,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { connect(by_number(xrcd, qp_num), attr, attr_mask, None, state) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_connect_tgt_qp_timeout(
    qp: *mut ibxrc_tgt_qp,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
    timeout_ms: u32,
    state: *mut ibv_qp_state,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { connect(by_handle(qp), attr, attr_mask, Some(timeout_ms), state) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_connect_tgt_qpn_timeout(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    attr: *const ibv_qp_attr,
    attr_mask: c_int,
    timeout_ms: u32,
    state: *mut ibv_qp_state,
) -> c_int {
    // SAFETY: The caller's word.
    let result = unsafe {
        connect(
            by_number(xrcd, qp_num),
            attr,
            attr_mask,
            Some(timeout_ms),
            state,
        )
    };
    status(result)
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_disconnect_tgt_qp(
    qp: *mut ibxrc_tgt_qp,
    timeout_ms: u32,
    info: *mut ib_xrc_disconnect_info,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { disconnect(by_handle(qp), Registration::Keep, timeout_ms, info) })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_disconnect_tgt_qpn(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    timeout_ms: u32,
    info: *mut ib_xrc_disconnect_info,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe {
        disconnect(
            by_number(xrcd, qp_num),
            Registration::Keep,
            timeout_ms,
            info,
        )
    })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_disconnect_close_tgt_qp(
    qp: *mut ibxrc_tgt_qp,
    timeout_ms: u32,
    info: *mut ib_xrc_disconnect_info,
) -> c_int {
    let disconnect_close = |qp: TgtQp| {
        let timeout = Duration::from_millis(timeout_ms.into());
        let found = qp.disconnect_and_close(timeout)?;
        // SAFETY: The caller's word.
        if let Some(info) = unsafe { info.as_mut() } {
            *info = ib_xrc_disconnect_info {
                delivered_msgs: found.delivered_msgs,
                flushed_msgs: found.flushed_msgs,
            };
        }
        Ok(())
    };
    // SAFETY: The caller's word.
    unsafe { close(qp, disconnect_close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_list_tgt_qp_holders(
    qp: *mut ibxrc_tgt_qp,
    holders: *mut ib_xrc_holder_info,
    max: u32,
    count: *mut u32,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { store_count(count, || by_handle(qp)?.holders_into(array(holders, max)?)) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_list_tgt_qpn_holders(
    xrcd: *mut ibxrc_xrcd,
    qp_num: u32,
    holders: *mut ib_xrc_holder_info,
    max: u32,
    count: *mut u32,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe {
        store_count(count, || {
            by_number(xrcd, qp_num)?.holders_into(array(holders, max)?)
        })
    }
}
