// SPDX-License-Identifier: GPL-2.0

//! Memory regions of userspace.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
};

use super::{cgroup::Charge, device::Device, gate::GateGuard, pd::Pd};
use crate::{bindings, linux::own_memory::OwnMemory};

/// What may be done to a region, `enum ib_access_flags`.
#[derive(Clone, Copy)]
pub(crate) struct Access(u32);

impl Access {
    /// What is taken and not only known: nothing here is bound to a window, paged on demand, or
    /// named from zero.
    const TAKEN: u32 = bindings::IB_ACCESS_LOCAL_WRITE
        | bindings::IB_ACCESS_REMOTE_READ
        | bindings::IB_ACCESS_REMOTE_WRITE
        | bindings::IB_ACCESS_REMOTE_ATOMIC
        | bindings::IB_ACCESS_OPTIONAL;

    /// Errnos are those of `ib_check_mr_access()`; besides `EOPNOTSUPP` for what is not taken. Any
    /// context.
    pub(crate) fn new(device: &Device, flags: u32) -> Result<Self> {
        // SAFETY: A device is there as long as its `Device`, and what is read is constant.
        to_result(unsafe { bindings::ib_xrc_helper_ib_check_mr_access(device.as_raw(), flags) })?;
        if flags & !Self::TAKEN != 0 {
            return Err(EOPNOTSUPP);
        }
        Ok(Self(flags))
    }

    /// Whether memory is written to. Any context.
    fn is_writable(self) -> bool {
        // CAST: As the core has it.
        // SAFETY: Looks at the flags only.
        unsafe { bindings::ib_xrc_helper_ib_access_writable(self.0 as c_int) }
    }
}

/// Where a region is.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    addr: u64,
    length: u64,
    iova: u64,
    pinned: u64,
}

impl Region {
    /// `length` bytes at `addr`, which peers know by `iova`. `EINVAL`, as uverbs has it: they
    /// differ in their offset in the page, or the end of the region overflows. Any context.
    pub(crate) fn new(addr: u64, length: u64, iova: u64) -> Result<Self> {
        const PAGE: u64 = PAGE_SIZE as u64;

        if addr % PAGE != iova % PAGE {
            return Err(EINVAL);
        }

        let end = addr
            .checked_add(length)
            .and_then(|end| end.checked_next_multiple_of(PAGE))
            .ok_or(EINVAL)?;

        Ok(Self {
            addr,
            length,
            iova,
            pinned: end.saturating_sub(addr.wrapping_sub(addr % PAGE)),
        })
    }

    /// Bytes of the pages that it touches. Any context.
    pub(crate) fn pinned(&self) -> u64 {
        self.pinned
    }

    /// Has its pages be there, with no gate entered: they may take their time. `EOPNOTSUPP`: see
    /// [`pinnable`](Self::pinnable). `EINTR`: a fatal signal came. Sleeps.
    pub(crate) fn prefault(&self, access: Access) -> Result {
        match OwnMemory::new(self.addr, self.length) {
            Ok(memory) => memory.prefault(access.is_writable()),
            // The driver will say so.
            Err(_) => Ok(()),
        }
    }

    /// Looks whether its pages can be had without waiting for another process. `EOPNOTSUPP`: not
    /// if that is asked for them by userfaultfd(2) or FUSE. `None`: something else goes on in the
    /// address space, which may take its time: to be tried again after
    /// [`prefault`](Self::prefault). Sleeps, but not for long.
    pub(crate) fn pinnable<'a>(
        &self,
        _gate: &'a GateGuard<'_>,
        access: Access,
    ) -> Result<Option<Pinnable<'a>>> {
        let checked = match OwnMemory::new(self.addr, self.length) {
            Ok(memory) => memory.check(),
            // The driver will say so.
            Err(_) => Ok(()),
        };

        match checked {
            Err(error) if error == EBUSY => return Ok(None),
            result => result?,
        }
        Ok(Some(Pinnable {
            region: *self,
            access,
            _inside: PhantomData,
        }))
    }
}

/// A region of which was seen, from inside the gate, that it can be pinned without waiting for
/// another process.
///
/// It remains so unless another thread puts something else in its place meanwhile.
pub(crate) struct Pinnable<'a> {
    region: Region,
    access: Access,
    _inside: PhantomData<&'a ()>,
}

/// Memory of a process which peers of the QPs in a PD may access.
///
/// It is pinned and charged to the process that registered it, by the driver. Dropping it sleeps;
/// after that nobody accesses the memory. The gate need not be open.
///
/// # Invariants
///
/// `raw` is an MR in `pd`, and nothing else deregisters it.
pub(crate) struct Mr {
    raw: NonNull<bindings::ib_mr>,
    rkey: u32,
    pd: Arc<Pd>,
    // After `raw`, which `drop` deregisters.
    charge: Charge,
}

// SAFETY: An MR may be deregistered by any thread.
unsafe impl Send for Mr {}
// SAFETY: There is nothing to be done with a shared reference but to read the key.
unsafe impl Sync for Mr {}

impl Mr {
    /// Registers memory of the calling process. Fails as [`Charge::object`] does, with `EOPNOTSUPP`
    /// if the driver of the PD's device cannot do this for the kernel, or as the driver does. Sleeps,
    /// until all pages are there.
    pub(crate) fn new(gate: &GateGuard<'_>, pd: &Arc<Pd>, memory: Pinnable<'_>) -> Result<Self> {
        let charge = Charge::object(gate, pd.device())?;
        let Pinnable { region, access, .. } = memory;

        if !pd.device().can_reg_user_mr() {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: The PD is there, and its device is registered, as `charge` says. The driver does
        // without a `struct ib_udata`.
        let raw = from_err_ptr(unsafe {
            bindings::ib_reg_user_mr(
                pd.as_raw(),
                region.addr,
                region.length,
                region.iova,
                access.0 as c_int,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: It has just been made; the key is constant.
        let rkey = unsafe { (*raw.as_ptr()).rkey };

        // INVARIANT: It has just been made.
        Ok(Self {
            raw,
            rkey,
            pd: pd.clone(),
            charge,
        })
    }

    /// The key by which peers name it. Any context.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. `charge` keeps the device, `pd` the PD.
        let ret = unsafe { bindings::ib_dereg_mr_user(self.raw.as_ptr(), null_mut()) };

        if let Err(e) = to_result(ret) {
            // Drivers should not refuse this: no window is bound to it. The device may still access
            // the memory, which stays pinned, and PD and device are kept.
            pr_err!("cannot deregister MR {:#x}: {:?}\n", self.rkey, e);
            core::mem::forget((self.pd.clone(), self.charge.live().again()));
        }
    }
}
