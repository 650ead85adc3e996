// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! QPs of type IBV_QPT_XRC: RC QPs that send to receiving QPs.
//!
//! What the program has is the RC QP. It completes into a CQ of its own, since it may have
//! more completions than the program has work requests and room in its CQ.

use std::{
    ffi::c_int,
    mem::MaybeUninit,
    ptr::{self, NonNull},
    sync::{Arc, Mutex},
};

use super::{
    checked,
    cq::{arm_device, poll_device, Cq, User},
    domain::Domain,
    fail, failed, last,
    libibverbs::Libibverbs,
    lock, null, srq, status,
    table::Table,
};
use crate::{
    error::{Error, Result},
    verbs::*,
    IniQp, IniQpAttr,
};

static QPS: Table<Qp> = Table::new();
/// By the QPs' own CQs: the program's.
static COMPLETES_INTO: Table<usize> = Table::new();

pub(super) struct Qp {
    real: NonNull<ibv_qp>,
    ini: Mutex<IniQp>,
    hidden: NonNull<ibv_cq>,
    cq: User,
    /// The address of the program's CQ.
    into: Arc<usize>,
    domain: Arc<Domain>,
    /// As the program asked for it.
    given: ibxrc_ofed_qp_init_attr,
}

// SAFETY: The pointers are used in calls of libibverbs, which is thread-safe, or are for the
// program.
unsafe impl Send for Qp {}
// SAFETY: As above.
unsafe impl Sync for Qp {}

/// The program's CQ that a QP completes into whose own this is.
pub(super) fn completes_into(hidden: *mut ibv_cq) -> Option<*mut ibv_cq> {
    COMPLETES_INTO
        .get(hidden)
        .map(|cq| ptr::with_exposed_provenance_mut(*cq))
}

impl Qp {
    /// # Safety
    ///
    /// See `infiniband/xrc_ofed.h`.
    unsafe fn create(pd: *mut ibv_pd, given: &mut ibxrc_ofed_qp_init_attr) -> Result<Arc<Self>> {
        // So many parts of messages are good for throughput.
        const DEPTH: u32 = 128;
        let lib = Libibverbs::get()?;
        // SAFETY: The caller's word.
        let (domain, cq, pd_ref) = unsafe {
            (
                Domain::keep(given.xrc_domain)?,
                given.send_cq.as_ref().ok_or_else(null)?,
                pd.as_ref().ok_or_else(null)?,
            )
        };
        if !given.srq.is_null() {
            return Err(Error::invalid("a QP of type IBV_QPT_XRC has no SRQ"));
        }
        let mut limits = ibv_device_attr::default();
        // SAFETY: As above.
        checked("query the device", unsafe {
            (lib.query_device)(pd_ref.context, &mut limits)
        })?;
        let most = u32::try_from(limits.max_qp_wr).unwrap_or(DEPTH);
        let depth = given.cap.max_send_wr.max(DEPTH.min(most));
        // SAFETY: As above.
        let (real, hidden) = unsafe { create_rc(lib, pd, cq, given, depth, limits.max_sge)? };
        let wanted = IniQpAttr {
            max_send_wr: given.cap.max_send_wr.max(1),
            max_inline_data: given.cap.max_inline_data,
        };
        // SAFETY: It is new, and is destroyed in `destroy`.
        let ini = unsafe { IniQp::new(real, wanted) }.inspect_err(|_| {
            // SAFETY: Nobody else has it, and nothing has completed.
            unsafe {
                (lib.destroy_qp)(real.as_ptr());
                (lib.destroy_cq)(hidden.as_ptr());
            }
        })?;
        given.cap.max_recv_wr = 0;
        given.cap.max_recv_sge = 0;
        Ok(Arc::new(Qp {
            real,
            ini: Mutex::new(ini),
            hidden,
            cq: Cq::used(given.send_cq),
            into: Arc::new(given.send_cq.expose_provenance()),
            domain,
            given: *given,
        }))
    }

    /// From here on the program's calls find it.
    fn enter(self: &Arc<Self>) {
        COMPLETES_INTO.insert(self.hidden.as_ptr(), self.into.clone());
        QPS.insert(self.real.as_ptr(), self.clone());
        self.cq.cq().add(self);
        // SAFETY: It is there as long as the program's QP.
        if !unsafe { self.hidden.as_ref() }.channel.is_null() {
            // The program may have asked for an event before. One that it did not ask for
            // does no harm.
            let _ = self.arm(0);
        }
    }

