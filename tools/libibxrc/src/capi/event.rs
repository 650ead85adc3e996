// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Event files: see `infiniband/xrc.h`.

use std::{
    ffi::c_int,
    os::fd::{AsFd, AsRawFd},
    slice,
    time::Duration,
};

use rustix::fs::{fcntl_getfl, OFlags};

use super::{close, fail, get, give, null, set_errno};
use crate::{
    error::{Errno, Error, Result},
    event_file::WAIT,
    uapi::ib_xrc_event,
    verbs::{ibxrc_context, ibxrc_event_file},
    EventFile,
};

/// How long a call may wait that follows the descriptor's `O_NONBLOCK`.
pub(super) fn patience(fd: impl AsFd, what: &'static str) -> Result<Option<Duration>> {
    let flags = fcntl_getfl(fd).map_err(|e| Error::call(what, e.into()))?;
    Ok(flags.contains(OFlags::NONBLOCK).then_some(Duration::ZERO))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_event_file(
    context: *mut ibxrc_context,
    depth: u32,
) -> *mut ibxrc_event_file {
    // SAFETY: The caller's word.
    give(unsafe { get(context) }.and_then(|context| context.create_event_file(Some(depth))))
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
        match file.read_raw(events, patience(file, WAIT)?)? {
            0 => Err(Error::call(WAIT, Errno::EAGAIN)),
            n => Ok(n),
        }
    })();
    match result {
        Ok(n) => n as c_int,
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}
