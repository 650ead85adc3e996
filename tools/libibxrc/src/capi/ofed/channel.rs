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
    wait::{wait, Ready},
};
use crate::{error::Result, verbs::*, CompChannel, Context};

static CHANNELS: Shared<Channel> = Shared::new();

/// The kernel module's side of a completion channel, as long as CQs have it.
pub(super) struct Channel {
    module: CompChannel,
    /// Who waits for an event; the others wait for him.
    waiting: Mutex<()>,
}

impl Channel {
    pub(super) fn of(channel: *mut ibv_comp_channel, module: &Context) -> Result<Arc<Self>> {
        CHANNELS.get_or_make(channel, || {
            Ok(Channel {
                module: module.create_comp_channel()?,
                waiting: Mutex::new(()),
            })
        })
    }

    pub(super) fn module(&self) -> &CompChannel {
        &self.module
    }
}

/// An event of the kernel module, if there is one of a CQ that is still there.
fn take(channel: &Channel) -> Result<Option<*mut ibv_cq>> {
    let Some(event) = channel.module.try_read()? else {
        return Ok(None);
    };
    let cq: *mut ibv_cq = ptr::with_exposed_provenance_mut(event.user_handle as usize);
    Ok(Cq::find(cq).map(|known| {
        known.event_taken();
        cq
    }))
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
unsafe fn get(channel: *mut ibv_comp_channel) -> Result<Option<*mut ibv_cq>> {
    let lib = Libibverbs::get()?;
    let ours = CHANNELS.get(channel);
    let _waiting = ours.as_ref().map(|ours| lock(&ours.waiting));
    if let Some(ours) = &ours {
        // SAFETY: The caller's word: its descriptor is open.
        let theirs = unsafe { BorrowedFd::borrow_raw((*channel).fd) };
        loop {
            match wait(theirs, ours.module.as_fd(), "wait for a completion event")? {
                Ready::Theirs => break,
                Ready::Ours => {
                    if let Some(cq) = take(ours)? {
                        return Ok(Some(cq));
                    }
                }
            }
        }
    }
    let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: The caller's word.
    if unsafe { (lib.get_cq_event)(channel, &mut cq, &mut context) } != 0 {
        return Ok(None);
    }
    let Some(of) = qp::completes_into(cq) else {
        return Ok(Some(cq));
    };
    // The program knows nothing of the QP's own CQ.
    // SAFETY: The event came from it.
    unsafe { (lib.ack_cq_events)(cq, 1) };
    if let Some(known) = Cq::find(of) {
        known.event_taken();
    }
    Ok(Some(of))
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { get(channel) } {
        Ok(Some(found)) => {
            // SAFETY: As above; the CQ is there as long as its event is not acknowledged.
            unsafe {
                cq.write(found);
                cq_context.write((*found).cq_context);
            }
            0
        }
        // libibverbs has set errno.
        Ok(None) => -1,
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}
