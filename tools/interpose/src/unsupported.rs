// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Verbs that XRC SRQs and XRC QPs do not have, or not here. Those of the device never see
//! ours: they would take them for their own.

use std::ffi::c_int;

use ibxrc::verbs::*;

use crate::{
    context::{self, Originals},
    qp,
    real::{self, real},
    report, srq,
    sys::{ibv_flow, ibv_flow_attr},
};

/// The device's own functions, for what is its own.
///
/// # Safety
///
/// NULL or a good context.
unsafe fn originals<'a>(context: *const ibv_context) -> Option<&'a Originals> {
    // SAFETY: The caller's word.
    unsafe { context::of(context) }.map(|context| &context.originals)
}

/// # Safety
///
/// See ibv_attach_mcast(3).
pub(crate) unsafe fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { qp::of(qp) } {
        // It is for UD.
        Some(_) => libc::EINVAL,
        // SAFETY: As above.
        None => unsafe { (real().attach_mcast)(qp, gid, lid) },
    }
}

/// # Safety
///
/// See ibv_detach_mcast(3).
pub(crate) unsafe fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { qp::of(qp) } {
        Some(_) => libc::EINVAL,
        // SAFETY: As above.
        None => unsafe { (real().detach_mcast)(qp, gid, lid) },
    }
}

/// # Safety
///
/// See ibv_query_ece(3).
pub(crate) unsafe fn query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: The caller's word.
    let ours = unsafe { qp::of(qp) }.is_some();
    match real::query_ece().filter(|_| !ours) {
        // SAFETY: As above.
        Some(query) => unsafe { query(qp, ece) },
        // The QPs at both ends would have to have it, and those of the kernel have not.
        None => {
            report::set_errno(libc::EOPNOTSUPP);
            libc::EOPNOTSUPP
        }
    }
}

/// # Safety
///
/// See ibv_set_ece(3).
pub(crate) unsafe fn set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: The caller's word.
    let ours = unsafe { qp::of(qp) }.is_some();
    match real::set_ece().filter(|_| !ours) {
        // SAFETY: As above.
        Some(set) => unsafe { set(qp, ece) },
        None => {
            report::set_errno(libc::EOPNOTSUPP);
            libc::EOPNOTSUPP
        }
    }
}

/// # Safety
///
/// See ibv_query_qp_data_in_order(3).
pub(crate) unsafe fn query_data_in_order(qp: *mut ibv_qp, op: ibv_wr_opcode, flags: u32) -> c_int {
    // SAFETY: The caller's word.
    let ours = unsafe { qp::of(qp) }.is_some();
    match real::query_qp_data_in_order().filter(|_| !ours) {
        // SAFETY: As above.
        Some(query) => unsafe { query(qp, op, flags) },
        // Nothing is guaranteed.
        None => 0,
    }
}

/// # Safety
///
/// See ibv_bind_mw(3).
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    // SAFETY: The caller's word.
    if unsafe { qp::of(qp) }.is_some() {
        report::complain("ibv_bind_mw: memory windows are out of reach for XRC");
        return libc::EOPNOTSUPP;
    }
    // SAFETY: As above.
    match unsafe { originals((*qp).context) }.and_then(|originals| originals.bind_mw) {
        // SAFETY: As above.
        Some(original) => unsafe { original(qp, mw, bind) },
        None => libc::EOPNOTSUPP,
    }
}

/// # Safety
///
/// See ibv_create_flow(3).
pub(crate) unsafe extern "C" fn create_flow(
    qp: *mut ibv_qp,
    attr: *mut ibv_flow_attr,
) -> *mut ibv_flow {
    // SAFETY: The caller's word.
    if unsafe { qp::of(qp) }.is_some() {
        // It is for UD and raw packets.
        return report::null(libc::EINVAL);
    }
    // SAFETY: As above.
    match unsafe { originals((*qp).context) }.and_then(|originals| originals.create_flow) {
        // SAFETY: As above.
        Some(create) => unsafe { create(qp, attr) },
        None => report::null(libc::EOPNOTSUPP),
    }
}

/// # Safety
///
/// See ibv_modify_qp_rate_limit(3).
pub(crate) unsafe extern "C" fn modify_qp_rate_limit(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_rate_limit_attr,
) -> c_int {
    // SAFETY: The caller's word.
    let (ours, originals) = unsafe { (qp::of(qp), originals((*qp).context)) };
    let Some(modify) = originals.and_then(|originals| originals.modify_qp_rate_limit) else {
        return libc::EOPNOTSUPP;
    };
    match ours.map(qp::Qp::send) {
        // SAFETY: As above.
        None => unsafe { modify(qp, attr) },
        // SAFETY: It is not destroyed.
        Some(Some(send)) => unsafe { modify(send.real(), attr) },
        // It does not send.
        Some(None) => libc::EINVAL,
    }
}

/// # Safety
///
/// See ibv_post_srq_ops(3).
pub(crate) unsafe extern "C" fn post_srq_ops(
    srq: *mut ibv_srq,
    op: *mut ibv_ops_wr,
    bad: *mut *mut ibv_ops_wr,
) -> c_int {
    // SAFETY: The caller's word.
    let (ours, originals) = unsafe { (srq::of(srq).is_some(), originals((*srq).context)) };
    let errno = match originals.and_then(|originals| originals.post_srq_ops) {
        // SAFETY: As above.
        Some(post) if !ours => return unsafe { post(srq, op, bad) },
        // It has no tags to match.
        Some(_) => libc::EINVAL,
        None => libc::EOPNOTSUPP,
    };
    // SAFETY: As above.
    unsafe { *bad = op };
    errno
}
