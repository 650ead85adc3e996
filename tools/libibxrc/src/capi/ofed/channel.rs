// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion channels of CQs that XRC SRQs and QPs complete into.

use std::{
    ffi::{c_int, c_void},
    os::fd::{AsFd, BorrowedFd},
    ptr,
    sync::{Arc, Mutex},
};

use super::{
    cq::Cq,
    fail,
    libibverbs::Libibverbs,
    lock, qp, set_errno,
    table::Shared,
    wait::{ready, test_cancel, uncancelled, until_ready, Next, Ready},
};
use crate::{
    error::{Errno, Result},
    verbs::*,
    CompChannel, Context,
};

static CHANNELS: Shared<Channel> = Shared::new();

/// The kernel module's side of a completion channel, as long as CQs have it.
pub(super) struct Channel {
    module: CompChannel,
    /// Held while somebody takes an event, for which he does not wait.
    reading: Mutex<()>,
}

impl Channel {
    pub(super) fn of(channel: *mut ibv_comp_channel, module: &Context) -> Result<Arc<Self>> {
        CHANNELS.get_or_make(channel, || {
            Ok(Channel {
                module: module.create_comp_channel()?,
                reading: Mutex::new(()),
            })
        })
    }

    pub(super) fn module(&self) -> &CompChannel {
        &self.module
    }
}

/// An event of the kernel module, if there is one of a CQ that is still there.
fn take_ours(channel: &Channel) -> Result<Option<*mut ibv_cq>> {
    let Some(event) = channel.module.try_read()? else {
        return Ok(None);
    };
    let cq: *mut ibv_cq = ptr::with_exposed_provenance_mut(event.user_handle as usize);
    Ok(Cq::find(cq).map(|known| {
        known.event_taken();
        cq
    }))
}

/// An event of libibverbs. It may wait, with nothing to drop; `None`: errno is set.
///
/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
unsafe fn take_theirs(lib: &Libibverbs, channel: *mut ibv_comp_channel) -> Option<*mut ibv_cq> {
    let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: The caller's word.
    if unsafe { (lib.get_cq_event)(channel, &mut cq, &mut context) } != 0 {
        return None;
    }
    let Some(of) = qp::completes_into(cq) else {
        return Some(cq);
    };
    if let Some(known) = Cq::find(of) {
        known.event_taken();
    }
    // The program knows nothing of the QP's own CQ, which is not gone before this.
    // SAFETY: The event came from it.
    unsafe { (lib.ack_cq_events)(cq, 1) };
    Some(of)
}

/// Takes the next event, without waiting for it.
///
/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
unsafe fn take(lib: &Libibverbs, channel: *mut ibv_comp_channel) -> Result<Next<*mut ibv_cq>> {
    let Some(ours) = CHANNELS.get(channel) else {
        return Ok(Next::Theirs);
    };
    let _reading = lock(&ours.reading);
    // SAFETY: The caller's word: its descriptor is open.
    let theirs = unsafe { BorrowedFd::borrow_raw((*channel).fd) };
    loop {
        match ready(theirs, ours.module.as_fd(), "wait for a completion event")? {
            Err(both) => return Ok(Next::Wait(both)),
            // SAFETY: As above.
            Ok(Ready::Theirs) => return Ok(Next::Return(unsafe { take_theirs(lib, channel) })),
            Ok(Ready::Ours) => {
                if let Some(cq) = take_ours(&ours)? {
                    return Ok(Next::Return(Some(cq)));
                }
            }
        }
    }
}

/// An errno value; 0: it is set.
///
/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
unsafe fn get(channel: *mut ibv_comp_channel) -> std::result::Result<*mut ibv_cq, c_int> {
    let lib = Libibverbs::get().map_err(fail)?;
    test_cancel();
    loop {
        // SAFETY: The caller's word.
        match uncancelled(|| unsafe { take(lib, channel) }.map_err(fail))? {
            Next::Return(found) => return found.ok_or(0),
            // SAFETY: As above.
            Next::Theirs => return unsafe { take_theirs(lib, channel) }.ok_or(0),
            Next::Wait(both) => until_ready(both).map_err(Errno::raw)?,
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C-unwind" fn ibxrc_ofed_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { get(channel) } {
        Ok(found) => {
            // SAFETY: As above; the CQ is there as long as its event is not acknowledged.
            unsafe {
                cq.write(found);
                cq_context.write((*found).cq_context);
            }
            0
        }
        Err(errno) => {
            if errno != 0 {
                set_errno(errno);
            }
            -1
        }
    }
}
