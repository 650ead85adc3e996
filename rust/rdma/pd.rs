// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::ptr::NonNull;

use kernel::{error::from_err_ptr, prelude::*, sync::Arc};

use super::{cgroup::Charge, device::Device, gate::GateGuard};
use crate::bindings;

/// A protection domain.
///
/// Dropping the last reference sleeps.
///
/// # Invariants
///
/// `raw` is a PD of the device that `charge` is for, and nothing else frees it.
pub(crate) struct Pd {
    raw: NonNull<bindings::ib_pd>,
    // After `raw`, which `drop` frees.
    charge: Charge,
}

// SAFETY: A PD may be used and freed by any thread.
unsafe impl Send for Pd {}
// SAFETY: What is done with it concurrently is to make objects in it, which the core allows.
unsafe impl Sync for Pd {}

impl Pd {
    /// Creates a PD. Fails as [`Charge::object`] or the driver does. Sleeps.
    pub(crate) fn new(gate: &GateGuard<'_>, device: &Arc<Device>) -> Result<Arc<Self>> {
        let charge = Charge::object(gate, device)?;
        // SAFETY: The device is registered, as `charge` says.
        let raw = from_err_ptr(unsafe { bindings::ib_xrc_helper_ib_alloc_pd(device.as_raw(), 0) })?;
        let Some(raw) = NonNull::new(raw) else {
            return Err(ENOMEM);
        };

        // INVARIANT: It has just been made. If this fails it is dropped with its argument.
        Ok(Arc::new(Self { raw, charge }, GFP_KERNEL_ACCOUNT)?)
    }

    pub(super) fn as_raw(&self) -> *mut bindings::ib_pd {
        self.raw.as_ptr()
    }

    /// The key of all memory of the kernel, for work requests of QPs in this PD.
    pub(super) fn local_dma_lkey(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }

    /// The device. Any context.
    pub(crate) fn device(&self) -> &Arc<Device> {
        self.charge.live().device()
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. Whatever is made in the PD holds a reference to it,
        // so nothing is left in it.
        unsafe { bindings::ib_xrc_helper_ib_dealloc_pd(self.as_raw()) }
    }
}
