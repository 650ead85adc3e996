// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What tests of INI QPs begin with.

use std::{ops::Range, time::Duration};

use anyhow::{bail, ensure, Result};
use ibxrc::{
    verbs::{
        ibv_wc, ibv_wc_opcode, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_REMOTE_WRITE, IBV_WC_SUCCESS,
    },
    Errno, QpAttr, TgtQp, Xrcd,
};
use ibxrc_ini::{Address, Device, IniQp, IniQpAttr, Op, Work};

use crate::setup::{device, ensure_errno, PATIENCE};

/// That nothing comes for a while.
const A_WHILE: Duration = Duration::from_millis(100);

/// A TGT QP that takes everything, and an INI QP that is connected to it.
pub fn connected(xrcd: &Xrcd, attr: IniQpAttr) -> Result<(TgtQp, IniQp)> {
    let mut ini = IniQp::create(&Device::open(&device(), 1)?, attr)?;
    let tgt = connect(xrcd, &mut ini)?;
    Ok((tgt, ini))
}

/// Connects an INI QP in the RESET state to a new TGT QP.
pub fn connect(xrcd: &Xrcd, ini: &mut IniQp) -> Result<TgtQp> {
    let tgt = xrcd.create_tgt_qp()?;
    let device = Device::open(&device(), 1)?;
    let address = ini.address();
    tgt.connect(&QpAttr {
        access_flags: Some(
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        ),
        ..address.tgt_attr(device.port(), device.gid().index, device.mtu())
    })?;
    ini.connect(&Address {
        qp_num: tgt.qp_num(),
        psn: 0,
        ..address
    })?;
    Ok(tgt)
}

/// Bytes that differ from those near to them, and from those of another seed.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b1) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            (state >> 24) as u8
        })
        .collect()
}

/// A signaled work request.
pub fn work(id: u64, srq_num: u32, op: Op, range: Range<usize>) -> Work {
    Work {
        id,
        srq_num,
        op,
        range,
        solicited: false,
        fence: false,
        signaled: true,
    }
}

/// A SEND without immediate.
pub fn message(id: u64, srq_num: u32, range: Range<usize>) -> Work {
    work(id, srq_num, Op::Send { imm: None }, range)
}

/// That a work request was refused with an errno.
pub fn ensure_refused(what: &str, result: ibxrc_ini::Result<()>, errno: Errno) -> Result<()> {
    match result {
        Err(ibxrc_ini::Error::Xrc(error)) => ensure_errno::<()>(what, Err(error), errno),
        result => bail!("{what}: {result:?}"),
    }
}

/// Waits for so many completions. There must not be more.
pub fn completions(ini: &mut IniQp, n: usize) -> Result<Vec<ibv_wc>> {
    let mut done = Vec::new();
    while done.len() < n {
        ensure!(
            ini.wait(PATIENCE)?,
            "{} completions instead of {n}",
            done.len()
        );
        ini.poll(&mut done)?;
    }
    ensure_idle(ini)?;
    ensure!(done.len() == n, "{} completions, not {n}", done.len());
    Ok(done)
}

/// That no completion comes.
pub fn ensure_idle(ini: &mut IniQp) -> Result<()> {
    ensure!(!ini.wait(A_WHILE)?, "a completion too many");
    Ok(())
}

/// Waits for the completion of what succeeded, the only one.
pub fn expect_done(ini: &mut IniQp, id: u64, opcode: ibv_wc_opcode, len: usize) -> Result<()> {
    let wc = completions(ini, 1)?[0];
    ensure!(
        wc.status == IBV_WC_SUCCESS
            && (wc.wr_id, wc.opcode, wc.byte_len) == (id, opcode, len as u32)
            && wc.qp_num == ini.address().qp_num,
        "a wrong completion: status {}, id {}, opcode {}, {} bytes",
        wc.status,
        wc.wr_id,
        wc.opcode,
        wc.byte_len
    );
    Ok(())
}
