// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An RC QP that sends to TGT QPs.

use std::{
    collections::VecDeque,
    fmt,
    ops::Range,
    os::fd::BorrowedFd,
    ptr::NonNull,
    time::{Duration, Instant},
};

use ibxrc::verbs::*;
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    io::Errno,
};

use crate::{address::Address, device::Device, memory::Memory, work::Work, Error, Result};

const EOPNOTSUPP: i32 = Errno::OPNOTSUPP.raw_os_error();

/// Elements of a scatter list, one of them for the header of a message.
const MAX_SGE: u32 = 4;

/// How to create an [`IniQp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IniQpAttr {
    /// Work requests of the RC QP that may be posted at a time.
    pub depth: u32,
    /// Work requests that may be outstanding.
    pub max_wr: u32,
    /// Bytes of inline data that a work request may have.
    pub max_inline: u32,
    /// Bytes of its memory.
    pub memory: usize,
    /// Number of the first packet that it sends, 24 bits.
    pub psn: u32,
    /// How long it waits for an acknowledgement: 4.096 us * 2^timeout.
    pub timeout: u8,
    /// How often it tries again when none comes, 0 to 7. For Soft-RoCE 7 is forever.
    pub retry_cnt: u8,
    /// How often it tries again when the peer has no buffer, 0 to 6; 7 is forever.
    pub rnr_retry: u8,
}

impl Default for IniQpAttr {
    fn default() -> Self {
        IniQpAttr {
            depth: 64,
            max_wr: 256,
            max_inline: 0,
            memory: 1 << 20,
            psn: 0,
            // 268 ms, 7 times: an emulated machine can be slow to answer, but a TGT QP that
            // is gone must be noticed.
            timeout: 16,
            retry_cnt: 6,
            rnr_retry: 7,
        }
    }
}

/// An RC QP with memory to send from.
///
/// # Invariants
///
/// The pointers are of libibverbs.
pub struct IniQp {
    qp: NonNull<ibv_qp>,
    cq: NonNull<ibv_cq>,
    channel: NonNull<ibv_comp_channel>,
    ini: ibxrc::IniQp,
    memory: Memory,
    /// Completions that nobody polled yet.
    ready: VecDeque<ibv_wc>,
    attr: IniQpAttr,
    device: Device,
}

// SAFETY: It owns everything, and libibverbs is thread-safe.
unsafe impl std::marker::Send for IniQp {}

