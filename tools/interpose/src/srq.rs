// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC SRQs: ibv_create_srq_ex(3) with `IBV_SRQT_XRC`.

use std::{cell::UnsafeCell, ffi::c_int, mem, ptr, slice};

use ibxrc::{verbs::*, Sge, SrqAttr, SrqOptions};

use crate::{
    context::{self, Context},
    cq::User,
    element::{self, Element},
    events::Subject,
    mr::PdUser,
    real::real,
    report,
    table::Table,
    xrcd::Member,
};

static SRQS: Table<Srq> = Table::new();

/// An SRQ that only we know.
#[repr(C)]
pub(crate) struct Srq {
    /// What the program has, and libibverbs when it acknowledges events.
    shell: UnsafeCell<ibv_srq>,
    srq: ibxrc::Srq,
    max_sge: u32,
    subject: Option<Subject>,
    // Dropped after the SRQ.
    _cq: User,
    _domain: Member,
    _pd: PdUser,
}

// SAFETY: What it consists of is; the shell is the program's.
unsafe impl Send for Srq {}
// SAFETY: As above.
unsafe impl Sync for Srq {}

/// What is behind an SRQ; `None`: it is one of libibverbs.
///
/// # Safety
///
/// NULL or a good SRQ, which is not destroyed as long as the reference is used.
pub(crate) unsafe fn of<'a>(srq: *const ibv_srq) -> Option<&'a Srq> {
    // SAFETY: It is removed when it is destroyed.
    unsafe { SRQS.get(srq) }
}

/// # Safety
///
/// See ibv_create_srq_ex(3).
pub(crate) unsafe extern "C" fn create_ex(
    verbs: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: The caller's word.
    let (context, given) = unsafe { (context::of(verbs), attr.as_mut()) };
    let (Some(context), Some(given)) = (context, given) else {
        return report::null(libc::EINVAL);
    };
    if given.comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || given.srq_type != IBV_SRQT_XRC {
        return match context.originals.create_srq_ex {
            // SAFETY: As above.
            Some(create) => unsafe { create(verbs, attr) },
            None => report::null(libc::EOPNOTSUPP),
        };
    }
    // Its events may come before it is there.
    let mut place = Box::<Srq>::new_uninit();
    let pointer: *mut ibv_srq = place.as_mut_ptr().cast();
    // SAFETY: As above.
    match unsafe { create(context, given, Element::Srq(pointer)) } {
        Ok(srq) => {
            context.hook_data_path();
            place.write(srq);
            // SAFETY: Just written.
            let srq = unsafe { place.assume_init() };
            SRQS.insert(pointer, srq);
            pointer
        }
        Err(errno) => report::null(errno),
    }
}

/// # Safety
///
/// See ibv_create_srq_ex(3).
unsafe fn create(
    context: &'static Context,
    attr: &mut ibv_srq_init_attr_ex,
    element: Element,
) -> Result<Srq, c_int> {
    const NEEDED: u32 = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    if attr.comp_mask & NEEDED != NEEDED {
        return Err(libc::EINVAL);
    }
    // SAFETY: The caller's word.
    let cq = unsafe { User::new(context, attr.cq) }.ok_or(libc::EINVAL)?;
    // SAFETY: As above.
    let domain = unsafe { Member::new(context.verbs(), attr.xrcd) }.ok_or(libc::EINVAL)?;
    // SAFETY: As above.
    if unsafe { context::of_pd(context, attr.pd) }.is_none() {
        return Err(libc::EINVAL);
    }
    let subject = Subject::new(context, element, Some(Element::Cq(attr.cq)));
    let wanted = SrqAttr {
        max_wr: attr.attr.max_wr,
        // Devices make SRQs for messages of nothing; more than was asked for is allowed.
        max_sge: attr.attr.max_sge.max(1),
        user_handle: subject.as_ref().map_or(0, Subject::number),
    };
    let srq = cq
        .cq()
        .ring()
        .and_then(|ring| {
            let to = subject.as_ref().map(|subject| subject.report_to(context));
            let events = to.transpose()?.map(|to| to.file);
            let domain = &domain.xrcd().domain;
            domain.create_srq_with(ring, wanted, SrqOptions { events })
        })
        .map_err(|error| report::failed("ibv_create_srq_ex", &error))?;
    // SAFETY: As above.
    let pd = unsafe {
        context.regions.join(attr.pd, attr.xrcd);
        context.regions.keep(attr.pd)
    };
    attr.attr.max_wr = srq.entries();
    attr.attr.max_sge = wanted.max_sge;
    let shell = ibv_srq {
        context: context.verbs(),
        srq_context: attr.srq_context,
        pd: attr.pd,
        ..Default::default()
    };
    Ok(Srq {
        shell: UnsafeCell::new(shell),
        max_sge: attr.attr.max_sge,
        srq,
        subject,
        _cq: cq,
        _domain: domain,
        _pd: pd,
    })
}

/// # Safety
///
/// See ibv_get_srq_num(3).
pub(crate) unsafe extern "C" fn get_num(srq: *mut ibv_srq, num: *mut u32) -> c_int {
    // SAFETY: The caller's word.
    if let Some(this) = unsafe { of(srq) } {
        // SAFETY: As above.
        unsafe { num.write(this.srq.num()) };
        return 0;
    }
    // SAFETY: As above.
    let context = unsafe { context::of((*srq).context) };
    match context.and_then(|context| context.originals.get_srq_num) {
        // SAFETY: As above.
        Some(get_num) => unsafe { get_num(srq, num) },
        None => libc::EOPNOTSUPP,
    }
}

