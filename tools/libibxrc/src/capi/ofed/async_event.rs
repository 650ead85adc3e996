// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Asynchronous events.

use std::{
    ffi::c_int,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
};

use super::{
    device::Device,
    fail,
    libibverbs::Libibverbs,
    lock, set_errno, srq,
    wait::{ready, test_cancel, uncancelled, until_ready, Next, Ready},
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
    event.element.srq = device.has_event(srq_num)?;
    Some(event)
}

/// Takes the next event, without waiting for it.
///
/// # Safety
///
/// A good context.
unsafe fn take(
    lib: &Libibverbs,
    context: *mut ibv_context,
) -> Result<Next<ibxrc_ofed_async_event>> {
    let Some(device) = Device::find(context) else {
        return Ok(Next::Theirs);
    };
    let _reading = lock(&device.reading);
    // SAFETY: The caller's word: its descriptor is open.
    let theirs = unsafe { BorrowedFd::borrow_raw((*context).async_fd) };
    loop {
        match ready(theirs, device.events.as_fd(), "wait for an event")? {
            Err(both) => return Ok(Next::Wait(both)),
            Ok(Ready::Theirs) => {
                let mut event = MaybeUninit::<ibxrc_ofed_async_event>::uninit();
                // SAFETY: The caller's word. The layout is that of libibverbs.
                let got = unsafe { (lib.get_async_event)(context, event.as_mut_ptr().cast()) };
                if got != 0 {
                    return Ok(Next::Return(None));
                }
                // SAFETY: It was written to.
                return Ok(Next::Return(Some(unsafe { event.assume_init() })));
            }
            Ok(Ready::Ours) => match device.events.try_read() {
                Ok(Some(event)) => {
                    if let Some(event) = told(&device, event.kind) {
                        return Ok(Next::Return(Some(event)));
                    }
                }
                Ok(None) => (),
                // The device is gone, as libibverbs tells.
                Err(_) => return Ok(Next::Theirs),
            },
        }
    }
}

fn failed(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C-unwind" fn ibxrc_ofed_get_async_event(
    context: *mut ibv_context,
    event: *mut ibxrc_ofed_async_event,
) -> c_int {
    let lib = match Libibverbs::get() {
        Ok(lib) => lib,
        Err(error) => return failed(fail(error)),
    };
    test_cancel();
    loop {
        // SAFETY: The caller's word.
        let both = match uncancelled(|| unsafe { take(lib, context) }.map_err(fail)) {
            Ok(Next::Wait(both)) => both,
            // SAFETY: As above.
            Ok(Next::Theirs) => return unsafe { (lib.get_async_event)(context, event.cast()) },
            Ok(Next::Return(Some(taken))) => {
                // SAFETY: As above.
                unsafe { event.write(taken) };
                return 0;
            }
            // libibverbs has set errno.
            Ok(Next::Return(None)) => return -1,
            Err(errno) => return failed(errno),
        };
        if let Err(errno) = until_ready(both) {
            return failed(errno.raw());
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
            // SAFETY: Such an event has an SRQ.
            srq::ACKS.acknowledge(unsafe { given.element.srq })
        }
        // Nothing waits for the acknowledgement of these.
        event_type => event_type & IBV_XRC_QP_EVENT_FLAG != 0,
    };
    if let (false, Ok(lib)) = (ours, Libibverbs::get()) {
        // SAFETY: As above.
        unsafe { (lib.ack_async_event)(event.cast()) };
    }
}