impl IniQp {
    /// Creates it, in the RESET state.
    pub fn create(device: &Device, attr: IniQpAttr) -> Result<Self> {
        let context = device.0.context.as_ptr();
        let memory = Memory::new(device, attr.memory)?;
        // SAFETY: An open context.
        let channel = NonNull::new(unsafe { ibv_create_comp_channel(context) })
            .ok_or_else(|| Error::last("create a completion channel"))?;
        // SAFETY: An open context and a channel of it.
        let cq = NonNull::new(unsafe {
            ibv_create_cq(
                context,
                attr.depth as i32,
                std::ptr::null_mut(),
                channel.as_ptr(),
                0,
            )
        })
        .ok_or_else(|| {
            let error = Error::last("create a CQ");
            // SAFETY: Just created.
            unsafe { ibv_destroy_comp_channel(channel.as_ptr()) };
            error
        })?;
        let mut init = ibv_qp_init_attr {
            send_cq: cq.as_ptr(),
            recv_cq: cq.as_ptr(),
            cap: ibv_qp_cap {
                max_send_wr: attr.depth,
                max_send_sge: MAX_SGE,
                ..Default::default()
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
            ..Default::default()
        };
        // SAFETY: A PD and a CQ of the same context.
        let qp = NonNull::new(unsafe { ibv_create_qp(device.0.pd.as_ptr(), &mut init) })
            .ok_or_else(|| {
                let error = Error::last("create an RC QP");
                // SAFETY: Just created.
                unsafe {
                    ibv_destroy_cq(cq.as_ptr());
                    ibv_destroy_comp_channel(channel.as_ptr());
                }
                error
            })?;
        // The QP may have become deeper than it was to be.
        let entries = init.cap.max_send_wr as i32;
        // SAFETY: Just created.
        let errno = match unsafe { cq.as_ref() }.cqe < entries {
            // SAFETY: As above.
            true => unsafe { ibv_resize_cq(cq.as_ptr(), entries) },
            false => 0,
        };
        if errno != 0 {
            // SAFETY: Just created.
            unsafe {
                ibv_destroy_qp(qp.as_ptr());
                ibv_destroy_cq(cq.as_ptr());
                ibv_destroy_comp_channel(channel.as_ptr());
            }
            return Err(Error::returned("resize a CQ", errno));
        }
        let ini_attr = ibxrc::IniQpAttr {
            max_send_wr: attr.max_wr,
            max_inline_data: attr.max_inline,
        };
        // SAFETY: It is dropped before the PD, and not used any more when the QP is gone.
        let ini = match unsafe { ibxrc::IniQp::new(qp, ini_attr) } {
            Ok(ini) => ini,
            Err(error) => {
                // SAFETY: Just created.
                unsafe {
                    ibv_destroy_qp(qp.as_ptr());
                    ibv_destroy_cq(cq.as_ptr());
                    ibv_destroy_comp_channel(channel.as_ptr());
                }
                return Err(error.into());
            }
        };
        // INVARIANT: Just created.
        Ok(IniQp {
            qp,
            cq,
            channel,
            memory,
            ini,
            ready: VecDeque::new(),
            attr,
            device: device.clone(),
        })
    }

    /// The QP of libibverbs. It must not be destroyed.
    pub fn as_ptr(&self) -> *mut ibv_qp {
        self.qp.as_ptr()
    }

    /// Its address, which a TGT QP is to be connected to.
    pub fn address(&self) -> Address {
        Address {
            // SAFETY: Type invariant.
            qp_num: unsafe { self.qp.as_ref() }.qp_num,
            psn: self.attr.psn,
            gid: self.device.gid().gid,
            lid: self.device.lid(),
            mtu: self.device.mtu(),
            rd_atomic: self.device.rd_atomic(),
        }
    }

    /// Connects it to a TGT QP: INIT, RTR, RTS.
    pub fn connect(&mut self, tgt: &Address) -> Result<()> {
        let mut init = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            pkey_index: 0,
            port_num: self.device.port(),
            qp_access_flags: 0,
            ..Default::default()
        };
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        self.modify("initialise the RC QP", &mut init, mask)?;

        let mut rtr = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: tgt.mtu.min(self.device.mtu()),
            dest_qp_num: tgt.qp_num,
            rq_psn: tgt.psn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ah_attr: ibv_ah_attr {
                grh: ibv_global_route {
                    dgid: ibv_gid { raw: tgt.gid.0 },
                    sgid_index: self.device.gid().index,
                    hop_limit: 64,
                    ..Default::default()
                },
                dlid: tgt.lid,
                is_global: 1,
                port_num: self.device.port(),
                ..Default::default()
            },
            ..Default::default()
        };
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        self.modify("connect the RC QP", &mut rtr, mask)?;

