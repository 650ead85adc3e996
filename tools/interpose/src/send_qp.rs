// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! QPs of type XRC_SEND: RC QPs that send to TGT QPs.

use std::{ffi::c_int, ptr::NonNull, sync::Arc};

use ibxrc::{verbs::*, IniQp, IniQpAttr};

use crate::{
    context::{self, Context},
    cq::{Cq, User},
    element::Element,
    poster::{self, Poster},
    real::real,
    report,
    sender::Sender,
};

pub(crate) struct SendQp {
    sender: Arc<Sender>,
    cq: User,
    /// What the RC QP completes into.
    hidden: NonNull<ibv_cq>,
    /// How many completions it may have there.
    room: u32,
    /// As the program asked for it.
    cap: ibv_qp_cap,
    extended: bool,
    poster: Poster,
}

// SAFETY: The pointer is used in calls of libibverbs, which is thread-safe.
unsafe impl Send for SendQp {}
// SAFETY: As above.
unsafe impl Sync for SendQp {}

impl SendQp {
    /// An errno value.
    ///
    /// # Safety
    ///
    /// See ibv_create_qp_ex(3).
    pub(crate) unsafe fn create(
        context: &Context,
        attr: &mut ibv_qp_init_attr_ex,
        element: Element,
        shell: &mut ibv_qp_ex,
    ) -> Result<Self, c_int> {
        if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: The caller's word.
        if unsafe { context::of_pd(context, attr.pd) }.is_none() {
            return Err(libc::EINVAL);
        }
        // The RC QP may be less deep: no driver would notice.
        let most = u32::try_from(context.limits.max_qp_wr).unwrap_or(u32::MAX);
        if attr.cap.max_send_wr > most {
            return Err(libc::EINVAL);
        }
        let extended = poster::offer(attr, shell)?;
        // SAFETY: The caller's word.
        let cq = unsafe { User::new(context, attr.send_cq) }.ok_or(libc::EINVAL)?;
        let sends = &cq.cq().sends;
        let depth = depth(&attr.cap, &context.limits);
        // SAFETY: The caller's word.
        let rc = unsafe { create_rc(attr, depth, context.limits.max_sge, cq.cq()) }?;
        let (real_qp, hidden, room) = (rc.qp, rc.hidden, rc.cap.max_send_wr);
        let wanted = IniQpAttr {
            max_send_wr: attr.cap.max_send_wr.max(1),
            max_inline_data: attr.cap.max_inline_data,
        };
        // SAFETY: The QP is ours alone, and destroyed in `destroy`.
        let ini = unsafe { IniQp::new(real_qp, wanted) }.map_err(|error| {
            // SAFETY: Nobody else has it.
            unsafe { (real().destroy_qp)(real_qp.as_ptr()) };
            sends.release(hidden, room);
            report::failed("ibv_create_qp_ex", &error)
        })?;
        // SAFETY: As above.
        let sender = Arc::new(unsafe { Sender::new(real_qp, ini) });
        sends.add(cq.cq(), &sender);
        if let Some(events) = &context.events {
            events.substitute(Element::Qp(real_qp.as_ptr()), element);
        }
        if attr.cap.max_inline_data == 0 {
            // What the RC QP has anyway; programs are used to that.
            attr.cap.max_inline_data = rc.cap.max_inline_data;
        }
        attr.cap.max_recv_wr = 0;
        attr.cap.max_recv_sge = 0;
        let base = &mut shell.qp_base;
        base.qp_num = sender.qp_num();
        base.pd = attr.pd;
        base.send_cq = attr.send_cq;
        Ok(SendQp {
            sender,
            hidden,
            room,
            cap: attr.cap,
            poster: Poster::new(),
            extended,
            cq,
        })
    }

    /// The program asked for ibv_wr_start(3) and what goes with it.
    pub(crate) fn is_extended(&self) -> bool {
        self.extended
    }

    /// The RC QP.
    pub(crate) fn real(&self) -> *mut ibv_qp {
        self.sender.real.as_ptr()
    }

