// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An RC QP that sends to a TGT QP.

use std::{fmt, ptr::NonNull};

use super::{
    engine::{Done, Engine, Queue, Request, Step},
    libibverbs::Libibverbs,
    memory::Memory,
    work::Work,
};
use crate::{
    error::{Errno, Error, Result},
    verbs::*,
};

/// How to create an [`IniQp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IniQpAttr {
    /// Work requests that may be outstanding, or 0: as many as the RC QP can have. Those
    /// that the RC QP has no room for wait.
    pub max_send_wr: u32,
    /// Bytes of inline data that a work request may have, or 0: as many as with the RC QP.
    pub max_inline_data: u32,
}

/// The sender's end of a connection to a TGT QP: an RC QP of libibverbs, and what it takes
/// to use it like a QP of type `IBV_QPT_XRC_SEND`.
///
/// It does not own the RC QP. Whoever does connects it, keeps others from posting send
/// work requests to it, and hands over the completions of its send queue, all of them and in
/// their order, to [`IniQp::completed`]. Its CQ needs room for as many as the RC QP has
/// send work requests, `cap.max_send_wr`, which may be more than was asked for; there may be
/// more completions than the user has work requests, of which nothing is said to him.
///
/// The RC QP is best created with one more `cap.max_send_sge` than work requests have: one
/// with an immediate takes it for the header. It need not be deeper than is good for
/// throughput: every 4096 bytes of a message are a work request of the RC QP.
///
/// On Soft-RoCE an RDMA READ or atomic is not posted before all else is done, since the device
/// may lose it otherwise.
pub struct IniQp {
    qp: NonNull<ibv_qp>,
    lib: &'static Libibverbs,
    engine: Engine<Work>,
    memory: Memory,
    /// The scatter list of what is being posted.
    scratch: Vec<ibv_sge>,
    /// How many work requests were accepted.
    accepted: u64,
    limits: Limits,
}

/// What the RC QP and its port can do.
#[derive(Clone, Copy)]
struct Limits {
    depth: u32,
    sges: usize,
    inline: u32,
    message: u64,
    signal_all: bool,
    /// It is Soft-RoCE, which loses track of RDMA READs and atomics when it has to send again,
    /// as after an RNR NAK. With IBV_SEND_FENCE a request waits for those behind it, too, and
    /// forever (rxe_wqe_is_fenced()); and the ACK of one that arrived twice carries the number
    /// of the last one that was executed, and completes that without its answer
    /// (duplicate_request(), check_ack()). An RDMA READ that arrives twice, the second time
    /// after an RDMA READ or WRITE of nothing, fails (read_reply() looks at the length of that).
    careful: bool,
}

/// `vendor_id` of Soft-RoCE: RXE_VENDOR_ID in drivers/infiniband/sw/rxe/rxe_param.h.
const RXE_VENDOR_ID: u32 = 0xff_ffff;

// SAFETY: What it points to is used in calls of libibverbs only, which is thread-safe.
unsafe impl Send for IniQp {}

impl IniQp {
    /// Makes one of an RC QP. EINVAL: it is no RC QP. EOPNOTSUPP: there is no
    /// libibverbs.so.1. ENOMEM.
    ///
    /// # Safety
    ///
    /// `qp` is a QP of libibverbs, which is not destroyed before the last call but for the
    /// drop, and whose protection domain is not deallocated before that. Nothing else posts
    /// send work requests to it.
    pub unsafe fn new(qp: NonNull<ibv_qp>, attr: IniQpAttr) -> Result<Self> {
        let lib = Libibverbs::get()?;
        // SAFETY: The caller's word.
        let limits = unsafe { limits(lib, qp)? };
        let max = match attr.max_send_wr {
            0 => limits.depth,
            max => max,
        };
        let inline = match attr.max_inline_data {
            0 => limits.inline,
            max => max,
        };
        let limits = Limits { inline, ..limits };
        let no_memory = |errno| Error::System {
            what: "create an INI QP",
            errno,
        };
        let engine = Engine::new(max, limits.depth, limits.careful).map_err(no_memory)?;
        let mut scratch = Vec::new();
        scratch
            .try_reserve_exact(limits.sges + 1)
            .map_err(|_| no_memory(Errno::ENOMEM))?;
        // SAFETY: The caller's word.
        let memory = unsafe { Memory::new(lib, qp.as_ref().pd, limits.depth, max, inline)? };
        Ok(IniQp {
            qp,
            lib,
            engine,
            memory,
            scratch,
            accepted: 0,
            limits,
        })
    }

