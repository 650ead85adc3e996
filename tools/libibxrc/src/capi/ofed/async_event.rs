// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Asynchronous events.

use std::{
    ffi::c_int,
    os::fd::{AsFd, BorrowedFd},
};

use super::{
    device::Device,
    fail,
    libibverbs::Libibverbs,
    lock, set_errno, srq,
    wait::{wait, Ready},
};
use crate::{error::Result, verbs::*, EventKind};

/// As the program is told; `None`: OFED did not have it, or its SRQ is gone.
fn told(device: &Device, kind: EventKind) -> Option<ibxrc_ofed_async_event> {
    let mut event = ibxrc_ofed_async_event::default();
    let (event_type, srq_num) = match kind {
        EventKind::TgtQpError { qp_num, error } => {
            event.event_type = error.0 | IBV_XRC_QP_EVENT_FLAG;
            event.element.xrc_qp_num = qp_num;
            return Some(event);
        }
        EventKind::SrqLimit { srq_num, .. } => (IBV_EVENT_SRQ_LIMIT_REACHED, srq_num),
        EventKind::SrqError { srq_num, .. } => (IBV_EVENT_SRQ_ERR, srq_num),
        // Those of ports and of the device libibverbs has, too.
        _ => return None,
    };
    event.event_type = event_type;
    event.element.srq = device.srq(srq_num)?;
    Some(event)
}

/// `None`: the next event is libibverbs'.
///
/// # Safety
///
/// A good context.
unsafe fn get(
    context: *mut ibv_context,
    device: &Device,
) -> Result<Option<ibxrc_ofed_async_event>> {
    // SAFETY: The caller's word: its descriptor is open.
    let theirs = unsafe { BorrowedFd::borrow_raw((*context).async_fd) };
    loop {
        match wait(theirs, device.events.as_fd(), "wait for an event")? {
            Ready::Theirs => return Ok(None),
            Ready::Ours => match device.events.try_read() {
                Ok(Some(event)) => {
                    if let Some(event) = told(device, event.kind) {
                        return Ok(Some(event));
                    }
                }
                Ok(None) => (),
                // The device is gone, as libibverbs tells.
                Err(_) => return Ok(None),
            },
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_get_async_event(
    context: *mut ibv_context,
    event: *mut ibxrc_ofed_async_event,
) -> c_int {
    let device = Device::find(context);
    let _waiting = device.as_ref().map(|device| lock(&device.waiting));
    let result = match &device {
        // SAFETY: The caller's word.
        Some(device) => unsafe { get(context, device) },
        None => Ok(None),
    };
    match result.and_then(|ours| Ok((ours, Libibverbs::get()?))) {
        Ok((Some(ours), _)) => {
            // SAFETY: The caller's word.
            unsafe { event.write(ours) };
            0
        }
        // SAFETY: As above.
        Ok((None, lib)) => unsafe { (lib.get_async_event)(context, event.cast()) },
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_ack_async_event(event: *mut ibxrc_ofed_async_event) {
    // SAFETY: The caller's word.
    let given = unsafe { &*event };
    let ours = match given.event_type {
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
            // SAFETY: Such an event has an SRQ, which is there until it is acknowledged.
            unsafe { srq::of(given.element.srq) }.is_some()
        }
        event_type => event_type & IBV_XRC_QP_EVENT_FLAG != 0,
    };
    // Nothing waits for the acknowledgement of ours.
    if let (false, Ok(lib)) = (ours, Libibverbs::get()) {
        // SAFETY: As above.
        unsafe { (lib.ack_async_event)(event.cast()) };
    }
}
