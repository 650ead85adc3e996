// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Devices: see `infiniband/xrc.h`.

use std::ffi::{c_char, c_int, CStr};

use super::{close, fail, get, give, null, status};
use crate::{
    context::list_devices_raw,
    error::{Error, Result},
    uapi::{ib_xrc_device_info, ib_xrc_limits},
    verbs::ibxrc_context,
    Context,
};

/// An array of the caller's.
///
/// # Safety
///
/// `array` is NULL or has `max` elements.
pub(super) unsafe fn array<'a, T>(array: *mut T, max: u32) -> Result<&'a mut [T]> {
    match max {
        0 => Ok(&mut []),
        _ if array.is_null() => Err(null()),
        // SAFETY: The caller's word.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(array, max as usize) }),
    }
}

/// Stores what a listing says how much there is.
///
/// # Safety
///
/// `count` is NULL or may be written to.
pub(super) unsafe fn store_count(count: *mut u32, list: impl FnOnce() -> Result<u32>) -> c_int {
    // SAFETY: The caller's word.
    let Some(count) = (unsafe { count.as_mut() }) else {
        return fail(null());
    };
    status(list().map(|n| *count = n))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_list_devices(
    devices: *mut ib_xrc_device_info,
    max: u32,
    count: *mut u32,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { store_count(count, || list_devices_raw(array(devices, max)?)) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_open(device_name: *const c_char) -> *mut ibxrc_context {
    if device_name.is_null() {
        return give(Err(null()));
    }
    // SAFETY: The caller's word.
    let name = unsafe { CStr::from_ptr(device_name) };
    give(match name.to_str() {
        Ok(name) => Context::open(name),
        Err(_) => Err(Error::NoDevice {
            wanted: name.to_string_lossy().into_owned(),
            available: crate::list_devices()
                .unwrap_or_default()
                .into_iter()
                .map(|d| d.name)
                .collect(),
        }),
    })
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_open_index(index: u32) -> *mut ibxrc_context {
    give(Context::open(index))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_close(context: *mut ibxrc_context) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(context, Context::close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_query(
    context: *mut ibxrc_context,
    device: *mut ib_xrc_device_info,
    limits: *mut ib_xrc_limits,
) -> c_int {
    // SAFETY: The caller's word.
    let (context, device, limits) = unsafe { (get(context), device.as_mut(), limits.as_mut()) };
    status(context.and_then(|context| context.query_raw(device, limits)))
}
