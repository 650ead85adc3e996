// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An RC QP that sends to TGT QPs.

use std::{ffi::CStr, fmt, ptr::NonNull};

use ibxrc::{post_send, verbs::*, wire::HEADER_LEN};

use crate::{address::Address, device::Device, Error, Result};

/// How to create an [`IniQp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IniQpAttr {
    /// Messages that may be on their way at a time: each has a slot of memory.
    pub slots: u32,
    /// Bytes of the longest message.
    pub max_len: u32,
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
            slots: 32,
            max_len: 4096,
            psn: 0,
            // 268 ms, 7 times: an emulated machine can be slow to answer, but a TGT QP that
            // is gone must be noticed.
            timeout: 16,
            retry_cnt: 6,
            rnr_retry: 7,
        }
    }
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The slot that it is in: of [`IniQp::free_slot`].
    pub slot: u32,
    /// Its length in bytes.
    pub len: u32,
    /// The SRQ to send it to.
    pub srq_num: u32,
    /// Immediate data, in host byte order, if it is to have any.
    pub imm: Option<u32>,
    /// Ask for a solicited event.
    pub solicited: bool,
}

/// Registered memory: slots of a header and a message each.
///
/// # Invariants
///
/// `base` is a boxed slice of `slots * slot_len` bytes, registered as `mr`.
struct Memory {
    base: NonNull<u8>,
    mr: NonNull<ibv_mr>,
    slots: usize,
    slot_len: usize,
}

impl Memory {
    fn new(device: &Device, attr: &IniQpAttr) -> Result<Self> {
        let slots = attr.slots as usize;
        let slot_len = HEADER_LEN + attr.max_len as usize;
        let memory = vec![0u8; slots * slot_len].into_boxed_slice();
        let len = memory.len();
        let base: NonNull<u8> = NonNull::from(Box::leak(memory)).cast();
        // SAFETY: The memory stays until the registration is gone.
        let mr = unsafe {
            ibv_reg_mr(
                device.0.pd.as_ptr(),
                base.as_ptr().cast(),
                len,
                IBV_ACCESS_LOCAL_WRITE as i32,
            )
        };
        let Some(mr) = NonNull::new(mr) else {
            let error = Error::last("register memory");
            // SAFETY: Leaked above.
            drop(unsafe { Box::from_raw(slice_of(base, len)) });
            return Err(error);
        };
        // INVARIANT: Just registered.
        Ok(Memory {
            base,
            mr,
            slots,
            slot_len,
        })
    }

    /// Where a slot is: its header is followed by the message.
    fn slot(&self, slot: u32) -> *mut u8 {
        let slot = slot as usize;
        assert!(slot < self.slots, "there is no slot {slot}");
        // SAFETY: Inside of the memory.
        unsafe { self.base.as_ptr().add(slot * self.slot_len) }
    }
}

fn slice_of(base: NonNull<u8>, len: usize) -> *mut [u8] {
    std::ptr::slice_from_raw_parts_mut(base.as_ptr(), len)
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: Type invariant. What cannot be deregistered must not be freed.
        unsafe {
            if ibv_dereg_mr(self.mr.as_ptr()) == 0 {
                drop(Box::from_raw(slice_of(
                    self.base,
                    self.slots * self.slot_len,
                )));
            }
        }
    }
}

/// An RC QP with memory to send from.
///
/// # Invariants
///
/// The pointers are of libibverbs. Slots in `free` are not posted.
pub struct IniQp {
    qp: NonNull<ibv_qp>,
    cq: NonNull<ibv_cq>,
    channel: NonNull<ibv_comp_channel>,
    memory: Memory,
    free: Vec<u32>,
    attr: IniQpAttr,
    device: Device,
}

// SAFETY: It owns everything, and libibverbs is thread-safe.
unsafe impl std::marker::Send for IniQp {}

