// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Domains.

use std::{
    collections::BTreeMap,
    ffi::c_int,
    ptr,
    sync::{Arc, Mutex},
};

use super::{device::Device, failed, lock, null, status};
use crate::{
    error::{Errno, Error, Result},
    verbs::*,
    xrcd::RawOptions,
    TgtQp, Xrcd,
};

/// A handle on a domain. SRQs and QPs of it keep it.
#[repr(C)]
pub(super) struct Domain {
    /// What the program has.
    shell: ibv_xrc_domain,
    /// The receiving QPs that this process is registered with, by their numbers.
    pub(super) registered: Mutex<BTreeMap<u32, TgtQp>>,
    pub(super) xrcd: Xrcd,
    pub(super) device: Arc<Device>,
}

// SAFETY: The pointer in the shell is for the program.
unsafe impl Send for Domain {}
// SAFETY: As above.
unsafe impl Sync for Domain {}

impl Domain {
    /// # Safety
    ///
    /// NULL or a good context.
    unsafe fn open(context: *mut ibv_context, fd: c_int, oflag: c_int) -> Result<Arc<Self>> {
        // SAFETY: The caller's word.
        let device = unsafe { Device::open(context)? };
        let options = RawOptions {
            fd,
            oflags: oflag as u32,
            policy: None,
            job_key: None,
            events: None,
        };
        let xrcd = Xrcd::open_raw(&device.module.inner, &options)?;
        Ok(Arc::new(Domain {
            shell: ibv_xrc_domain {
                context,
                handle: xrcd.inner.handle.id(),
            },
            registered: Mutex::default(),
            xrcd,
            device,
        }))
    }

    /// What is behind a domain of the program.
    ///
    /// # Safety
    ///
    /// NULL or a good domain, which is not closed as long as the reference is used.
    pub(super) unsafe fn of<'a>(domain: *mut ibv_xrc_domain) -> Result<&'a Self> {
        // SAFETY: The caller's word: it is one of `ibv_open_xrc_domain`.
        unsafe { domain.cast::<Self>().as_ref() }.ok_or_else(null)
    }

    /// The same, to keep it.
    ///
    /// # Safety
    ///
    /// NULL or a good domain.
    pub(super) unsafe fn keep(domain: *mut ibv_xrc_domain) -> Result<Arc<Self>> {
        if domain.is_null() {
            return Err(null());
        }
        let domain = domain.cast::<Self>().cast_const();
        // SAFETY: The caller's word: it is of `Arc::into_raw`, and has one reference at least.
        unsafe {
            Arc::increment_strong_count(domain);
            Ok(Arc::from_raw(domain))
        }
    }

    /// What the program has.
    pub(super) fn shell(self: &Arc<Self>) -> *mut ibv_xrc_domain {
        Arc::as_ptr(self).cast_mut().cast()
    }

    pub(super) fn verbs(&self) -> *mut ibv_context {
        self.shell.context
    }

    fn close(self: &Arc<Self>) -> Result<()> {
        // One reference is the program's, and one the caller's.
        if Arc::strong_count(self) > 2 || !lock(&self.registered).is_empty() {
            return Err(Error::Call {
                what: "close the domain",
                errno: Errno::EBUSY,
                advice: "this process still has SRQs or QPs of it, or is registered with \
                         receiving QPs of it",
            });
        }
        self.xrcd.inner.handle.close()
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_open_xrc_domain(
    context: *mut ibv_context,
    fd: c_int,
    oflag: c_int,
) -> *mut ibv_xrc_domain {
    // SAFETY: The caller's word.
    match unsafe { Domain::open(context, fd, oflag) } {
        Ok(domain) => Arc::into_raw(domain).cast_mut().cast(),
        Err(error) => failed(error),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_close_xrc_domain(domain: *mut ibv_xrc_domain) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let kept = unsafe { Domain::keep(domain)? };
        kept.close()?;
        // SAFETY: That of `ibv_open_xrc_domain`, which the program has given back.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(&kept)) };
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_xrcd(domain: *mut ibv_xrc_domain) -> *mut ibxrc_xrcd {
    // SAFETY: The caller's word.
    match unsafe { Domain::of(domain) } {
        Ok(domain) => ptr::from_ref(&domain.xrcd).cast_mut().cast(),
        Err(error) => failed(error),
    }
}