/// # Safety
///
/// See ibv_modify_srq(3).
pub(crate) unsafe fn modify(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(srq) }) else {
        // SAFETY: As above.
        return unsafe { (real().modify_srq)(srq, attr, mask) };
    };
    let mask = mask as u32;
    if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
        return libc::EINVAL;
    }
    // SAFETY: As above.
    let attr = unsafe { &*attr };
    // Before anything is changed.
    if mask & IBV_SRQ_MAX_WR != 0 {
        let errno = this.may_have(attr, mask);
        if errno != 0 {
            return errno;
        }
    }
    match mask & IBV_SRQ_LIMIT {
        0 => 0,
        _ => match this.srq.set_limit(attr.srq_limit) {
            Ok(()) => 0,
            Err(error) => error.errno().raw(),
        },
    }
}

/// # Safety
///
/// See ibv_query_srq(3).
pub(crate) unsafe fn query(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(srq) }) else {
        // SAFETY: As above.
        return unsafe { (real().query_srq)(srq, attr) };
    };
    match this.srq.query() {
        Ok(state) => {
            // SAFETY: As above.
            unsafe {
                attr.write(ibv_srq_attr {
                    max_wr: state.max_wr,
                    max_sge: state.max_sge,
                    srq_limit: state.limit,
                });
            }
            0
        }
        Err(error) => error.errno().raw(),
    }
}

/// # Safety
///
/// See ibv_destroy_srq(3).
pub(crate) unsafe fn destroy(srq: *mut ibv_srq) -> c_int {
    // SAFETY: The caller's word.
    if unsafe { of(srq) }.is_none() {
        // SAFETY: As above.
        return unsafe { (real().destroy_srq)(srq) };
    }
    if let Some(mut this) = SRQS.remove(srq) {
        drop(this.subject.take());
        element::wait_acknowledged(Element::Srq(srq));
    }
    0
}

/// The context is being closed: destroys its SRQs.
pub(crate) fn abandon(context: *mut ibv_context) {
    SRQS.remove_all(|srq| srq.is_of(context));
}

/// The context is being closed in a child: its SRQs are those of another process.
pub(crate) fn disown(context: *mut ibv_context) {
    mem::forget(SRQS.remove_all(|srq| srq.is_of(context)));
}

/// # Safety
///
/// See ibv_post_srq_recv(3).
pub(crate) unsafe extern "C" fn post_recv(
    srq: *mut ibv_srq,
    mut wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(srq) }) else {
        // SAFETY: As above.
        let context = unsafe { context::of((*srq).context) };
        return match context.and_then(|context| context.originals.post_srq_recv) {
            // SAFETY: As above.
            Some(post) => unsafe { post(srq, wr, bad) },
            None => libc::EOPNOTSUPP,
        };
    };
    // SAFETY: As above.
    while let Some(request) = unsafe { wr.as_ref() } {
        // SAFETY: As above.
        let errno = unsafe { this.post(request) };
        if errno != 0 {
            // SAFETY: As above.
            if let Some(bad) = unsafe { bad.as_mut() } {
                *bad = wr;
            }
            return errno;
        }
        wr = request.next;
    }
    0
}

impl Srq {
    fn is_of(&self, context: *mut ibv_context) -> bool {
        // SAFETY: The program has the shell, and the context is the same all the time.
        unsafe { (*self.shell.get()).context == context }
    }

    /// Whether it may have the size that it is to be modified to: its ring stays as it is,
    /// which is enough for fewer work requests as well. An errno value.
    fn may_have(&self, attr: &ibv_srq_attr, mask: u32) -> c_int {
        if attr.max_wr > self.srq.entries() {
            report::complain("ibv_modify_srq: an XRC SRQ stays as large as it was made");
            return libc::EINVAL;
        }
        let limit = match mask & IBV_SRQ_LIMIT {
            0 => match self.srq.query() {
                Ok(state) => state.limit,
                Err(error) => return error.errno().raw(),
            },
            _ => attr.srq_limit,
        };
        match attr.max_wr {
            0 => libc::EINVAL,
            max_wr if limit > max_wr => libc::EINVAL,
            _ => 0,
        }
    }

    /// An errno value.
    ///
    /// # Safety
    ///
    /// See ibv_post_srq_recv(3).
    unsafe fn post(&self, wr: &ibv_recv_wr) -> c_int {
        let n = match usize::try_from(wr.num_sge) {
            Ok(n) if n <= self.max_sge as usize => n,
            _ => return libc::EINVAL,
        };
        let list = match n {
            0 => &[],
            // SAFETY: The caller's word.
            _ => unsafe { slice::from_raw_parts(wr.sg_list, n) },
        };
        let piece = |sge: &ibv_sge| Sge {
            addr: sge.addr as *mut u8,
            length: sge.length,
        };
        let mut few = [Sge {
            addr: ptr::null_mut(),
            length: 0,
        }; 8];
        let many: Vec<Sge>;
        let sges = match few.get_mut(..n) {
            Some(few) => {
                for (to, from) in few.iter_mut().zip(list) {
                    *to = piece(from);
                }
                &*few
            }
            None => {
                many = list.iter().map(piece).collect();
                &many
            }
        };
        // SAFETY: The caller's word.
        match unsafe { self.srq.post_recv(wr.wr_id, sges) } {
            Ok(()) => 0,
            Err(error) => error.errno().raw(),
        }
    }
}
