// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An INI QP whose memory is divided into slots, for messages that need no more than
//! that.

use std::{ffi::CStr, fmt, ops::Range, time::Duration};

use ibxrc::verbs::{ibv_wc_status_str, IBV_WC_SUCCESS};

use crate::{Address, Device, Error, IniQp, IniQpAttr, Op, Result, Work};

/// How to create a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderAttr {
    /// Messages that may be on their way at a time: each has a slot of memory.
    pub slots: u32,
    /// Bytes of the longest message.
    pub max_len: u32,
    /// The rest. The memory is what the slots need.
    pub qp: IniQpAttr,
}

impl Default for SenderAttr {
    fn default() -> Self {
        SenderAttr {
            slots: 32,
            max_len: 4096,
            qp: IniQpAttr::default(),
        }
    }
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The slot that it is in: of [`Sender::free_slot`].
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

/// Sends what is in slots of its QP's memory.
pub struct Sender {
    qp: IniQp,
    free: Vec<u32>,
    slots: u32,
    max_len: u32,
}

impl Sender {
    /// Creates it, with a QP in the RESET state.
    pub fn create(device: &Device, attr: SenderAttr) -> Result<Self> {
        let qp = IniQpAttr {
            memory: attr.slots as usize * attr.max_len as usize,
            ..attr.qp
        };
        Ok(Sender {
            qp: IniQp::create(device, qp)?,
            free: (0..attr.slots).rev().collect(),
            slots: attr.slots,
            max_len: attr.max_len,
        })
    }

    /// Its QP's address.
    pub fn address(&self) -> Address {
        self.qp.address()
    }

    /// Connects its QP to a TGT QP.
    pub fn connect(&mut self, tgt: &Address) -> Result<()> {
        self.qp.connect(tgt)
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

    /// The memory of a slot of [`Sender::free_slot`], to write a message to.
    ///
    /// # Panics
    ///
    /// If there is no such slot, or it is not the caller's.
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.free.contains(&slot));
        let range = self.range(slot, self.max_len);
        self.qp.memory_mut(range)
    }

    /// Sends the message in a slot. The slot is free again when that is done.
    pub fn send(&mut self, send: Send) -> Result<()> {
        let op = Op::Send { imm: send.imm };
        self.post(send.slot, send.len, op, send.srq_num, send.solicited)
    }

    /// Writes the start of a slot's contents to memory of the peer, by RDMA. The slot is free
    /// again when that is done.
    pub fn rdma_write(&mut self, slot: u32, len: u32, addr: u64, rkey: u32) -> Result<()> {
        let imm = None;
        self.post(slot, len, Op::Write { addr, rkey, imm }, 0, false)
    }

    /// Waits until everything that was sent is acknowledged.
    pub fn drain(&mut self) -> Result<()> {
        while self.free.len() < self.slots as usize {
            self.wait()?;
        }
        Ok(())
    }

    fn range(&self, slot: u32, len: u32) -> Range<usize> {
        let start = slot as usize * self.max_len as usize;
        start..start + len as usize
    }

    fn post(&mut self, slot: u32, len: u32, op: Op, srq_num: u32, solicited: bool) -> Result<()> {
        if len > self.max_len {
            let message = format!("a message of {len} bytes in a slot of {}", self.max_len);
            return Err(ibxrc::Error::InvalidArgument(message).into());
        }
        self.qp.post(&Work {
            id: slot.into(),
            srq_num,
            op,
            range: self.range(slot, len),
            solicited,
            fence: false,
            signaled: true,
        })
    }

    /// Waits until a slot is free that was not.
    fn wait(&mut self) -> Result<()> {
        while !self.qp.wait(Duration::from_secs(60))? {}
        let mut done = Vec::new();
        self.qp.poll(&mut done)?;
        self.free.extend(done.iter().map(|wc| wc.wr_id as u32));
        match done.iter().find(|wc| wc.status != IBV_WC_SUCCESS) {
            None => Ok(()),
            Some(wc) => Err(Error::Send {
                // SAFETY: It returns a constant string for every status.
                reason: unsafe { CStr::from_ptr(ibv_wc_status_str(wc.status)) }
                    .to_string_lossy()
                    .into_owned(),
                status: wc.status,
            }),
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("qp", &self.qp)
            .finish_non_exhaustive()
    }
}
