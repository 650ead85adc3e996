// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The kernel module's side of a `struct ibv_context`.

use std::{
    collections::BTreeMap,
    ffi::{c_int, CStr},
    sync::{Arc, Mutex},
};

use super::{libibverbs::Libibverbs, lock, null, srq, status, table::Shared};
use crate::{error::Result, verbs::*, Context, EventFile, ReportTo};

static DEVICES: Shared<Device> = Shared::new();

/// It is there as long as there are domains of it.
pub(super) struct Device {
    pub(super) module: Context,
    /// Events of receiving QPs and of SRQs.
    pub(super) events: EventFile,
    /// Held while somebody takes an asynchronous event, for which he does not wait.
    pub(super) reading: Mutex<()>,
    /// The addresses of SRQs, by their numbers.
    srqs: Mutex<BTreeMap<u32, usize>>,
}

impl Device {
    /// # Safety
    ///
    /// NULL or a good context.
    pub(super) unsafe fn open(context: *mut ibv_context) -> Result<Arc<Self>> {
        // SAFETY: The caller's word.
        let module = unsafe { module(context) };
        DEVICES.get_or_make(context, || {
            let module = module?;
            Ok(Device {
                events: module.create_event_file(None)?,
                module,
                reading: Mutex::new(()),
                srqs: Mutex::default(),
            })
        })
    }

    /// `None`: it has no domains.
    pub(super) fn find(context: *mut ibv_context) -> Option<Arc<Self>> {
        DEVICES.get(context)
    }

    /// Where a receiving QP reports to. The events have its number.
    pub(super) fn report_to(&self) -> ReportTo<'_> {
        ReportTo {
            file: &self.events,
            user_handle: 0,
        }
    }

    pub(super) fn add(&self, srq: &srq::Srq) {
        lock(&self.srqs).insert(srq.num(), srq.shell().addr());
    }

    pub(super) fn remove(&self, srq: &srq::Srq) {
        lock(&self.srqs).remove(&srq.num());
    }

    /// The SRQ of a number, if it is still there: the program gets an event of it.
    pub(super) fn has_event(&self, number: u32) -> Option<*mut ibxrc_ofed_srq> {
        let srqs = lock(&self.srqs);
        let shell = std::ptr::with_exposed_provenance_mut(*srqs.get(&number)?);
        srq::ACKS.taken(shell);
        Some(shell)
    }
}

/// # Safety
///
/// NULL or a good context.
unsafe fn module(context: *mut ibv_context) -> Result<Context> {
    // SAFETY: The caller's word: a context has a device, and that a name.
    let name = unsafe {
        let context = context.as_ref().ok_or_else(null)?;
        let device = context.device.as_ref().ok_or_else(null)?;
        CStr::from_ptr(device.name.as_ptr())
    };
    Context::open(&*name.to_string_lossy())
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_query_device(
    context: *mut ibv_context,
    device_attr: *mut ibv_device_attr,
) -> c_int {
    let lib = match Libibverbs::get() {
        Ok(lib) => lib,
        Err(error) => return status(Err(error)),
    };
    // SAFETY: The caller's word.
    let errno = unsafe { (lib.query_device)(context, device_attr) };
    // SAFETY: As above.
    if errno == 0 && (Device::find(context).is_some() || unsafe { module(context) }.is_ok()) {
        // SAFETY: It was written to.
        unsafe { (*device_attr).device_cap_flags |= IBV_DEVICE_XRC };
    }
    errno
}
