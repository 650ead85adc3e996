// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Extended CQs: ibv_create_cq_ex(3).

use std::ptr::NonNull;

use ibxrc::verbs::*;

use crate::{channel, context, report};

/// # Safety
///
/// See ibv_create_cq_ex(3).
pub(crate) unsafe extern "C" fn create(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: The caller's word.
    let create = unsafe { context::of(context) }.and_then(|c| c.originals.create_cq_ex);
    let Some(create) = create else {
        return report::null(libc::EOPNOTSUPP);
    };
    // SAFETY: The caller's word. Newer versions of the structure may have more at their end,
    // so that it is not copied.
    unsafe {
        let given = (*attr).channel;
        let ours = channel::of(given);
        if let Some(channel) = ours {
            (*attr).channel = channel.real();
        }
        let cq = create(context, attr);
        (*attr).channel = given;
        if let (Some(channel), Some(cq)) = (ours, NonNull::new(cq)) {
            channel.take_over(cq.cast());
        }
        cq
    }
}
