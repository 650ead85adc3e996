// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The sender's side: see `infiniband/xrc.h`.

use std::{
    ffi::c_int,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{close, fail, get, give, known, null, set_errno, status};
use crate::{error::Result, verbs::*, IniQp, IniQpAttr};

/// # Safety
///
/// As [`get`].
unsafe fn lock<'a>(ini: *mut ibxrc_ini_qp) -> Result<MutexGuard<'a, IniQp>> {
    // SAFETY: The caller's word.
    let ini = unsafe { get(ini)? };
    // Nobody panics with it.
    Ok(ini.lock().unwrap_or_else(PoisonError::into_inner))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_ini_qp(
    qp: *mut ibv_qp,
    attr: *const ibxrc_ini_qp_init_attr,
) -> *mut ibxrc_ini_qp {
    give((|| {
        let qp = NonNull::new(qp).ok_or_else(null)?;
        let mut given = IniQpAttr::default();
        // SAFETY: The caller's word.
        if let Some(attr) = unsafe { attr.as_ref() } {
            known(attr.comp_mask, 0)?;
            given.max_send_wr = attr.max_send_wr;
            given.max_inline_data = attr.max_inline_data;
        }
        // SAFETY: As above.
        Ok(Mutex::new(unsafe { IniQp::new(qp, given)? }))
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_destroy_ini_qp(ini: *mut ibxrc_ini_qp) -> c_int {
    // SAFETY: The caller's word.
    unsafe {
        close(ini, |ini| {
            drop(ini);
            Ok(())
        })
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_post_ini_send(
    ini: *mut ibxrc_ini_qp,
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
    // SAFETY: The caller's word.
    let mut ini = match unsafe { lock(ini) } {
        Ok(ini) if !wr.is_null() => ini,
        Ok(_) => return stop(wr, null()),
        Err(error) => return stop(wr, error),
    };
    let mut at = wr;
    // SAFETY: The caller's word.
    while let Some(request) = unsafe { at.as_ref() } {
        // SAFETY: As above.
        if let Err(error) = unsafe { ini.post(request) } {
            return stop(at, error);
        }
        at = request.next;
    }
    0
}

/// What `next` returns becomes `*wc`.
///
/// # Safety
///
/// As [`get`]; `wc` is NULL or good.
unsafe fn replace(
    ini: *mut ibxrc_ini_qp,
    wc: *mut ibv_wc,
    next: impl FnOnce(&mut IniQp, &ibv_wc) -> Option<ibv_wc>,
) -> c_int {
    // SAFETY: The caller's word.
    let both = unsafe { lock(ini).and_then(|ini| Ok((ini, wc.as_mut().ok_or_else(null)?))) };
    let (mut ini, wc) = match both {
        Ok(both) => both,
        Err(error) => {
            set_errno(fail(error));
            return -1;
        }
    };
    match next(&mut ini, wc) {
        Some(next) => {
            *wc = next;
            1
        }
        None => 0,
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ini_completed(
    ini: *mut ibxrc_ini_qp,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { replace(ini, wc, IniQp::completed) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ini_flushed(
    ini: *mut ibxrc_ini_qp,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { replace(ini, wc, |ini, _| ini.flushed()) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_reset_ini_qp(ini: *mut ibxrc_ini_qp) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { lock(ini) }.map(|mut ini| ini.reset()))
}
