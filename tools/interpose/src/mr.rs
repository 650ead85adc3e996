// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory that senders reach through a TGT QP.
//!
//! A TGT QP belongs to the kernel module, which knows nothing of the program's protection
//! domains. So memory of a protection domain that has XRC SRQs, and that peers may access, is
//! registered with the kernel module too, and the program is given the key of that
//! registration. It may be registered before there is an SRQ; then the key changes when the
//! first is made.

use std::{
    collections::{hash_map::Entry, HashMap},
    ffi::{c_int, c_uint, c_void},
    ptr::{self, NonNull},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ibxrc::{verbs::*, Mr, MrAccess, MrAttr};

use crate::{
    context,
    real::{self, real},
    report,
    xrcd::{self, Xrcd},
};

const REMOTE: u32 = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// Which protection domain it is: a parent domain, or one that was imported, is the same as
/// that which it was made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pd(u32);

impl Pd {
    /// # Safety
    ///
    /// A good protection domain.
    unsafe fn of(pd: *const ibv_pd) -> Self {
        // SAFETY: The caller's word.
        Pd(unsafe { (*pd).handle })
    }
}

/// A protection domain that has XRC SRQs.
struct Joined {
    /// By what the program named it.
    pd: *const ibv_pd,
    /// Of these domains. Memory is that of the first.
    xrcds: Vec<NonNull<Xrcd>>,
}

/// Memory that peers may access.
struct Region {
    pd: Pd,
    /// `None`: it is no memory of the process.
    attr: Option<MrAttr>,
    /// The key for peers that are not XRC.
    rkey: u32,
    /// With the kernel module, if its protection domain has XRC SRQs.
    module: Option<Mr>,
}

#[derive(Default)]
struct Inner {
    /// By the address of the `ibv_mr`.
    regions: HashMap<usize, Region>,
    joined: HashMap<Pd, Joined>,
    /// How many XRC SRQs a protection domain has, if it has some.
    srqs: HashMap<Pd, usize>,
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
    /// Both are good.
    pub(crate) unsafe fn join(&self, pd: *mut ibv_pd, xrcd: *mut ibv_xrcd) {
        // SAFETY: The caller's word.
        let (id, Some(xrcd)) = (unsafe { Pd::of(pd) }, unsafe { xrcd::of(xrcd) }) else {
            return;
        };
        let mut inner = self.lock();
        let Inner {
            regions, joined, ..
        } = &mut *inner;
        let xrcds = match joined.entry(id) {
            Entry::Occupied(known) => &mut known.into_mut().xrcds,
            Entry::Vacant(new) => {
                let xrcds = Vec::new();
                &mut new.insert(Joined { pd, xrcds }).xrcds
            }
        };
        if !xrcds.contains(&NonNull::from(xrcd)) {
            xrcds.push(NonNull::from(xrcd));
        }
        if xrcds[0] != NonNull::from(xrcd) {
            return report::note(
                "memory is in reach of XRC by that domain alone that its PD had an SRQ of first",
            );
        }
        if xrcds.len() > 1 {
            return;
        }
        for (mr, region) in regions.iter_mut().filter(|(_, r)| r.pd == id) {
            region.register(xrcd);
            // SAFETY: It is removed when it is deregistered.
            unsafe { region.show(*mr as *mut ibv_mr) };
        }
    }

    /// A protection domain has one XRC SRQ more, which keeps it from being deallocated.
    ///
    /// # Safety
    ///
    /// It is good.
    pub(crate) unsafe fn keep(&'static self, pd: *mut ibv_pd) -> PdUser {
        // SAFETY: The caller's word.
        let pd = unsafe { Pd::of(pd) };
        *self.lock().srqs.entry(pd).or_default() += 1;
        PdUser { regions: self, pd }
    }

    /// # Safety
    ///
    /// A good protection domain.
    unsafe fn is_kept(&self, pd: *mut ibv_pd) -> bool {
        // SAFETY: The caller's word.
        let pd = unsafe { Pd::of(pd) };
        self.lock().srqs.contains_key(&pd)
    }

    /// The domain is going to be closed.
    pub(crate) fn leave(&self, xrcd: &Xrcd) {
        let xrcd = NonNull::from(xrcd);
        self.part(|joined| joined.xrcds.retain(|other| *other != xrcd));
    }

    /// Takes domains from protection domains, and makes their memory that of another one, or
    /// of the device alone.
    fn part(&self, take: impl Fn(&mut Joined)) {
        let mut inner = self.lock();
        let Inner {
            regions, joined, ..
        } = &mut *inner;
        joined.retain(|pd, joint| {
            let before = joint.xrcds.first().copied();
            take(joint);
            let now = joint.xrcds.first().copied();
            if now == before {
                return true;
            }
            for (mr, region) in regions.iter_mut().filter(|(_, r)| r.pd == *pd) {
                region.module = None;
                if let Some(xrcd) = now {
                    // SAFETY: It leaves before it is closed.
                    region.register(unsafe { xrcd.as_ref() });
                }
                // SAFETY: As in `join`.
                unsafe { region.show(*mr as *mut ibv_mr) };
            }
            now.is_some()
        });
    }

    /// # Safety
    ///
    /// New memory of its protection domain.
    unsafe fn add(&self, mr: NonNull<ibv_mr>, attr: Option<MrAttr>) {
        let mut inner = self.lock();
        let mut region = Region {
            // SAFETY: The caller's word.
            pd: unsafe { Pd::of(mr.as_ref().pd) },
            attr,
            // SAFETY: As above.
            rkey: unsafe { mr.as_ref() }.rkey,
            module: None,
        };
        let joined = inner.joined.get(&region.pd);
        if let Some(xrcd) = joined.and_then(|joined| joined.xrcds.first()) {
            // SAFETY: It leaves before it is closed.
            region.register(unsafe { xrcd.as_ref() });
            // SAFETY: The caller's word.
            unsafe { region.show(mr.as_ptr()) };
        }
        inner.regions.insert(mr.as_ptr() as usize, region);
    }

    /// # Safety
    ///
    /// What was removed of it.
    unsafe fn put_back(&self, mr: *mut ibv_mr, region: Region) {
        let mut inner = self.lock();
        // SAFETY: The caller's word.
        unsafe { region.show(mr) };
        inner.regions.insert(mr as usize, region);
    }

    fn remove(&self, mr: *mut ibv_mr) -> Option<Region> {
        self.lock().regions.remove(&(mr as usize))
    }
}

/// An XRC SRQ of a protection domain.
pub(crate) struct PdUser {
    regions: &'static Regions,
    pd: Pd,
}

impl Drop for PdUser {
    fn drop(&mut self) {
        if let Entry::Occupied(mut srqs) = self.regions.lock().srqs.entry(self.pd) {
            *srqs.get_mut() -= 1;
            if *srqs.get() == 0 {
                srqs.remove();
            }
        }
    }
}

impl Region {
    fn register(&mut self, xrcd: &Xrcd) {
        let Some(attr) = self.attr else {
            return report::complain("memory of a dma-buf is out of reach for XRC");
        };
        // SAFETY: What it is used for is up to the program.
        match unsafe { xrcd.domain.reg_mr(attr) } {
            Ok(mr) => self.module = Some(mr),
            Err(error) => {
                report::complain(format_args!("memory is out of reach for XRC: {error}"));
            }
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
    unsafe { remember(mr, Some(attr(addr, length, None, access as u32)), access) };
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
    let attr = attr(addr, length, Some(iova), access);
    // SAFETY: As above.
    unsafe { remember(mr, Some(attr), access as c_int) };
    mr
}

/// # Safety
///
/// See ibv_reg_dmabuf_mr(3).
pub(crate) unsafe fn reg_dmabuf(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let Some(reg) = real::reg_dmabuf_mr() else {
        return report::null(libc::EOPNOTSUPP);
    };
    // SAFETY: The caller's word.
    let mr = unsafe { reg(pd, offset, length, iova, fd, access) };
    // SAFETY: As above.
    unsafe { remember(mr, None, access) };
    mr
}

fn attr(addr: *mut c_void, length: usize, iova: Option<u64>, access: u32) -> MrAttr {
    MrAttr {
        addr: addr.cast(),
        length,
        iova: iova.filter(|iova| *iova != addr as u64),
        access: MrAccess {
            remote_read: access & IBV_ACCESS_REMOTE_READ != 0,
            remote_write: access & IBV_ACCESS_REMOTE_WRITE != 0,
            remote_atomic: access & IBV_ACCESS_REMOTE_ATOMIC != 0,
        },
    }
}

/// # Safety
///
/// NULL or new memory.
unsafe fn remember(mr: *mut ibv_mr, attr: Option<MrAttr>, access: c_int) {
    let (Some(mr), true) = (NonNull::new(mr), access as u32 & REMOTE != 0) else {
        return;
    };
    // SAFETY: The caller's word.
    if let Some(context) = unsafe { context::of(mr.as_ref().context) } {
        // SAFETY: As above.
        unsafe { context.regions.add(mr, attr) };
    }
}

/// # Safety
///
/// See ibv_rereg_mr(3).
pub(crate) unsafe fn rereg(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: The caller's word.
    let context = unsafe { context::of((*mr).context) };
    let region = context.and_then(|context| context.regions.remove(mr));
    if let Some(region) = &region {
        // SAFETY: As above. The provider may look at it.
        unsafe { (*mr).rkey = region.rkey };
    }
    // SAFETY: As above.
    let result = unsafe { (real().rereg_mr)(mr, flags, pd, addr, length, access) };
    let Some(context) = context else {
        return result;
    };
    if !matches!(result, 0 | IBV_REREG_MR_ERR_DO_FORK_OLD) {
        // It is as it was, or good for nothing but to be deregistered.
        if let Some(region) = region {
            // SAFETY: As above.
            unsafe { context.regions.put_back(mr, region) };
        }
        return result;
    }
    let new = match region.map(|region| region.attr) {
        // That of a dma-buf cannot be changed.
        Some(None) => Some(None),
        before => {
            // SAFETY: As above.
            let (addr, length) = unsafe { ((*mr).addr, (*mr).length) };
            let now = attr(addr, length, None, access as u32);
            changed(before.flatten(), flags as u32, now).map(Some)
        }
    };
    if let Some(attr) = new {
        // SAFETY: As above; it was removed.
        unsafe { context.regions.add(NonNull::new_unchecked(mr), attr) };
    }
    result
}

/// What peers may access after a change, if anything: `now`, except for what did not change.
fn changed(before: Option<MrAttr>, flags: u32, now: MrAttr) -> Option<MrAttr> {
    let access = match flags & IBV_REREG_MR_CHANGE_ACCESS {
        0 => before?.access,
        _ => now.access,
    };
    let iova = match flags & IBV_REREG_MR_CHANGE_TRANSLATION {
        0 => before.and_then(|before| before.iova),
        _ => None,
    };
    let new = MrAttr {
        iova,
        access,
        ..now
    };
    (access != MrAccess::default()).then_some(new)
}

/// # Safety
///
/// See ibv_dereg_mr(3).
pub(crate) unsafe fn dereg(mr: *mut ibv_mr) -> c_int {
    // SAFETY: The caller's word.
    let context = unsafe { context::of((*mr).context) };
    let region = context.and_then(|context| context.regions.remove(mr));
    if let Some(region) = &region {
        // SAFETY: As above. The provider may look at it.
        unsafe { (*mr).rkey = region.rkey };
    }
    // SAFETY: As above.
    let errno = unsafe { (real().dereg_mr)(mr) };
    if let (Some(context), Some(region), true) = (context, region, errno != 0) {
        // SAFETY: It is still there.
        unsafe { context.regions.put_back(mr, region) };
    }
    errno
}

/// # Safety
///
/// See ibv_dealloc_pd(3).
pub(crate) unsafe fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: The caller's word.
    let context = unsafe { context::of((*pd).context) };
    // SAFETY: As above.
    if context.is_some_and(|context| unsafe { context.regions.is_kept(pd) }) {
        return libc::EBUSY;
    }
    // SAFETY: As above.
    let errno = unsafe { (real().dealloc_pd)(pd) };
    if let (Some(context), 0) = (context, errno) {
        // Another one may get its number.
        context.regions.part(|joined| {
            if ptr::eq(joined.pd, pd) {
                joined.xrcds.clear();
            }
        });
    }
    errno
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = IBV_ACCESS_REMOTE_READ;
    const WRITE: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;

    fn memory(addr: usize, iova: Option<u64>, access: u32) -> MrAttr {
        attr(addr as *mut c_void, 4096, iova, access)
    }

    #[test]
    fn an_address_for_senders_is_one_of_its_own() {
        assert_eq!(memory(0x1000, Some(0x1000), READ).iova, None);
        assert_eq!(memory(0x1000, Some(0), READ).iova, Some(0));
    }

    #[test]
    fn what_does_not_change_stays() {
        let before = memory(0x1000, Some(0), READ);
        // Nothing, or the protection domain.
        let now = memory(0x1000, None, 0);
        assert_eq!(changed(Some(before), 0, now), Some(before));
        // Memory alone.
        let now = memory(0x9000, None, 0);
        let new = changed(Some(before), IBV_REREG_MR_CHANGE_TRANSLATION, now);
        assert_eq!(new, Some(memory(0x9000, None, READ)));
        // Access alone.
        let now = memory(0x1000, None, WRITE);
        let new = changed(Some(before), IBV_REREG_MR_CHANGE_ACCESS, now);
        assert_eq!(new, Some(memory(0x1000, Some(0), WRITE)));
    }

    #[test]
    fn peers_gain_and_lose_access() {
        let local = memory(0x1000, None, IBV_ACCESS_LOCAL_WRITE);
        let remote = memory(0x1000, None, WRITE);
        let flags = IBV_REREG_MR_CHANGE_ACCESS;
        assert_eq!(changed(None, flags, remote), Some(remote));
        assert_eq!(changed(None, 0, local), None);
        assert_eq!(changed(Some(remote), flags, local), None);
    }
}