    fn leave(&self) {
        self.cq.cq().remove(self);
        QPS.remove(self.real.as_ptr());
    }

    /// A completion of the program's, if there is one.
    pub(super) fn poll(&self) -> Option<ibv_wc> {
        let mut ini = lock(&self.ini);
        loop {
            if let Some(wc) = ini.flushed() {
                return Some(wc);
            }
            let mut wc = MaybeUninit::<ibv_wc>::uninit();
            // SAFETY: There is room for one.
            if unsafe { poll_device(self.hidden.as_ptr(), 1, wc.as_mut_ptr()) } != 1 {
                return None;
            }
            // SAFETY: It was written to.
            if let Some(wc) = ini.completed(unsafe { wc.assume_init_ref() }) {
                return Some(wc);
            }
        }
    }

    pub(super) fn arm(&self, solicited_only: c_int) -> Result<()> {
        // SAFETY: It is there as long as the program's QP.
        unsafe { arm_device(self.hidden.as_ptr(), solicited_only) }
    }

    fn modify(&self, attr: *mut ibv_qp_attr, mask: c_int) -> Result<()> {
        let lib = Libibverbs::get()?;
        // SAFETY: The caller's word.
        let errno = unsafe { (lib.modify_qp)(self.real.as_ptr(), attr, mask) };
        checked("modify the QP", errno)?;
        // SAFETY: It was looked at.
        let state = unsafe { (*attr).qp_state };
        if mask as u32 & IBV_QP_STATE != 0 && state == IBV_QPS_RESET {
            // What is still in the CQ is not of now.
            let mut ini = lock(&self.ini);
            ini.reset();
        }
        Ok(())
    }

    fn query(
        &self,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibxrc_ofed_qp_init_attr,
    ) -> Result<()> {
        let lib = Libibverbs::get()?;
        let mut found = ibv_qp_init_attr::default();
        // SAFETY: The caller's word.
        let errno = unsafe { (lib.query_qp)(self.real.as_ptr(), attr, mask, &mut found) };
        checked("query the QP", errno)?;
        // SAFETY: As above, and the first one was written to.
        unsafe {
            (*attr).cap = self.given.cap;
            init.write(ibxrc_ofed_qp_init_attr {
                xrc_domain: self.domain.shell(),
                ..self.given
            });
        }
        Ok(())
    }