        let mut rts = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: self.attr.psn,
            timeout: self.attr.timeout,
            retry_cnt: self.attr.retry_cnt,
            rnr_retry: self.attr.rnr_retry,
            max_rd_atomic: tgt.rd_atomic.min(self.device.rd_atomic()),
            ..Default::default()
        };
        let mask = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("make the RC QP ready to send", &mut rts, mask)
    }

    fn modify(&mut self, what: &'static str, attr: &mut ibv_qp_attr, mask: u32) -> Result<()> {
        // SAFETY: Type invariant.
        match unsafe { ibv_modify_qp(self.qp.as_ptr(), attr, mask as i32) } {
            0 => Ok(()),
            errno => Err(Error::returned(what, errno)),
        }
    }

    /// Bytes of its memory, of which there are `attr.memory`. Those that an RDMA READ or an
    /// atomic goes to are to be looked at when it is done only.
    ///
    /// # Panics
    ///
    /// If there are no such bytes.
    pub fn memory(&self, range: Range<usize>) -> &[u8] {
        self.memory.slice(range)
    }

    /// The same, to be written to. What is to be sent must not change before that is done.
    ///
    /// # Panics
    ///
    /// If there are no such bytes.
    pub fn memory_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.memory.slice_mut(range)
    }

    /// Posts a work request. ENOMEM: `attr.max_wr` are outstanding.
    ///
    /// What is longer than the send queue gets on only in [`IniQp::poll`] and
    /// [`IniQp::wait`].
    ///
    /// # Panics
    ///
    /// If its range is not in the memory.
    pub fn post(&mut self, work: &Work) -> Result<()> {
        self.post_scattered(work, &[work.range.clone()], false)
    }

    /// The same from several ranges, and not from the work request's. `inline`: what is in
    /// them may be overwritten at once.
    ///
    /// # Panics
    ///
    /// If one of them is not in the memory.
    pub fn post_scattered(
        &mut self,
        work: &Work,
        ranges: &[Range<usize>],
        inline: bool,
    ) -> Result<()> {
        let sge = |range: &Range<usize>| self.memory.sge(range.clone());
        let mut sges: Vec<_> = ranges.iter().map(sge).collect();
        let mut wr = work.wr();
        wr.sg_list = sges.as_mut_ptr();
        wr.num_sge = sges.len() as i32;
        if inline {
            wr.send_flags |= IBV_SEND_INLINE;
        }
        // SAFETY: The memory stays until the QP is gone.
        Ok(unsafe { self.ini.post(&wr) }?)
    }

    /// Makes it as it was after [`IniQp::create`]. What was outstanding does not complete.
    pub fn reset(&mut self) -> Result<()> {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_RESET,
            ..Default::default()
        };
        self.modify("reset the RC QP", &mut attr, IBV_QP_STATE)?;
        self.ini.reset();
        self.fetch()?;
        self.ready.clear();
        Ok(())
    }

    /// Puts it in error, which flushes what is outstanding.
    pub fn fail(&mut self) -> Result<()> {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_ERR,
            ..Default::default()
        };
        self.modify("put the RC QP in error", &mut attr, IBV_QP_STATE)
    }

    /// Appends the completions that there are.
    pub fn poll(&mut self, done: &mut Vec<ibv_wc>) -> Result<()> {
        self.fetch()?;
        done.extend(self.ready.drain(..));
        Ok(())
    }

    /// Waits until there are completions. `false`: none came in that time.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now() + timeout;
        loop {
            self.fetch()?;
            if self.ready.is_empty() {
                self.arm()?;
                // What came before it was armed gives no event.
                self.fetch()?;
            }
            if !self.ready.is_empty() {
                return Ok(true);
            }
            if !self.wait_for_event(deadline)? {
                return Ok(false);
            }
        }
    }

    /// Takes the completions of the RC QP.
    fn fetch(&mut self) -> Result<()> {
        const WHAT: &str = "poll a CQ";
        let cq = self.cq.as_ptr();
        // SAFETY: Type invariant.
        let poll = unsafe { (*(*cq).context).ops.poll_cq };
        let poll = poll.ok_or_else(|| Error::returned(WHAT, EOPNOTSUPP))?;
        loop {
            let mut wcs = [ibv_wc::default(); 16];
            // SAFETY: A CQ of that context, and as many elements.
            let n = unsafe { poll(cq, wcs.len() as i32, wcs.as_mut_ptr()) };
            let n = usize::try_from(n).map_err(|_| Error::returned(WHAT, n))?;
            if n == 0 {
                return Ok(());
            }
            for wc in &wcs[..n] {
                self.ready.extend(self.ini.completed(wc));
                while let Some(flushed) = self.ini.flushed() {
                    self.ready.push_back(flushed);
                }
            }
        }
    }

    /// The next completion makes the channel readable.
    fn arm(&mut self) -> Result<()> {
        const WHAT: &str = "ask for a completion event";
        let cq = self.cq.as_ptr();
        // SAFETY: Type invariant.
        let notify = unsafe { (*(*cq).context).ops.req_notify_cq };
        let notify = notify.ok_or_else(|| Error::returned(WHAT, EOPNOTSUPP))?;
        // SAFETY: A CQ of that context.
        match unsafe { notify(cq, 0) } {
            0 => Ok(()),
            errno => Err(Error::returned(WHAT, errno)),
        }
    }

    /// Waits for an event and takes it. `false`: there was none until then.
    fn wait_for_event(&mut self, deadline: Instant) -> Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        // SAFETY: Type invariant: the channel is open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.channel.as_ref().fd) };
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => (),
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => {
                let what = "wait for a completion event";
                return Err(Error::returned(what, errno.raw_os_error()));
            }
        }
        let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: Type invariant.
        let got = unsafe { ibv_get_cq_event(self.channel.as_ptr(), &mut cq, &mut context) };
        if got != 0 {
            return Err(Error::last("take a completion event"));
        }
        // SAFETY: Our CQ, whose event it was.
        unsafe { ibv_ack_cq_events(cq, 1) };
        Ok(true)
    }
}

impl Drop for IniQp {
    fn drop(&mut self) {
        // SAFETY: Type invariant, and in the order in which they depend on each other. The
        // memory goes after the QP that uses it.
        unsafe {
            ibv_destroy_qp(self.qp.as_ptr());
            ibv_destroy_cq(self.cq.as_ptr());
            ibv_destroy_comp_channel(self.channel.as_ptr());
        }
    }
}

impl fmt::Debug for IniQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IniQp")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}
