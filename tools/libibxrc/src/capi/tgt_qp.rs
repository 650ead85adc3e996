// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! TGT QPs: see `infiniband/xrc.h`.

use std::ffi::c_int;

use super::{
    attr::{from_kernel, to_kernel},
    close, get, give, null, status,
};
use crate::{
    error::Result,
    tgt_qp::Target,
    uapi::{ib_uverbs_qp_attr, ib_xrc_tgt_qp_info},
    verbs::{ibv_qp_attr, ibv_qp_state, ibxrc_tgt_qp, ibxrc_xrcd},
    TgtQp,
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
    state: *mut ibv_qp_state,
) -> Result<()> {
    // SAFETY: The caller's word.
    let attr = unsafe { attr.as_ref() }.ok_or_else(null)?;
    let (now, result) = target?.connect(&to_kernel(attr, attr_mask)?);
    // SAFETY: The caller's word.
    if let (Some(now), Some(state)) = (now, unsafe { state.as_mut() }) {
        *state = now as ibv_qp_state;
    }
    result
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
    status(unsafe { connect(by_handle(qp), attr, attr_mask, state) })
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
    status(unsafe { connect(by_number(xrcd, qp_num), attr, attr_mask, state) })
}
