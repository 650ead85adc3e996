// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory of a domain.

use anyhow::{ensure, Result};
use ibxrc::{
    verbs::IBV_ACCESS_REMOTE_WRITE, DomainPolicy, Errno, EventKind, Mr, MrAccess, MrAttr, QpAttr,
    QpError, ReportTo, TgtQp, TgtQpOptions, Xrcd,
};
use ibxrc_ini::{Address, Device, Sender, SenderAttr};

use crate::{
    setup::{anonymous, anonymous_with, device, ensure_errno, expect_event, tgt_attr},
    Test,
};

pub const TESTS: &[Test] = &[
    ("a sender writes to memory of a domain", written),
    ("a sender is told what it may not", refused),
    ("memory counts in its domain", counted),
    ("a domain is not closed while it has memory", busy),
];

pub const PAGE: usize = 4096;

/// Memory for senders: it is touched through the pointer only.
pub struct Memory(*mut u8);

impl Memory {
    /// Zeroes.
    pub fn new(pages: usize) -> Result<Self> {
        let layout = std::alloc::Layout::from_size_align(pages * PAGE, PAGE)?;
        // SAFETY: It is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        ensure!(!start.is_null(), "no memory");
        // Never freed: a test does not have much of it.
        Ok(Memory(start))
    }

    /// Where it starts, for senders.
    pub fn addr(&self) -> u64 {
        self.0 as u64
    }

    /// What is there. It must be inside of the memory.
    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        (at..at + len)
            // SAFETY: The callers stay inside of the memory.
            .map(|i| unsafe { self.0.add(i).read_volatile() })
            .collect()
    }

    /// Registers so many pages of it.
    pub fn reg(&self, xrcd: &Xrcd, pages: usize, access: MrAccess) -> ibxrc::Result<Mr> {
        let attr = MrAttr {
            addr: self.0,
            length: pages * PAGE,
            iova: None,
            access,
        };
        // SAFETY: There are no references to the memory.
        unsafe { xrcd.reg_mr(attr) }
    }
}

/// A TGT QP that takes RDMA WRITEs, and who sends them.
fn connected(xrcd: &Xrcd, options: TgtQpOptions<'_>) -> Result<(TgtQp, Sender)> {
    let tgt = xrcd.create_tgt_qp_with(options)?;
    let device = Device::open(&device(), 1)?;
    let mut ini = Sender::create(&device, SenderAttr::default())?;
    tgt.connect(&QpAttr {
        access_flags: Some(IBV_ACCESS_REMOTE_WRITE),
        ..tgt_attr(&device, &ini)
    })?;
    ini.connect(&Address {
        qp_num: tgt.qp_num(),
        psn: 0,
        ..ini.address()
    })?;
    Ok((tgt, ini))
}

fn write(ini: &mut Sender, contents: &[u8], addr: u64, mr: &Mr) -> Result<()> {
    let slot = ini.free_slot()?;
    ini.buffer(slot)[..contents.len()].copy_from_slice(contents);
    ini.rdma_write(slot, contents.len() as u32, addr, mr.rkey())?;
    Ok(ini.drain()?)
}

fn written() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd, TgtQpOptions::default())?;
    let memory = Memory::new(2)?;
    let mr = memory.reg(&xrcd, 2, MrAccess::ALL)?;
    let at = PAGE - 3;
    write(&mut ini, b"across", memory.addr() + at as u64, &mr)?;
    ensure!(memory.read(at - 1, 8) == b"\0across\0");

    let attr = MrAttr {
        addr: memory.0,
        length: PAGE,
        iova: Some(0x7000_0000),
        access: MrAccess::ALL,
    };
    // SAFETY: There are no references to the memory.
    let other = unsafe { xrcd.reg_mr(attr)? };
    write(&mut ini, b"by another name", 0x7000_0100, &other)?;
    ensure!(memory.read(0x100, 15) == b"by another name");
    // SAFETY: As above.
    let bad = unsafe {
        xrcd.reg_mr(MrAttr {
            iova: Some(1),
            ..attr
        })
    };
    ensure_errno("another offset in the page", bad, Errno::EINVAL)?;
    mr.close()?;
    other.close()?;
    Ok(())
}

fn refused() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let events = context.create_event_file(None)?;
    let options = TgtQpOptions {
        events: Some(ReportTo {
            file: &events,
            user_handle: 3,
        }),
    };
    let (tgt, mut ini) = connected(&xrcd, options)?;
    let memory = Memory::new(1)?;
    let read_only = MrAccess {
        remote_read: true,
        ..Default::default()
    };
    let mr = memory.reg(&xrcd, 1, read_only)?;
    let result = write(&mut ini, b"never", memory.addr(), &mr);
    ensure!(result.is_err(), "it was written");
    let qp_num = tgt.qp_num();
    let error = QpError::ACCESS_ERR;
    expect_event(&events, 3, EventKind::TgtQpError { qp_num, error })?;
    ensure!(memory.read(0, 5) == [0; 5]);
    Ok(())
}

fn counted() -> Result<()> {
    let bytes = || -> Result<_> {
        let (_context, xrcd) = anonymous_with(DomainPolicy {
            max_bytes: 2 * PAGE as u64,
            ..Default::default()
        })?;
        let memory = Memory::new(3)?;
        let three = memory.reg(&xrcd, 3, MrAccess::ALL);
        ensure_errno("three pages", three, Errno::EDQUOT)?;
        let _mr = memory.reg(&xrcd, 2, MrAccess::ALL)?;
        Ok(xrcd.query()?.bytes)
    };
    ensure!(bytes()? == 2 * PAGE as u64);
    Ok(())
}

fn busy() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let memory = Memory::new(1)?;
    let mr = memory.reg(&xrcd, 1, MrAccess::ALL)?;
    let error = xrcd.close().expect_err("it has an MR");
    ensure!(error.error.errno() == Errno::EBUSY, "{}", error.error);
    mr.close()?;
    error.object.close()?;
    Ok(())
}