    /// What is between ibv_wr_start(3) and ibv_wr_complete(3).
    pub(crate) fn poster(&self) -> &Poster {
        &self.poster
    }

    /// Posts a list of work requests; with `whole` all of them or, if one is bad, none. An
    /// errno value.
    ///
    /// # Safety
    ///
    /// See ibv_post_send(3).
    pub(crate) unsafe fn post(
        &self,
        wr: *mut ibv_send_wr,
        bad: *mut *mut ibv_send_wr,
        whole: bool,
    ) -> c_int {
        // SAFETY: The caller's word.
        let (behind, errno) = unsafe { self.sender.post(wr, bad, whole) };
        if behind {
            let cq = self.cq.cq();
            cq.sends.behind(cq);
        }
        errno
    }

    /// An errno value.
    pub(crate) fn modify(&self, attr: &ibv_qp_attr, mask: c_int) -> c_int {
        let (mut attr, mask) = for_rc(attr, mask as u32);
        // SAFETY: It is not destroyed.
        let errno =
            unsafe { (real().modify_qp)(self.sender.real.as_ptr(), &mut attr, mask as c_int) };
        if errno == 0 && mask & IBV_QP_STATE != 0 && attr.qp_state == IBV_QPS_RESET {
            self.sender.reset();
        }
        errno
    }

    /// An errno value.
    pub(crate) fn query(
        &self,
        attr: &mut ibv_qp_attr,
        mask: c_int,
        init: &mut ibv_qp_init_attr,
    ) -> c_int {
        let mut found = ibv_qp_init_attr::default();
        // SAFETY: It is not destroyed.
        let errno = unsafe { (real().query_qp)(self.sender.real.as_ptr(), attr, mask, &mut found) };
        if errno == 0 {
            attr.cap = self.cap;
            init.cap = self.cap;
            init.sq_sig_all = found.sq_sig_all;
        }
        errno
    }

    /// An errno value: it is still there.
    pub(crate) fn destroy(&self) -> c_int {
        let ini = self.sender.stop();
        // SAFETY: Nothing is posted to it any more.
        let errno = unsafe { (real().destroy_qp)(self.sender.real.as_ptr()) };
        if errno != 0 {
            self.sender.go_on(ini);
            return errno;
        }
        let cq = self.cq.cq();
        if let Some(events) = &cq.context().events {
            events.substitute_gone(Element::Qp(self.sender.real.as_ptr()));
        }
        cq.sends.remove(cq, &self.sender);
        cq.sends.release(self.hidden, self.room);
        0
    }
}

/// How deep the RC QP is to be. What the program posts beyond that waits.
fn depth(wanted: &ibv_qp_cap, limits: &ibv_device_attr) -> u32 {
    // So many parts of messages are good for throughput.
    const ENOUGH: u32 = 128;
    let limit = |limit: c_int| u32::try_from(limit).unwrap_or(ENOUGH).max(1);
    let most = limit(limits.max_qp_wr).min((limit(limits.max_cqe) / 2).max(1));
    wanted.max_send_wr.max(ENOUGH).min(most)
}

/// What providers make of the depth of a queue, more or less.
fn rounded(depth: u32) -> u32 {
    depth
        .saturating_add(1)
        .checked_next_power_of_two()
        .unwrap_or(u32::MAX)
}

/// An RC QP that is new.
struct Rc {
    qp: NonNull<ibv_qp>,
    /// With room for each of its work requests.
    hidden: NonNull<ibv_cq>,
    /// What it has become.
    cap: ibv_qp_cap,
}

