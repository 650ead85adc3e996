// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory of a domain: see `infiniband/xrc.h`.

use std::ffi::{c_int, c_void};

use super::{close, get, give};
use crate::{verbs::*, Mr};

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_reg_mr(
    xrcd: *mut ibxrc_xrcd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibxrc_mr {
    give((|| {
        // SAFETY: The caller's word.
        let xrcd = unsafe { get(xrcd)? };
        // SAFETY: As above.
        unsafe { xrcd.reg_mr_raw(addr as u64, length as u64, None, access as u32) }
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_reg_mr_iova(
    xrcd: *mut ibxrc_xrcd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibxrc_mr {
    give((|| {
        // SAFETY: The caller's word.
        let xrcd = unsafe { get(xrcd)? };
        // SAFETY: As above.
        unsafe { xrcd.reg_mr_raw(addr as u64, length as u64, Some(iova), access as u32) }
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_mr_rkey(mr: *const ibxrc_mr) -> u32 {
    // SAFETY: The caller's word.
    unsafe { get(mr) }.map_or(0, Mr::rkey)
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_dereg_mr(mr: *mut ibxrc_mr) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(mr, Mr::close) }
}
