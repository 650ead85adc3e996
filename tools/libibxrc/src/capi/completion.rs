// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completions and SRQs: see `infiniband/xrc.h`.

use std::{
    ffi::{c_int, c_void},
    os::fd::{AsFd, AsRawFd},
};

use super::{close, fail, get, give, known, null, report_to, set_errno, status};
use crate::{
    error::{Error, Result},
    uapi::{ib_uverbs_comp_event_desc, ib_xrc_cqe, IB_XRC_WC_SOLICITED, IB_XRC_WC_WITH_IMM},
    verbs::*,
    CompChannel, Cq, Srq, SrqAttr, SrqOptions,
};

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_comp_channel(
    context: *mut ibxrc_context,
) -> *mut ibxrc_comp_channel {
    give((|| {
        // SAFETY: The caller's word.
        let channel = unsafe { get(context)? }.create_comp_channel()?;
        channel.queue().set_blocking(true)?;
        Ok(channel)
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_destroy_comp_channel(
    channel: *mut ibxrc_comp_channel,
) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(channel, CompChannel::close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_comp_channel_fd(channel: *const ibxrc_comp_channel) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { get(channel) } {
        Ok(channel) => channel.as_fd().as_raw_fd(),
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_get_cq_event(
    channel: *mut ibxrc_comp_channel,
    cq_context: *mut *mut c_void,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (channel, out) = unsafe { (get(channel)?, cq_context.as_mut().ok_or_else(null)?) };
        let mut event = [ib_uverbs_comp_event_desc::default()];
        channel.queue().read_once(&mut event)?;
        *out = event[0].cq_handle as *mut c_void;
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_cq(
    context: *mut ibxrc_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibxrc_comp_channel,
) -> *mut ibxrc_cq {
    give((|| {
        // SAFETY: The caller's word.
        let context = unsafe { get(context)? };
        let channel = match channel.is_null() {
            true => None,
            // SAFETY: The caller's word.
            false => Some(unsafe { get(channel)? }),
        };
        // What is negative is too much for the kernel as well.
        context.create_cq(cqe as u32, channel, cq_context as u64)
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_destroy_cq(cq: *mut ibxrc_cq) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(cq, Cq::close) }
}

pub(super) fn completion(cqe: &ib_xrc_cqe) -> ibxrc_wc {
    let with_imm = cqe.wc_flags & IB_XRC_WC_WITH_IMM != 0;
    let mut wc = ibv_wc {
        wr_id: cqe.wr_id,
        status: cqe.status,
        opcode: cqe.opcode,
        byte_len: cqe.byte_len,
        qp_num: cqe.qp_num,
        src_qp: cqe.src_qp,
        wc_flags: if with_imm { IBV_WC_WITH_IMM } else { 0 },
        ..Default::default()
    };
    wc.__bindgen_anon_1.imm_data = cqe.imm_data;
    ibxrc_wc {
        wc,
        srq_context: cqe.srq_user_handle as *mut c_void,
        srq_num: cqe.srq_num,
        solicited: u32::from(cqe.wc_flags & IB_XRC_WC_SOLICITED != 0),
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_poll_cq(
    cq: *mut ibxrc_cq,
    num_entries: c_int,
    wc: *mut ibxrc_wc,
) -> c_int {
    let result = (|| {
        // SAFETY: The caller's word.
        let cq = unsafe { get(cq)? };
        let max = usize::try_from(num_entries)
            .map_err(|_| Error::invalid("the number of completions to poll is negative"))?;
        if wc.is_null() && max > 0 {
            return Err(null());
        }
        let mut n = 0;
        cq.poll_raw(max, |cqe| {
            // SAFETY: The caller's word: there are `max` elements, of which this is one. They
            // may be uninitialised.
            unsafe { wc.add(n).write(completion(&cqe)) };
            n += 1;
        })
    })();
    match result {
        Ok(n) => n as c_int,
        Err(error) => {
            set_errno(fail(error));
            -1
        }
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_req_notify_cq(
    cq: *mut ibxrc_cq,
    solicited_only: c_int,
) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { get(cq) }.map(|cq| {
        // The caller polls once more.
        let _ = cq.arm(solicited_only != 0);
    }))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_srq(
    xrcd: *mut ibxrc_xrcd,
    cq: *mut ibxrc_cq,
    max_wr: u32,
    max_sge: u32,
    srq_context: *mut c_void,
) -> *mut ibxrc_srq {
    give((|| {
        // SAFETY: The caller's word.
        let (xrcd, cq) = unsafe { (get(xrcd)?, get(cq)?) };
        let attr = SrqAttr {
            max_wr,
            max_sge,
            user_handle: srq_context as u64,
        };
        xrcd.create_srq(cq, attr)
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_create_srq_ex(
    xrcd: *mut ibxrc_xrcd,
    cq: *mut ibxrc_cq,
    attr: *const ibxrc_srq_init_attr,
) -> *mut ibxrc_srq {
    const EVENTS: u32 = IBXRC_SRQ_INIT_ATTR_EVENTS;
    give((|| {
        // SAFETY: The caller's word.
        let attr = unsafe { attr.as_ref() }.ok_or_else(null)?;
        known(attr.comp_mask, EVENTS)?;
        // SAFETY: The caller's word.
        let (xrcd, cq) = unsafe { (get(xrcd)?, get(cq)?) };
        // SAFETY: The caller's word.
        let events =
            unsafe { report_to(attr.comp_mask, EVENTS, attr.event_file, attr.srq_context)? };
        let options = SrqOptions {
            events: events.map(|to| to.file),
        };
        let attr = SrqAttr {
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            user_handle: attr.srq_context as u64,
        };
        xrcd.create_srq_with(cq, attr, options)
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_set_srq_limit(srq: *mut ibxrc_srq, limit: u32) -> c_int {
    // SAFETY: The caller's word.
    status(unsafe { get(srq) }.and_then(|srq| srq.set_limit(limit)))
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_query_srq(
    srq: *mut ibxrc_srq,
    attr: *mut ibv_srq_attr,
) -> c_int {
    status((|| {
        // SAFETY: The caller's word.
        let (srq, attr) = unsafe { (get(srq)?, attr.as_mut().ok_or_else(null)?) };
        let state = srq.query()?;
        *attr = ibv_srq_attr {
            max_wr: state.max_wr,
            max_sge: state.max_sge,
            srq_limit: state.limit,
        };
        Ok(())
    })())
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_destroy_srq(srq: *mut ibxrc_srq) -> c_int {
    // SAFETY: The caller's word.
    unsafe { close(srq, Srq::close) }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_get_srq_num(srq: *const ibxrc_srq) -> u32 {
    // SAFETY: The caller's word.
    unsafe { get(srq) }.map_or(0, Srq::num)
}

/// The scatter entries of a work request; none if there are fewer than none, or NULL.
///
/// # Safety
///
/// `wr` is good.
unsafe fn sges(wr: &ibv_recv_wr) -> Option<&[ibv_sge]> {
    let n = usize::try_from(wr.num_sge).ok()?;
    match n {
        0 => Some(&[]),
        _ if wr.sg_list.is_null() => None,
        // SAFETY: The caller's word.
        _ => Some(unsafe { std::slice::from_raw_parts(wr.sg_list, n) }),
    }
}

/// # Safety
///
/// See `infiniband/xrc.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_post_srq_recv(
    srq: *mut ibxrc_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = wr;
    let result: Result<()> = (|| {
        // SAFETY: The caller's word.
        let srq = unsafe { get(srq)? };
        if wr.is_null() {
            return Err(null());
        }
        // Those before the first that makes no sense are posted.
        let mut at = wr;
        let good = std::iter::from_fn(|| {
            // SAFETY: The caller's word.
            let wr = unsafe { at.as_ref()? };
            // SAFETY: As above.
            let sges = unsafe { sges(wr)? };
            at = wr.next;
            Some((wr.wr_id, sges.iter().map(|sge| (sge.addr, sge.length))))
        });
        let (posted, result) = srq.post_raw(good);
        for _ in 0..posted {
            // SAFETY: That many were there.
            next = unsafe { (*next).next };
        }
        result?;
        if !next.is_null() {
            return Err(Error::invalid(
                "a receive work request without its scatter entries",
            ));
        }
        Ok(())
    })();
    // SAFETY: The caller's word.
    if let (Err(_), Some(bad)) = (&result, unsafe { bad_wr.as_mut() }) {
        *bad = next;
    }
    status(result)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn a_completion_is_as_libibverbs_has_it() {
        let cqe = ib_xrc_cqe {
            wr_id: 1,
            srq_user_handle: 2,
            opcode: IBV_WC_RECV,
            byte_len: 3,
            wc_flags: IB_XRC_WC_WITH_IMM | IB_XRC_WC_SOLICITED,
            imm_data: 4,
            srq_num: 5,
            qp_num: 6,
            src_qp: 7,
            ..Default::default()
        };
        let got = completion(&cqe);
        assert_eq!(got.wc.wr_id, 1);
        assert_eq!(got.wc.status, IBV_WC_SUCCESS);
        assert_eq!(got.wc.wc_flags, IBV_WC_WITH_IMM);
        // SAFETY: It is an integer.
        assert_eq!(unsafe { got.wc.__bindgen_anon_1.imm_data }, 4);
        assert_eq!((got.srq_num, got.solicited), (5, 1));
        assert_eq!(got.srq_context as usize, 2);
        assert_eq!((got.wc.qp_num, got.wc.src_qp), (6, 7));
    }

    #[test]
    fn bad_scatter_lists_are_told_apart() {
        let mut wr = ibv_recv_wr::default();
        // SAFETY: There is no entry.
        assert_eq!(unsafe { sges(&wr) }.map(<[_]>::len), Some(0));
        wr.num_sge = 1;
        // SAFETY: NULL.
        assert!(unsafe { sges(&wr) }.is_none());
        wr.num_sge = -1;
        // SAFETY: There is no entry.
        assert!(unsafe { sges(&wr) }.is_none());
    }

    #[test]
    fn null_is_einval_and_names_the_work_request() {
        let mut wr = ibv_recv_wr::default();
        let mut bad = ptr::null_mut();
        // SAFETY: NULL is allowed.
        let errno = unsafe { ibxrc_post_srq_recv(ptr::null_mut(), &mut wr, &mut bad) };
        assert_eq!(errno, libc::EINVAL);
        assert_eq!(bad, ptr::from_mut(&mut wr));
    }
}
