// SPDX-License-Identifier: GPL-2.0

//! A sender that keeps to no format: a plain RC QP of libibverbs.

use std::{mem::ManuallyDrop, ptr::NonNull};

use anyhow::{Context, Result};
use ibxrc::{uapi::ib_uverbs_qp_attr, verbs::*};
use ibxrc_ini::{Address, Device, IniQp, IniQpAttr};

/// Has libibverbs load its drivers, for processes that are forked from now on: that takes
/// much longer than all that they do with it.
pub fn prepare() {
    // SAFETY: It may be called at any time, and what it returned be freed.
    unsafe {
        let list = ibv_get_device_list(std::ptr::null_mut());
        if !list.is_null() {
            ibv_free_device_list(list);
        }
    }
}

/// Bytes that it sends from and reads into.
const MEMORY: usize = 16384;
const DEPTH: u32 = 64;

/// # Invariants
///
/// `mr` is of libibverbs, for `memory`.
pub struct Peer {
    device: Device,
    ini: ManuallyDrop<IniQp>,
    mr: NonNull<ibv_mr>,
    memory: Box<[u8]>,
    /// Work requests that have not completed.
    outstanding: u32,
    connected: bool,
}

// SAFETY: It owns everything, and libibverbs is thread-safe.
unsafe impl Send for Peer {}

impl Peer {
    pub fn open(device: &str) -> Result<Self> {
        let device = Device::open(device, 1)?;
        let attr = IniQpAttr {
            depth: DEPTH,
            memory: 64,
            timeout: 14,
            retry_cnt: 2,
            // What is sent over and over takes the time of everybody.
            rnr_retry: 5,
            ..Default::default()
        };
        let ini = IniQp::create(&device, attr)?;
        let mut memory = vec![0x5a; MEMORY].into_boxed_slice();
        // SAFETY: The QP has a PD, and the memory stays until the MR is gone.
        let mr = unsafe {
            ibv_reg_mr(
                (*ini.as_ptr()).pd,
                memory.as_mut_ptr().cast(),
                MEMORY,
                IBV_ACCESS_LOCAL_WRITE as i32,
            )
        };
        // INVARIANT: Just registered.
        Ok(Peer {
            device,
            ini: ManuallyDrop::new(ini),
            mr: NonNull::new(mr).context("cannot register memory")?,
            memory,
            outstanding: 0,
            connected: false,
        })
    }

    /// How a TGT QP is connected with it.
    pub fn tgt_attr(&self) -> ib_uverbs_qp_attr {
        let device = &self.device;
        let mut attr = self
            .ini
            .address()
            .tgt_attr(device.port(), device.gid().index, device.mtu());
        attr.access_flags =
            Some(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
        // 20 ms
        attr.min_rnr_timer = Some(22);
        attr.to_raw()
    }

    /// As new.
    pub fn reset(&mut self) -> Result<()> {
        self.connected = false;
        self.poll();
        self.outstanding = 0;
        Ok(self.ini.reset()?)
    }

    /// Connects it with the TGT QP of this number on the same device.
    pub fn connect(&mut self, qp_num: u32) -> Result<()> {
        let address = Address {
            qp_num,
            ..self.ini.address()
        };
        self.ini.connect(&address)?;
        self.connected = true;
        Ok(())
    }

    /// Takes completions. One in error ends the connection.
    fn poll(&mut self) {
        let mut wcs = [ibv_wc::default(); 16];
        loop {
            // SAFETY: The QP and its CQ are those of the device.
            let n = unsafe {
                let cq = (*self.ini.as_ptr()).send_cq;
                match (*(*cq).context).ops.poll_cq {
                    Some(poll) => poll(cq, wcs.len() as i32, wcs.as_mut_ptr()),
                    None => 0,
                }
            };
            let done = &wcs[..usize::try_from(n).unwrap_or(0)];
            self.outstanding = self.outstanding.saturating_sub(done.len() as u32);
            if done.iter().any(|wc| wc.status != IBV_WC_SUCCESS) {
                self.connected = false;
            }
            if done.len() < wcs.len() {
                return;
            }
        }
    }

    /// Posts a work request from `len` bytes of its memory, if there is room.
    pub fn post(&mut self, mut wr: ibv_send_wr, len: u32) -> bool {
        self.poll();
        if !self.connected || self.outstanding >= DEPTH {
            return false;
        }
        let mut sge = ibv_sge {
            addr: self.memory.as_ptr() as u64,
            length: len.min(MEMORY as u32),
            // SAFETY: Type invariant.
            lkey: unsafe { self.mr.as_ref() }.lkey,
        };
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        wr.send_flags |= IBV_SEND_SIGNALED;
        let mut bad = std::ptr::null_mut();
        let qp = self.ini.as_ptr();
        // SAFETY: The QP is the device's, and its memory stays until it is gone.
        let errno = unsafe {
            match (*(*qp).context).ops.post_send {
                Some(post) => post(qp, &mut wr, &mut bad),
                None => libc::EOPNOTSUPP,
            }
        };
        if errno != 0 {
            return false;
        }
        self.outstanding += 1;
        true
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: It is dropped here only. Then nothing uses the MR, whose PD is the
        // device's, and after that the memory.
        unsafe {
            ManuallyDrop::drop(&mut self.ini);
            ibv_dereg_mr(self.mr.as_ptr());
        }
    }
}