    /// Posts a work request as to a QP of type `IBV_QPT_XRC_SEND`, as ibv_post_send(3):
    /// `wr.qp_type.xrc.remote_srqn` names the SRQ. `wr.next` is ignored. SEND and RDMA WRITE,
    /// both with or without immediate, RDMA READ and atomics can be posted.
    ///
    /// EINVAL: the SRQ number has more than 24 bits, the scatter list is longer than that
    /// of the RC QP (with an immediate, one less is allowed), there is more inline data than
    /// was asked for. EMSGSIZE: it is longer than a message of the port. EOPNOTSUPP: another
    /// opcode. ENOMEM: `max_send_wr` are outstanding. Else what ibv_post_send(3) returns.
    /// On error nothing was posted.
    ///
    /// # Safety
    ///
    /// `wr` is as ibv_post_send(3) wants it: `sg_list` has `num_sge` elements, and the memory
    /// that they name stays, untouched, until the work request completes; with
    /// `IBV_SEND_INLINE`, until this returns.
    pub unsafe fn post(&mut self, wr: &ibv_send_wr) -> Result<()> {
        // SAFETY: The caller's word.
        let mut work = unsafe { self.take(wr)? };
        if !self.engine.has_room_for(1) {
            return Err(refused(Errno::ENOMEM));
        }
        if work.is_inline() && !work.sges().is_empty() {
            // SAFETY: The caller's word.
            let copy = unsafe { self.memory.copy(self.accepted, work.sges()) };
            work.set_sge(copy);
        }
        let request = Request {
            steps: work.steps(),
            signaled: work.is_signaled() || self.limits.signal_all,
            fetches: work.fetches(),
            fence: work.has_fence() || self.limits.careful && work.is_empty_rdma(),
            work,
        };
        let (engine, mut rc) = self.split();
        engine.submit(&mut rc, request).map_err(refused)?;
        self.accepted += 1;
        Ok(())
    }

    /// Tells whether [`IniQp::post`] would refuse one of these work requests, as far as that
    /// depends on them and on how many are outstanding.
    ///
    /// # Safety
    ///
    /// As for [`IniQp::post`].
    pub unsafe fn check<'w>(&self, wrs: impl IntoIterator<Item = &'w ibv_send_wr>) -> Result<()> {
        let mut n = 0;
        for wr in wrs {
            // SAFETY: The caller's word.
            unsafe { self.take(wr)? };
            n += 1;
        }
        match self.engine.has_room_for(n) {
            true => Ok(()),
            false => Err(refused(Errno::ENOMEM)),
        }
    }

    /// A work request that the RC QP can have.
    ///
    /// # Safety
    ///
    /// `sg_list` has `num_sge` elements.
    unsafe fn take(&self, wr: &ibv_send_wr) -> Result<Work> {
        // SAFETY: The caller's word.
        let work = unsafe { Work::new(wr, self.limits.message)? };
        let mut sges = work.sges().len();
        if work.is_inline() {
            self.memory.has_area_for(work.sges())?;
            sges = sges.min(1);
        }
        sges += usize::from(work.has_header());
        if sges > self.limits.sges {
            return Err(Error::invalid(format!(
                "{sges} elements of a scatter list, the header of an immediate included, \
                 where the RC QP has {}",
                self.limits.sges
            )));
        }
        Ok(work)
    }

    /// Takes a completion of the RC QP's send queue, and returns that of the user's work
    /// request, if it is the completion of one: with its `wr_id`, and as the sender of a
    /// device with XRC sees it. After it, [`IniQp::flushed`] is to be called until there is
    /// nothing.
    pub fn completed(&mut self, wc: &ibv_wc) -> Option<ibv_wc> {
        let (engine, mut rc) = self.split();
        let done = engine.complete(&mut rc, wc.wr_id, wc.status == IBV_WC_SUCCESS)?;
        Some(tell(&done, wc))
    }

    /// After an error, the completion of a work request that never got to the RC QP, if there
    /// is another one.
    pub fn flushed(&mut self) -> Option<ibv_wc> {
        let done = self.engine.flush()?;
        let wc = ibv_wc {
            status: IBV_WC_WR_FLUSH_ERR,
            // SAFETY: Of `new`.
            qp_num: unsafe { self.qp.as_ref() }.qp_num,
            ..Default::default()
        };
        Some(tell(&done, &wc))
    }

    /// The RC QP was moved to the RESET state: what was outstanding is gone, and does not
    /// complete. What is still in the CQ may be handed over or not.
    pub fn reset(&mut self) {
        self.engine.reset();
    }

    /// Work requests wait until others complete; they are posted by [`IniQp::completed`].
    pub fn is_behind(&self) -> bool {
        self.engine.is_behind()
    }

    fn split(&mut self) -> (&mut Engine<Work>, RcQp<'_>) {
        let rc = RcQp {
            qp: self.qp,
            lib: self.lib,
            memory: &mut self.memory,
            scratch: &mut self.scratch,
            fences: !self.limits.careful,
        };
        (&mut self.engine, rc)
    }
}

impl fmt::Debug for IniQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IniQp")
            .field("qp", &self.qp)
            .finish_non_exhaustive()
    }
}

