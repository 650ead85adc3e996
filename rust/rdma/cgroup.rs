// SPDX-License-Identifier: GPL-2.0

//! The rdma cgroup, which bounds what a group of processes has on a device.
//!
//! C header: [`include/linux/cgroup_rdma.h`](srctree/include/linux/cgroup_rdma.h)

use core::ptr::null_mut;

use kernel::{error::to_result, prelude::*, sync::Arc};

use super::{
    device::{Device, Live},
    gate::GateGuard,
};
use crate::bindings;

/// Something on a device, which the rdma cgroup counts in the group of the process that had it
/// made. As long as this does, the device does not go.
///
/// Dropping it gives it back to that group, whoever does so. Sleeps, but not for long.
///
/// # Invariants
///
/// `cg` was charged for one handle or object, as `handle` says, of the device that `live` keeps.
pub(crate) struct Charge {
    cg: *mut bindings::rdma_cgroup,
    handle: bool,
    live: Live,
}

// SAFETY: A charge may be given back by any thread.
unsafe impl Send for Charge {}
// SAFETY: A shared reference leads to `live` only.
unsafe impl Sync for Charge {}

impl Charge {
    /// Counts a handle of the device, `hca_handle`. Fails as [`object`](Self::object) does.
    pub(crate) fn handle(gate: &GateGuard<'_>, device: &Arc<Device>) -> Result<Self> {
        Self::new(gate, device, true)
    }

    /// Counts an object on the device, `hca_object`.
    ///
    /// `EAGAIN`, as uverbs answers it: the group of the calling process, or one above, has as many
    /// as it may. `EINVAL`: `gate` is not the device's. `ENOMEM`. Sleeps.
    pub(super) fn object(gate: &GateGuard<'_>, device: &Arc<Device>) -> Result<Self> {
        Self::new(gate, device, false)
    }

    fn new(gate: &GateGuard<'_>, device: &Arc<Device>, handle: bool) -> Result<Self> {
        let live = Live::new(gate, device)?;
        let mut cg = null_mut();

        // SAFETY: The device is registered, as `live` says, and so is what the group counts of it.
        to_result(unsafe {
            bindings::ib_xrc_helper_rdmacg_try_charge(device.as_raw(), handle, &mut cg)
        })?;

        // INVARIANT: Just charged. The charge has a reference to the group.
        Ok(Self { cg, handle, live })
    }

    /// What keeps the device.
    pub(super) fn live(&self) -> &Live {
        &self.live
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; `live` goes after this, so that the device is registered.
        unsafe {
            bindings::ib_xrc_helper_rdmacg_uncharge(
                self.live.device().as_raw(),
                self.handle,
                self.cg,
            )
        }
    }
}
