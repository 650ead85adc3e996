// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory that senders reach through a TGT QP.
//!
//! A TGT QP belongs to the kernel module, which knows nothing of the program's protection
//! domains. So memory of a protection domain that has XRC SRQs, and that peers may access, is
//! registered with the kernel module too, and the program is given the key of that
//! registration. It may be registered before there is an SRQ; then the key changes when the
//! first is made.

use std::{
    collections::HashMap,
    ffi::{c_int, c_uint, c_void},
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ibxrc::{verbs::*, Mr, MrAccess, MrAttr};

use crate::{
    context,
    real::real,
    report,
    xrcd::{self, Xrcd},
};

const REMOTE: u32 = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// Memory that peers may access.
struct Region {
    pd: usize,
    attr: MrAttr,
    /// The key for peers that are not XRC.
    rkey: u32,
    /// With the kernel module, if its protection domain has XRC SRQs.
    module: Option<Mr>,
}

#[derive(Default)]
struct Inner {
    /// By the address of the `ibv_mr`.
    regions: HashMap<usize, Region>,
    /// The domain of protection domains that have XRC SRQs.
    domains: HashMap<usize, NonNull<Xrcd>>,
}

// SAFETY: The pointers are used as long as what they point to is there, and `Xrcd` is for all
// threads.
unsafe impl Send for Inner {}

/// The memory of a context.
#[derive(Default)]
pub(crate) struct Regions(Mutex<Inner>);

impl Regions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A protection domain has an XRC SRQ of this domain.
    ///
    /// # Safety
    ///
    /// An open domain. The program does not deregister memory at the same time.
    pub(crate) unsafe fn join(&self, pd: *mut ibv_pd, xrcd: *mut ibv_xrcd) {
        // SAFETY: The caller's word.
        let Some(xrcd) = (unsafe { xrcd::of(xrcd) }) else {
            return;
        };
        let mut inner = self.lock();
        let Inner { regions, domains } = &mut *inner;
        if domains.contains_key(&(pd as usize)) {
            return;
        }
        domains.insert(pd as usize, NonNull::from(xrcd));
        for (mr, region) in regions.iter_mut().filter(|(_, r)| r.pd == pd as usize) {
            region.register(xrcd);
            // SAFETY: It is removed when it is deregistered.
            unsafe { region.show(*mr as *mut ibv_mr) };
        }
    }

    /// The domain is going to be closed.
    pub(crate) fn leave(&self, xrcd: &Xrcd) {
        let mut inner = self.lock();
        let Inner { regions, domains } = &mut *inner;
        let xrcd = NonNull::from(xrcd);
        domains.retain(|pd, domain| {
            if *domain != xrcd {
                return true;
            }
            for (mr, region) in regions.iter_mut().filter(|(_, r)| r.pd == *pd) {
                region.module = None;
                // SAFETY: As in `join`.
                unsafe { region.show(*mr as *mut ibv_mr) };
            }
            false
        });
    }

    /// # Safety
    ///
    /// New memory of the protection domain.
    unsafe fn add(&self, mr: NonNull<ibv_mr>, pd: *mut ibv_pd, attr: MrAttr) {
        let mut inner = self.lock();
        let mut region = Region {
            pd: pd as usize,
            attr,
            // SAFETY: The caller's word.
            rkey: unsafe { mr.as_ref() }.rkey,
            module: None,
        };
        if let Some(xrcd) = inner.domains.get(&region.pd) {
            // SAFETY: It leaves before it is closed.
            region.register(unsafe { xrcd.as_ref() });
            // SAFETY: The caller's word.
            unsafe { region.show(mr.as_ptr()) };
        }
        inner.regions.insert(mr.as_ptr() as usize, region);
    }

    fn remove(&self, mr: *mut ibv_mr) -> Option<Region> {
        self.lock().regions.remove(&(mr as usize))
    }
}

impl Region {
    fn register(&mut self, xrcd: &Xrcd) {
        // SAFETY: What it is used for is up to the program.
        match unsafe { xrcd.domain.reg_mr(self.attr) } {
            Ok(mr) => self.module = Some(mr),
            Err(error) => report::complain(format_args!(
                "memory at {:p} is out of reach for XRC: {error}",
                self.attr.addr
            )),
        }
    }

    /// Gives the program the key for its peers.
    ///
    /// # Safety
    ///
    /// The memory's.
    unsafe fn show(&self, mr: *mut ibv_mr) {
        let rkey = self.module.as_ref().map_or(self.rkey, Mr::rkey);
        // SAFETY: The caller's word.
        unsafe { (*mr).rkey = rkey };
    }
}

/// # Safety
///
/// See ibv_reg_mr(3).
pub(crate) unsafe fn reg(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: The caller's word.
    let mr = unsafe { (real().reg_mr)(pd, addr, length, access) };
    // SAFETY: As above.
    unsafe { remember(mr, pd, addr, length, None, access as u32) };
    mr
}

/// # Safety
///
/// See ibv_reg_mr_iova(3).
pub(crate) unsafe fn reg_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: The caller's word.
    unsafe { reg_iova2(pd, addr, length, iova, access as c_uint) }
}

/// # Safety
///
/// See ibv_reg_mr_iova(3).
pub(crate) unsafe fn reg_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: The caller's word.
    let mr = unsafe { (real().reg_mr_iova2)(pd, addr, length, iova, access) };
    // SAFETY: As above.
    unsafe { remember(mr, pd, addr, length, Some(iova), access) };
    mr
}

/// # Safety
///
/// NULL or new memory.
unsafe fn remember(
    mr: *mut ibv_mr,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: Option<u64>,
    access: u32,
) {
    let (Some(mr), true) = (NonNull::new(mr), access & REMOTE != 0) else {
        return;
    };
    let attr = MrAttr {
        addr: addr.cast(),
        length,
        iova: iova.filter(|iova| *iova != addr as u64),
        access: MrAccess {
            remote_read: access & IBV_ACCESS_REMOTE_READ != 0,
            remote_write: access & IBV_ACCESS_REMOTE_WRITE != 0,
            remote_atomic: access & IBV_ACCESS_REMOTE_ATOMIC != 0,
        },
    };
    // SAFETY: The caller's word.
    if let Some(context) = unsafe { context::of((*pd).context) } {
        // SAFETY: As above.
        unsafe { context.regions.add(mr, pd, attr) };
    }
}

/// # Safety
///
/// See ibv_dereg_mr(3).
pub(crate) unsafe fn dereg(mr: *mut ibv_mr) -> c_int {
    // SAFETY: The caller's word.
    let (context, pd) = unsafe { (context::of((*mr).context), (*mr).pd) };
    let region = context.and_then(|context| context.regions.remove(mr));
    if let Some(region) = &region {
        // SAFETY: As above. The provider may look at it.
        unsafe { (*mr).rkey = region.rkey };
    }
    // SAFETY: As above.
    let errno = unsafe { (real().dereg_mr)(mr) };
    if let (Some(context), Some(region), true) = (context, region, errno != 0) {
        // SAFETY: It is still there.
        unsafe {
            context
                .regions
                .add(NonNull::new_unchecked(mr), pd, region.attr)
        };
    }
    errno
}