fn refused(errno: Errno) -> Error {
    let what = "post a work request to an INI QP";
    match errno {
        Errno::ENOMEM => Error::Call {
            what,
            errno,
            advice: "as many are outstanding as it was made for, or the RC QP can have",
        },
        _ => Error::System { what, errno },
    }
}

/// The user's completion.
fn tell(done: &Done<Work>, wc: &ibv_wc) -> ibv_wc {
    let mut wc = done.work.completion(wc);
    if let (Some(errno), IBV_WC_WR_FLUSH_ERR) = (done.broken, wc.status) {
        // It did not fail because of another.
        wc.status = IBV_WC_LOC_QP_OP_ERR;
        wc.vendor_err = errno.raw() as u32;
    }
    wc
}

/// # Safety
///
/// A good QP.
unsafe fn limits(lib: &Libibverbs, qp: NonNull<ibv_qp>) -> Result<Limits> {
    let system = |what, errno: i32| Error::System {
        what,
        errno: Errno::from_raw(errno.abs()),
    };
    // SAFETY: The caller's word.
    let (kind, context) = unsafe { (qp.as_ref().qp_type, qp.as_ref().context) };
    if kind != IBV_QPT_RC {
        return Err(Error::invalid(
            "an INI QP is made of an RC QP, and of no other",
        ));
    }
    let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
    // SAFETY: It writes both.
    let errno = unsafe { (lib.query_qp)(qp.as_ptr(), &mut attr, IBV_QP_CAP as i32, &mut init) };
    if errno != 0 {
        return Err(system("query an RC QP", errno));
    }
    let mut device = ibv_device_attr::default();
    // SAFETY: It writes it.
    let errno = unsafe { (lib.query_device)(context, &mut device) };
    if errno != 0 {
        return Err(system("query the device of an RC QP", errno));
    }
    // It may not have a port yet.
    let mut message = u32::MAX;
    for number in 1..=device.phys_port_cnt {
        let mut port = ibv_port_attr::default();
        // SAFETY: It writes the part that all versions of the structure have in common.
        let errno = unsafe { (lib.query_port)(context, number, (&raw mut port).cast()) };
        if errno != 0 {
            return Err(system("query a port of an RC QP", errno));
        }
        message = message.min(port.max_msg_sz);
    }
    Ok(Limits {
        depth: init.cap.max_send_wr,
        sges: init.cap.max_send_sge as usize,
        inline: init.cap.max_inline_data,
        message: message.into(),
        signal_all: init.sq_sig_all != 0,
        careful: device.vendor_id == RXE_VENDOR_ID,
    })
}

/// The RC QP, as the engine needs it.
struct RcQp<'a> {
    qp: NonNull<ibv_qp>,
    lib: &'static Libibverbs,
    memory: &'a mut Memory,
    scratch: &'a mut Vec<ibv_sge>,
    /// It sees to fences itself.
    fences: bool,
}

impl RcQp<'_> {
    fn post_one(&mut self, mut wr: ibv_send_wr) -> Result<(), Errno> {
        wr.next = std::ptr::null_mut();
        wr.sg_list = self.scratch.as_mut_ptr();
        wr.num_sge = self.scratch.len() as i32;
        let qp = self.qp.as_ptr();
        // SAFETY: The word of who called `new`: a QP has a context, which has its operations.
        let post = unsafe { (*(*qp).context).ops.post_send };
        let post = post.ok_or(Errno::EOPNOTSUPP)?;
        let mut bad = std::ptr::null_mut();
        // SAFETY: The word of who called `post`. Providers copy the work request.
        match unsafe { post(qp, &mut wr, &mut bad) } {
            0 => Ok(()),
            errno => Err(Errno::from_raw(errno.abs())),
        }
    }
}

impl Queue<Work> for RcQp<'_> {
    fn post(&mut self, work: &Work, step: Step) -> Result<(), Errno> {
        let mut posted = work.step(step.index);
        self.scratch.clear();
        if let Some(header) = posted.header {
            self.scratch
                .push(self.memory.store_header(step.number, header));
        }
        work.append_sges(posted.range, self.scratch);
        posted.wr.wr_id = step.number;
        if step.signaled {
            posted.wr.send_flags |= IBV_SEND_SIGNALED;
        }
        if !self.fences {
            posted.wr.send_flags &= !IBV_SEND_FENCE;
        }
        self.post_one(posted.wr)
    }

    fn give_up(&mut self, number: u64) -> bool {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_ERR,
            ..Default::default()
        };
        // SAFETY: The word of who called `new`.
        let errno =
            unsafe { (self.lib.modify_qp)(self.qp.as_ptr(), &mut attr, IBV_QP_STATE as i32) };
        self.scratch.clear();
        errno == 0
            && self
                .post_one(ibv_send_wr {
                    wr_id: number,
                    opcode: IBV_WR_SEND,
                    send_flags: IBV_SEND_SIGNALED,
                    ..Default::default()
                })
                .is_ok()
    }
}