impl IniQp {
    /// Creates it, in the RESET state.
    pub fn create(device: &Device, attr: IniQpAttr) -> Result<Self> {
        let context = device.0.context.as_ptr();
        let memory = Memory::new(device, &attr)?;
        // SAFETY: An open context.
        let channel = NonNull::new(unsafe { ibv_create_comp_channel(context) })
            .ok_or_else(|| Error::last("create a completion channel"))?;
        // SAFETY: An open context and a channel of it.
        let cq = NonNull::new(unsafe {
            ibv_create_cq(
                context,
                attr.slots as i32,
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
                max_send_wr: attr.slots,
                max_send_sge: 1,
                ..Default::default()
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 1,
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
        // INVARIANT: Just created, and nothing is posted.
        Ok(IniQp {
            qp,
            cq,
            channel,
            memory,
            free: (0..attr.slots).rev().collect(),
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
            max_rd_atomic: 1,
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

    /// A slot that is not on its way, waiting for one if need be.
    ///
    /// A message that could not be sent is an error here.
    pub fn free_slot(&mut self) -> Result<u32> {
        loop {
            if let Some(slot) = self.free.pop() {
                return Ok(slot);
            }
            self.wait()?;
        }
    }

    /// The memory of a slot of [`IniQp::free_slot`], to write a message to.
    ///
    /// # Panics
    ///
    /// If there is no such slot, or it is not the caller's.
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.free.contains(&slot));
        let len = self.memory.slot_len - HEADER_LEN;
        // SAFETY: Inside of the slot, after its header. Whoever got the slot from
        // `free_slot` has not sent it yet, or overwrites what is on its way: the device only
        // reads it.
        unsafe { std::slice::from_raw_parts_mut(self.memory.slot(slot).add(HEADER_LEN), len) }
    }

    /// Sends the message in a slot. The slot is free again when that is done.
    pub fn send(&mut self, send: Send) -> Result<()> {
        if send.len as usize > self.memory.slot_len - HEADER_LEN {
            return Err(ibxrc::Error::InvalidArgument(format!(
                "a message of {} bytes in a slot of {}",
                send.len, self.attr.max_len
            ))
            .into());
        }
        let start = self.memory.slot(send.slot) as u64;
        let header = HEADER_LEN as u32;
        let mut sge = ibv_sge {
            addr: start,
            length: send.len + header,
            // SAFETY: Type invariant.
            lkey: unsafe { self.memory.mr.as_ref() }.lkey,
        };
        let mut wr = ibv_send_wr {
            wr_id: send.slot.into(),
            sg_list: &mut sge,
            num_sge: 1,
            opcode: IBV_WR_SEND_WITH_IMM,
            send_flags: IBV_SEND_SIGNALED,
            ..Default::default()
        };
        match send.imm {
            Some(imm) => wr.__bindgen_anon_1.imm_data = imm.to_be(),
            // Without a header the message starts behind the room for it.
            None => {
                wr.opcode = IBV_WR_SEND;
                sge.addr += u64::from(header);
                sge.length -= header;
            }
        }
        if send.solicited {
            wr.send_flags |= IBV_SEND_SOLICITED;
        }
        wr.qp_type.xrc.remote_srqn = send.srq_num;
        // SAFETY: A QP, and memory that stays until the slot is free again.
        Ok(unsafe { post_send(self.qp.as_ptr(), &wr) }?)
    }

    /// Writes the start of a slot's contents to memory of the peer, by RDMA. The slot is free
    /// again when that is done.
    pub fn rdma_write(&mut self, slot: u32, len: u32, addr: u64, rkey: u32) -> Result<()> {
        let mut sge = ibv_sge {
            addr: self.buffer(slot)[..len as usize].as_ptr() as u64,
            length: len,
            // SAFETY: Type invariant.
            lkey: unsafe { self.memory.mr.as_ref() }.lkey,
        };
        let mut wr = ibv_send_wr {
            wr_id: slot.into(),
            sg_list: &mut sge,
            num_sge: 1,
            opcode: IBV_WR_RDMA_WRITE,
            send_flags: IBV_SEND_SIGNALED,
            ..Default::default()
        };
        wr.wr.rdma.remote_addr = addr;
        wr.wr.rdma.rkey = rkey;
        // SAFETY: A QP, and memory that stays until the slot is free again.
        Ok(unsafe { post_send(self.qp.as_ptr(), &wr) }?)
    }

    /// Waits until everything that was sent is acknowledged.
    pub fn drain(&mut self) -> Result<()> {
        while self.free.len() < self.memory.slots {
            self.wait()?;
        }
        Ok(())
    }

    /// Waits until a slot is free that was not.
    fn wait(&mut self) -> Result<()> {
        if self.poll()? > 0 {
            return Ok(());
        }
        let cq = self.cq.as_ptr();
        let what = "ask for a completion event";
        // SAFETY: Type invariant.
        let notify = unsafe { (*(*cq).context).ops.req_notify_cq };
        let Some(notify) = notify else {
            return Err(Error::returned(what, 95));
        };
        // SAFETY: A CQ of that context.
        let errno = unsafe { notify(cq, 0) };
        if errno != 0 {
            return Err(Error::returned(what, errno));
        }
        while self.poll()? == 0 {
            let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: Type invariant. It waits.
            let got = unsafe { ibv_get_cq_event(self.channel.as_ptr(), &mut cq, &mut context) };
            if got != 0 {
                return Err(Error::last("wait for a completion event"));
            }
            // SAFETY: Our CQ, whose event it was.
            unsafe {
                ibv_ack_cq_events(cq, 1);
                notify(cq, 0);
            }
        }
        Ok(())
    }

    /// Takes completions. Returns how many there were.
    fn poll(&mut self) -> Result<usize> {
        let cq = self.cq.as_ptr();
        let mut wcs = [ibv_wc::default(); 16];
        // SAFETY: Type invariant.
        let poll = unsafe { (*(*cq).context).ops.poll_cq };
        let what = "poll a CQ";
        let poll = poll.ok_or_else(|| Error::returned(what, 95))?;
        // SAFETY: A CQ of that context, and as many elements.
        let n = unsafe { poll(cq, wcs.len() as i32, wcs.as_mut_ptr()) };
        let n = usize::try_from(n).map_err(|_| Error::returned(what, n))?;
        let mut failed = None;
        for wc in &wcs[..n] {
            self.free.push(wc.wr_id as u32);
            if wc.status != IBV_WC_SUCCESS && failed.is_none() {
                failed = Some(wc.status);
            }
        }
        match failed {
            None => Ok(n),
            Some(status) => Err(Error::Send {
                // SAFETY: It returns a constant string for every status.
                reason: unsafe { CStr::from_ptr(ibv_wc_status_str(status)) }
                    .to_string_lossy()
                    .into_owned(),
                status,
            }),
        }
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
