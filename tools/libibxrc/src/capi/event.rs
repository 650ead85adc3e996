// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Event files: see `infiniband/xrc.h`.

use std::{
    ffi::c_int,
    os::fd::{AsFd, AsRawFd},
    slice,
};

use super::{close, fail, get, give, null, set_errno};
use crate::{
    error::Error,
    uapi::ib_xrc_event,
    verbs::{ibxrc_context, ibxrc_event_file},
    EventFile,
};

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_event_file(
    context: *mut ibxrc_context,
    depth: u32,
) -> *mut ibxrc_event_file {
    give((|| {
        // SAFETY: The caller's word.
        let file = unsafe { get(context)? }.create_event_file(Some(depth))?;
        file.queue().set_blocking(true)?;
        Ok(file)
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_destroy_event_file(file: *mut ibxrc_event_file) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(file, EventFile::close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_event_file_fd(file: *const ibxrc_event_file) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { get(file) } {
        Ok(file) => file.as_fd().as_raw_fd(),
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_read_events(
    file: *mut ibxrc_event_file,
    num_entries: c_int,
    events: *mut ib_xrc_event,
) -> c_int {
    let result = (|| {
        // SAFETY: The caller's word.
        let file = unsafe { get(file)? };
        if events.is_null() {
            return Err(null());
        }
        let max = usize::try_from(num_entries)
            .ok()
            .filter(|max| *max > 0)
            .ok_or_else(|| Error::invalid("at least one event must be taken"))?;
        // SAFETY: The caller's word: there are `max` elements. Any bytes are an event.
        let events = unsafe { slice::from_raw_parts_mut(events, max) };
        file.queue().read_once(events)
    })();
    match result {
        Ok(n) => n as c_int,
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}
