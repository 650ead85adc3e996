// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC SRQs.

use std::{cell::UnsafeCell, ffi::c_int, ptr, sync::Arc};

use super::{
    acks::Acks,
    cq::{Cq, User},
    domain::Domain,
    failed,
    libibverbs::Libibverbs,
    null, status,
};
use crate::{
    capi::completion::{ibxrc_post_srq_recv, ibxrc_query_srq},
    error::{Errno, Error, Result},
    verbs::*,
    SrqAttr, SrqOptions,
};

/// What ours have as their handles. The kernel gives them out from 0 on, and not so many.
const HANDLE: u32 = u32::MAX;

/// Events of SRQs.
pub(super) static ACKS: Acks = Acks::new();

#[repr(C)]
pub(super) struct Srq {
    /// What the program has.
    shell: UnsafeCell<ibxrc_ofed_srq>,
    srq: crate::Srq,
    domain: Arc<Domain>,
    /// It has the ring, which the SRQ keeps.
    _cq: User,
}

/// What is behind an SRQ of the program; `None`: it is libibverbs'.
///
/// # Safety
///
/// NULL or a good SRQ, which is not destroyed as long as the reference is used.
pub(super) unsafe fn of<'a>(srq: *mut ibxrc_ofed_srq) -> Option<&'a Srq> {
    // SAFETY: The caller's word. All SRQs have handles.
    if srq.is_null() || unsafe { (*srq).handle } != HANDLE {
        return None;
    }
    // SAFETY: It is one of `create`.
    Some(unsafe { &*srq.cast::<Srq>() })
}

impl Srq {
    pub(super) fn num(&self) -> u32 {
        self.srq.num()
    }

    pub(super) fn shell(&self) -> *mut ibxrc_ofed_srq {
        self.shell.get()
    }

    /// As the functions of `xrc.h` want it.
    fn native(&self) -> *mut ibxrc_srq {
        ptr::from_ref(&self.srq).cast_mut().cast()
    }

    /// # Safety
    ///
    /// See `infiniband/xrc_ofed.h`.
    unsafe fn create(
        pd: *mut ibv_pd,
        xrc_domain: *mut ibv_xrc_domain,
        xrc_cq: *mut ibv_cq,
        init: *mut ibv_srq_init_attr,
    ) -> Result<Box<Self>> {
        // SAFETY: The caller's word.
        let (domain, init) = unsafe { (Domain::keep(xrc_domain)?, init.as_mut()) };
        let init = init.ok_or_else(null)?;
        if pd.is_null() || xrc_cq.is_null() {
            return Err(null());
        }
        let wanted = SrqAttr {
            max_wr: init.attr.max_wr,
            max_sge: init.attr.max_sge,
            user_handle: 0,
        };
        let options = SrqOptions {
            events: Some(&domain.device.events),
        };
        let cq = Cq::used(xrc_cq);
        // SAFETY: As above.
        let ring = unsafe { cq.cq().ring(xrc_cq, &domain.device.module)? };
        let srq = domain.xrcd.create_srq_with(ring, wanted, options)?;
        init.attr.max_wr = srq.entries();
        let shell = ibxrc_ofed_srq {
            context: domain.verbs(),
            srq_context: init.srq_context,
            pd,
            handle: HANDLE,
            xrc_srq_num: srq.num(),
            xrc_domain,
            xrc_cq,
            ..Default::default()
        };
        Ok(Box::new(Srq {
            shell: UnsafeCell::new(shell),
            srq,
            domain,
            _cq: cq,
        }))
    }

    /// As ibv_destroy_srq(3): waits until its events are acknowledged.
    fn destroy(&self) -> Result<()> {
        self.domain.device.remove(self);
        ACKS.wait(self.shell());
        self.srq
            .destroy()
            .inspect_err(|_| self.domain.device.add(self))
    }

    fn modify(&self, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        if mask & !IBV_SRQ_LIMIT != 0 {
            return Err(Error::Call {
                what: "modify the SRQ",
                errno: Errno::EOPNOTSUPP,
                advice: "only its limit can be modified, with IBV_SRQ_LIMIT",
            });
        }
        match mask {
            0 => Ok(()),
            _ => self.srq.set_limit(attr.srq_limit),
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_create_xrc_srq(
    pd: *mut ibv_pd,
    xrc_domain: *mut ibv_xrc_domain,
    xrc_cq: *mut ibv_cq,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibxrc_ofed_srq {
    // SAFETY: The caller's word.
    match unsafe { Srq::create(pd, xrc_domain, xrc_cq, srq_init_attr) } {
        Ok(srq) => {
            let srq = Box::into_raw(srq);
            // SAFETY: It is good.
            let srq_ref = unsafe { &*srq };
            srq.expose_provenance();
            srq_ref.domain.device.add(srq_ref);
            srq.cast()
        }
        Err(error) => failed(error),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_create_srq(
    pd: *mut ibv_pd,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibxrc_ofed_srq {
    match Libibverbs::get() {
        // SAFETY: The caller's word.
        Ok(lib) => unsafe { (lib.create_srq)(pd, srq_init_attr) }.cast(),
        Err(error) => failed(error),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_modify_srq(
    srq: *mut ibxrc_ofed_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
) -> c_int {
    // SAFETY: The caller's word.
    if let Some(this) = unsafe { of(srq) } {
        // SAFETY: As above.
        let attr = unsafe { srq_attr.as_ref() }.ok_or_else(null);
        return status(attr.and_then(|attr| this.modify(attr, srq_attr_mask as u32)));
    }
    match Libibverbs::get() {
        // SAFETY: As above.
        Ok(lib) => unsafe { (lib.modify_srq)(srq.cast(), srq_attr, srq_attr_mask) },
        Err(error) => status(Err(error)),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_query_srq(
    srq: *mut ibxrc_ofed_srq,
    srq_attr: *mut ibv_srq_attr,
) -> c_int {
    // SAFETY: The caller's word.
    if let Some(this) = unsafe { of(srq) } {
        // SAFETY: As above.
        return unsafe { ibxrc_query_srq(this.native(), srq_attr) };
    }
    match Libibverbs::get() {
        // SAFETY: As above.
        Ok(lib) => unsafe { (lib.query_srq)(srq.cast(), srq_attr) },
        Err(error) => status(Err(error)),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_destroy_srq(srq: *mut ibxrc_ofed_srq) -> c_int {
    // SAFETY: The caller's word.
    if let Some(this) = unsafe { of(srq) } {
        return status(this.destroy().map(|()| {
            // SAFETY: It is one of `ibv_create_xrc_srq`, and the program has given it back.
            drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
        }));
    }
    match Libibverbs::get() {
        // SAFETY: As above.
        Ok(lib) => unsafe { (lib.destroy_srq)(srq.cast()) },
        Err(error) => status(Err(error)),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_post_srq_recv(
    srq: *mut ibxrc_ofed_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: The caller's word.
    if let Some(this) = unsafe { of(srq) } {
        // SAFETY: As above.
        return unsafe { ibxrc_post_srq_recv(this.native(), wr, bad_wr) };
    }
    // SAFETY: As above.
    match unsafe { (*(*srq).context).ops.post_srq_recv } {
        // SAFETY: As above.
        Some(post) => unsafe { post(srq.cast(), wr, bad_wr) },
        None => libc::EOPNOTSUPP,
    }
}
