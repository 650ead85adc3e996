// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Sending: see `infiniband/xrc.h`.

use std::ffi::c_int;

use super::{fail, null};
use crate::{
    ini::post_send,
    verbs::{ibv_qp, ibv_send_wr},
};

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let stop = |at, error| {
        // SAFETY: The caller's word.
        if let Some(bad) = unsafe { bad_wr.as_mut() } {
            *bad = at;
        }
        fail(error)
    };
    if qp.is_null() || wr.is_null() {
        return stop(wr, null());
    }
    let mut at = wr;
    // SAFETY: The caller's word.
    while let Some(request) = unsafe { at.as_ref() } {
        // SAFETY: As above.
        if let Err(error) = unsafe { post_send(qp, request) } {
            return stop(at, error);
        }
        at = request.next;
    }
    0
}
