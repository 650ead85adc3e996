// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Receiving QPs, which are known by their numbers.

use std::{collections::btree_map::Entry, ffi::c_int};

use super::{domain::Domain, lock, null, status};
use crate::{
    capi::attr::{from_kernel, to_kernel},
    error::{CloseError, Errno, Error, Result},
    tgt_qp::Target,
    uapi::ib_uverbs_qp_attr,
    verbs::*,
    TgtQpOptions,
};

impl Domain {
    fn target(&self, qp_num: u32) -> Target<'_> {
        Target::Number {
            xrcd: &self.xrcd.inner,
            qp_num,
        }
    }

    fn options(&self) -> TgtQpOptions<'_> {
        TgtQpOptions {
            events: Some(self.device.report_to()),
        }
    }

    fn create_rcv_qp(&self) -> Result<u32> {
        let qp = self.xrcd.create_tgt_qp_with(self.options())?;
        let number = qp.qp_num();
        lock(&self.registered).insert(number, qp);
        Ok(number)
    }

    /// A process is registered or not: it does not count how often.
    fn register(&self, qp_num: u32) -> Result<()> {
        if let Entry::Vacant(entry) = lock(&self.registered).entry(qp_num) {
            entry.insert(self.xrcd.open_tgt_qp_with(qp_num, self.options())?);
        }
        Ok(())
    }

    fn unregister(&self, qp_num: u32) -> Result<()> {
        let mut registered = lock(&self.registered);
        let qp = registered.remove(&qp_num).ok_or(Error::Call {
            what: "unregister from the receiving QP",
            errno: Errno::EINVAL,
            advice: "this process is not registered with a QP of this number by this handle \
                     of the domain",
        })?;
        qp.close().map_err(|CloseError { object, error }| {
            registered.insert(qp_num, object);
            error
        })
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_create_xrc_rcv_qp(
    init_attr: *mut ibxrc_ofed_qp_init_attr,
    xrc_rcv_qpn: *mut u32,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (given, number) = unsafe {
            (
                init_attr.as_ref().ok_or_else(null)?,
                xrc_rcv_qpn.as_mut().ok_or_else(null)?,
            )
        };
        // SAFETY: As above.
        *number = unsafe { Domain::of(given.xrc_domain)? }.create_rcv_qp()?;
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_modify_xrc_rcv_qp(
    xrc_domain: *mut ibv_xrc_domain,
    xrc_qp_num: u32,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (domain, attr) = unsafe { (Domain::of(xrc_domain)?, attr.as_ref()) };
        let attr = to_kernel(attr.ok_or_else(null)?, attr_mask)?;
        domain.target(xrc_qp_num).modify(&attr)
    })())
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_query_xrc_rcv_qp(
    xrc_domain: *mut ibv_xrc_domain,
    xrc_qp_num: u32,
    attr: *mut ibv_qp_attr,
    _attr_mask: c_int,
    init_attr: *mut ibxrc_ofed_qp_init_attr,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (domain, attr, init) =
            unsafe { (Domain::of(xrc_domain)?, attr.as_mut(), init_attr.as_mut()) };
        let (attr, init) = (attr.ok_or_else(null)?, init.ok_or_else(null)?);
        let mut raw = ib_uverbs_qp_attr::default();
        domain.target(xrc_qp_num).query(Some(&mut raw), None)?;
        // As with ibv_query_qp(3), there may be more than was asked for.
        *attr = from_kernel(&raw);
        *init = ibxrc_ofed_qp_init_attr {
            qp_type: IBV_QPT_XRC_SEND,
            xrc_domain,
            ..Default::default()
        };
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_reg_xrc_rcv_qp(
    xrc_domain: *mut ibv_xrc_domain,
    xrc_qp_num: u32,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { Domain::of(xrc_domain) }.and_then(|domain| domain.register(xrc_qp_num)))
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibv_unreg_xrc_rcv_qp(
    xrc_domain: *mut ibv_xrc_domain,
    xrc_qp_num: u32,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { Domain::of(xrc_domain) }.and_then(|domain| domain.unregister(xrc_qp_num)))
}