/// Makes the RC QP, and finds a CQ for it that has room for all that it may complete. An
/// errno value.
///
/// # Safety
///
/// See ibv_create_qp_ex(3).
unsafe fn create_rc(
    attr: &ibv_qp_init_attr_ex,
    depth: u32,
    max_sge: c_int,
    cq: &Cq,
) -> Result<Rc, c_int> {
    let wanted = attr.cap.max_send_sge;
    let most = u32::try_from(max_sge).unwrap_or(wanted).max(wanted);
    let mut room = rounded(depth);
    loop {
        let hidden = cq.sends.hidden(room)?;
        let mut init = ibv_qp_init_attr {
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
            sq_sig_all: attr.sq_sig_all,
            ..Default::default()
        };
        // SAFETY: The caller's word.
        let created = NonNull::new(unsafe { (real().create_qp)(attr.pd, &mut init) });
        let Some(qp) = created else {
            let errno = std::io::Error::last_os_error().raw_os_error();
            cq.sends.release(hidden, room);
            return Err(errno.unwrap_or(libc::ENOMEM));
        };
        let has = init.cap.max_send_wr;
        if has <= room {
            cq.sends.release(hidden, room - has);
            return Ok(Rc {
                qp,
                hidden,
                cap: init.cap,
            });
        }
        // SAFETY: Nobody else has it.
        unsafe { (real().destroy_qp)(qp.as_ptr()) };
        cq.sends.release(hidden, room);
        room = has;
    }
}

/// What modifies an RC QP as this would modify an XRC_SEND QP: that needs less, since it does
/// not receive.
fn for_rc(attr: &ibv_qp_attr, mask: u32) -> (ibv_qp_attr, u32) {
    let (mut attr, mut mask) = (*attr, mask);
    if mask & IBV_QP_STATE != 0 && attr.qp_state == IBV_QPS_RTR {
        if mask & IBV_QP_MAX_DEST_RD_ATOMIC == 0 {
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC;
            attr.max_dest_rd_atomic = 0;
        }
        if mask & IBV_QP_MIN_RNR_TIMER == 0 {
            mask |= IBV_QP_MIN_RNR_TIMER;
            attr.min_rnr_timer = 0;
        }
    }
    (attr, mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rc_qp_is_as_deep_as_is_good_and_its_completions_have_room() {
        let wanted = |max_send_wr| ibv_qp_cap {
            max_send_wr,
            ..Default::default()
        };
        let limits = ibv_device_attr {
            max_qp_wr: 1 << 20,
            max_cqe: 32767,
            ..Default::default()
        };
        assert_eq!(depth(&wanted(0), &limits), 128);
        assert_eq!(depth(&wanted(500), &limits), 500);
        for max_send_wr in [0, 1, 127, 128, 8191, 8192, 16384, 1 << 20, u32::MAX] {
            let depth = depth(&wanted(max_send_wr), &limits);
            // As Soft-RoCE rounds it.
            let has = (depth + 1).next_power_of_two() - 1;
            assert!(has <= rounded(depth) && rounded(depth) <= 32767);
        }
        let small = ibv_device_attr {
            max_qp_wr: 100,
            max_cqe: 1,
            ..Default::default()
        };
        assert_eq!(depth(&wanted(7), &small), 1);
    }

    #[test]
    fn an_rc_qp_needs_more_to_go_to_rtr() {
        const MORE: u32 = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let rtr = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            min_rnr_timer: 12,
            max_dest_rd_atomic: 4,
            ..Default::default()
        };
        let (attr, mask) = for_rc(&rtr, IBV_QP_STATE | IBV_QP_AV);
        assert_eq!(mask, IBV_QP_STATE | IBV_QP_AV | MORE);
        assert_eq!((attr.min_rnr_timer, attr.max_dest_rd_atomic), (0, 0));
        // What the program says counts.
        let (attr, mask) = for_rc(&rtr, IBV_QP_STATE | MORE);
        assert_eq!(mask, IBV_QP_STATE | MORE);
        assert_eq!((attr.min_rnr_timer, attr.max_dest_rd_atomic), (12, 4));
        // The field means nothing without its bit.
        assert_eq!(for_rc(&rtr, IBV_QP_PORT).1, IBV_QP_PORT);
        let rts = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            ..rtr
        };
        assert_eq!(for_rc(&rts, IBV_QP_STATE).1, IBV_QP_STATE);
    }
}