    /// # Safety
    ///
    /// See `infiniband/xrc_ofed.h`.
    unsafe fn post(&self, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int {
        let mut ini = lock(&self.ini);
        let mut at = wr;
        // SAFETY: The caller's word.
        while let Some(request) = unsafe { at.as_ref() } {
            // SAFETY: As above.
            if let Err(error) = unsafe { ini.post(request) } {
                // SAFETY: As above.
                if let Some(bad) = unsafe { bad_wr.as_mut() } {
                    *bad = at;
                }
                return fail(error);
            }
            at = request.next;
        }
        0
    }

    fn destroy(self: Arc<Self>) -> Result<()> {
        let lib = Libibverbs::get()?;
        // Another QP may be at this address before libibverbs comes back.
        self.leave();
        // SAFETY: The program has given it back.
        let errno = unsafe { (lib.destroy_qp)(self.real.as_ptr()) };
        if let Err(error) = checked("destroy the QP", errno) {
            self.enter();
            return Err(error);
        }
        // SAFETY: Nothing completes into it any more. Who has got an event of it looks for the
        // program's CQ before he acknowledges it, for which this waits.
        unsafe { (lib.destroy_cq)(self.hidden.as_ptr()) };
        // Another CQ may be at its address by now.
        COMPLETES_INTO.remove_if(self.hidden.as_ptr(), |into| std::ptr::eq(into, &*self.into));
        Ok(())
    }
}

/// Makes an RC QP, and a CQ with room for all that it may complete: each of the work requests
/// that it has become able to have.
///
/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
unsafe fn create_rc(
    lib: &Libibverbs,
    pd: *mut ibv_pd,
    cq: &ibv_cq,
    given: &ibxrc_ofed_qp_init_attr,
    depth: u32,
    max_sge: c_int,
) -> Result<(NonNull<ibv_qp>, NonNull<ibv_cq>)> {
    let wanted = given.cap.max_send_sge;
    let most = u32::try_from(max_sge).unwrap_or(wanted).max(wanted);
    let mut room = depth;
    loop {
        let cqe = c_int::try_from(room).unwrap_or(c_int::MAX);
        // SAFETY: The caller's word.
        let hidden = unsafe { (lib.create_cq)(cq.context, cqe, ptr::null_mut(), cq.channel, 0) };
        let hidden = NonNull::new(hidden).ok_or_else(|| last("create a CQ for a QP"))?;
        let mut init = ibv_qp_init_attr {
            qp_context: given.qp_context,
            send_cq: hidden.as_ptr(),
            recv_cq: hidden.as_ptr(),
            cap: ibv_qp_cap {
                max_send_wr: depth,
                // Nothing is received.
                max_recv_wr: 1,
                // One for the header of an immediate, if the device can have it.
                max_send_sge: wanted.saturating_add(1).min(most),
                max_recv_sge: 1,
                // It is copied.
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: given.sq_sig_all,
            ..Default::default()
        };
        // SAFETY: The caller's word.
        let real = NonNull::new(unsafe { (lib.create_qp)(pd, &mut init) })
            .ok_or_else(|| last("create the RC QP of an XRC QP"));
        // SAFETY: It is there.
        let has_room = i64::from(unsafe { hidden.as_ref() }.cqe) >= i64::from(init.cap.max_send_wr);
        match real {
            Ok(real) if has_room => return Ok((real, hidden)),
            Ok(real) => {
                // SAFETY: Nobody else has it.
                unsafe { (lib.destroy_qp)(real.as_ptr()) };
                room = init.cap.max_send_wr;
            }
            Err(_) => {}
        }
        // SAFETY: Nobody else has it, and nothing has completed.
        unsafe { (lib.destroy_cq)(hidden.as_ptr()) };
        real?;
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_create_qp(
    pd: *mut ibv_pd,
    init_attr: *mut ibxrc_ofed_qp_init_attr,
) -> *mut ibv_qp {
    let create = || {
        // SAFETY: The caller's word.
        let given = unsafe { init_attr.as_mut() }.ok_or_else(null)?;
        if given.qp_type == IBV_QPT_XRC_SEND {
            // SAFETY: As above.
            let qp = unsafe { Qp::create(pd, given)? };
            qp.enter();
            return Ok(qp.real.as_ptr());
        }
        // SAFETY: As above.
        if unsafe { srq::of(given.srq) }.is_some() {
            return Err(Error::invalid("only a receiving QP has XRC SRQs"));
        }
        // SAFETY: As above. It begins as libibverbs' own does.
        Ok(unsafe { (Libibverbs::get()?.create_qp)(pd, init_attr.cast()) })
    };
    create().unwrap_or_else(failed)
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    if let Some(known) = QPS.get(qp) {
        return status(known.modify(attr, attr_mask));
    }
    match Libibverbs::get() {
        // SAFETY: The caller's word.
        Ok(lib) => unsafe { (lib.modify_qp)(qp, attr, attr_mask) },
        Err(error) => status(Err(error)),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibxrc_ofed_qp_init_attr,
) -> c_int {
    if let Some(known) = QPS.get(qp) {
        return status(known.query(attr, attr_mask, init_attr));
    }
    match Libibverbs::get() {
        // SAFETY: The caller's word. It begins as libibverbs' own does.
        Ok(lib) => unsafe {
            (*init_attr).xrc_domain = ptr::null_mut();
            (lib.query_qp)(qp, attr, attr_mask, init_attr.cast())
        },
        Err(error) => status(Err(error)),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_destroy_qp(qp: *mut ibv_qp) -> c_int {
    if let Some(known) = QPS.get(qp) {
        return status(known.destroy());
    }
    match Libibverbs::get() {
        // SAFETY: The caller's word.
        Ok(lib) => unsafe { (lib.destroy_qp)(qp) },
        Err(error) => status(Err(error)),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_post_send(
    qp: *mut ibv_qp,
    wr: *mut ibxrc_ofed_send_wr,
    bad_wr: *mut *mut ibxrc_ofed_send_wr,
) -> c_int {
    // The layout is that of libibverbs.
    let (wr, bad_wr) = (wr.cast::<ibv_send_wr>(), bad_wr.cast::<*mut ibv_send_wr>());
    if let Some(known) = QPS.get(qp) {
        // SAFETY: The caller's word.
        return unsafe { known.post(wr, bad_wr) };
    }
    // SAFETY: As above.
    match unsafe { (*(*qp).context).ops.post_send } {
        // SAFETY: As above.
        Some(post) => unsafe { post(qp, wr, bad_wr) },
        None => libc::EOPNOTSUPP,
    }
}
