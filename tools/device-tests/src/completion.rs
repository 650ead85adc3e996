// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! SRQs, CQs and completion channels.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use ibxrc::{Errno, QpState, Sge, SrqAttr, Wc, WcStatus};

use crate::{
    setup::{anonymous, connected, ensure_errno, send, wait_for_state, Posted, PATIENCE},
    Test,
};

pub const TESTS: &[Test] = &[
    ("limits are held", limits),
    ("what is in use does not close", close_busy),
    ("an SRQ takes as many buffers as it has entries", full),
    ("a message waits for its buffer", waits),
    ("an armed CQ raises one event", events),
    ("an event for solicited messages only", solicited),
    ("a message longer than its buffers", too_long),
    ("a buffer that cannot be written", bad_buffer),
    ("a CQ that runs full", overflow),
];

/// That nothing comes for a while.
const A_WHILE: Duration = Duration::from_millis(200);

fn limits() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_, limits) = context.query()?;
    for entries in [0, limits.max_cqe + 1, u32::MAX] {
        let cq = context.create_cq(entries, None, 0);
        ensure_errno("CQ", cq, Errno::EINVAL)?;
    }
    let cq = context.create_cq(100, None, 0)?;
    ensure!(cq.entries() == 128);
    let attr = SrqAttr {
        max_wr: 100,
        max_sge: 1,
        user_handle: 0,
    };
    for bad in [
        SrqAttr { max_wr: 0, ..attr },
        SrqAttr { max_sge: 0, ..attr },
        SrqAttr {
            max_wr: limits.max_srq_wr + 1,
            ..attr
        },
        SrqAttr {
            max_sge: limits.max_srq_sge + 1,
            ..attr
        },
    ] {
        ensure_errno("SRQ", xrcd.create_srq(&cq, bad), Errno::EINVAL)?;
    }
    let srq = xrcd.create_srq(&cq, attr)?;
    ensure!(srq.entries() == 128 && srq.num() != 0 && srq.num() < 1 << 24);
    let (stranger, _) = anonymous()?;
    let channel = stranger.create_comp_channel()?;
    let cq = context.create_cq(1, Some(&channel), 0);
    ensure_errno("channel of another context", cq, Errno::EINVAL)
}

fn close_busy() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let Posted {
        srq, cq, channel, ..
    } = Posted::create(&context, &xrcd, 4)?;
    let cq = cq.close().err().context("the CQ closed")?;
    ensure!(cq.error.errno() == Errno::EBUSY);
    let channel = channel.close().err().context("the channel closed")?;
    ensure!(channel.error.errno() == Errno::EBUSY);
    srq.close().map_err(ibxrc::Error::from)?;
    cq.object.close()?;
    channel.object.close()?;
    Ok(())
}

fn full() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    for _ in 0..posted.srq.entries() {
        posted.post(64)?;
    }
    ensure_errno("post", posted.post(64), Errno::ENOMEM)?;
    send(&mut ini, posted.srq.num(), b"one", None, false)?;
    posted.expect(b"one")?;
    posted.post(64)?;
    let sge = Sge {
        addr: std::ptr::null_mut(),
        length: 0,
    };
    // SAFETY: No memory at all.
    let result = unsafe { posted.srq.post_recv(0, &[sge; 3]) };
    ensure_errno("too many scatter entries", result, Errno::EINVAL)
}

fn waits() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let slow = Posted::create(&context, &xrcd, 8)?;
    let other = Posted::create(&context, &xrcd, 8)?;
    for i in 0..3u8 {
        send(&mut ini, slow.srq.num(), &[i; 100], Some(i.into()), false)?;
    }
    other.post(64)?;
    send(&mut ini, other.srq.num(), b"overtakes", None, false)?;
    other.expect(b"overtakes")?;
    ini.drain()?;
    ensure!(slow.cq.poll(&mut [Wc::default()])? == 0);
    for i in 0..3u8 {
        slow.post(100)?;
        let wc = slow.expect(&[i; 100])?;
        ensure!(wc.imm == Some(i.into()));
    }
    Ok(())
}

fn events() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 8)?;
    for _ in 0..4 {
        posted.post(64)?;
    }
    let number = posted.srq.num();
    send(&mut ini, number, b"not armed", None, false)?;
    posted.expect(b"not armed")?;
    ensure!(posted.channel.wait_timeout(A_WHILE)?.is_none());

    ensure!(!posted.cq.arm(false), "it is empty");
    send(&mut ini, number, b"first", None, false)?;
    let event = posted.channel.wait_timeout(PATIENCE)?.context("no event")?;
    ensure!(event.user_handle == 0xc0ffee);
    send(&mut ini, number, b"second", None, false)?;
    ini.drain()?;
    posted.expect(b"first")?;
    posted.expect(b"second")?;
    ensure!(
        posted.channel.wait_timeout(A_WHILE)?.is_none(),
        "one event only"
    );

    send(&mut ini, number, b"third", None, false)?;
    ini.drain()?;
    // It is there, or comes as an event.
    if !posted.cq.arm(false) {
        posted.channel.wait()?;
    }
    posted.expect(b"third")?;
    Ok(())
}

fn solicited() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 8)?;
    for _ in 0..4 {
        posted.post(64)?;
    }
    let number = posted.srq.num();
    ensure!(!posted.cq.arm(true));
    send(&mut ini, number, b"quiet", None, false)?;
    let wc = posted.expect(b"quiet")?;
    ensure!(!wc.solicited);
    ensure!(posted.channel.wait_timeout(A_WHILE)?.is_none());
    send(&mut ini, number, b"loud", Some(7), true)?;
    ensure!(posted.channel.wait_timeout(PATIENCE)?.is_some(), "no event");
    let wc = posted.expect(b"loud")?;
    ensure!(wc.solicited && wc.imm == Some(7) && wc.srq_user_handle == 0xbeef);
    Ok(())
}

fn too_long() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    posted.post(64)?;
    send(&mut ini, posted.srq.num(), &[1; 65], None, false)?;
    let wc = posted.completion()?;
    ensure!(wc.status == WcStatus::LOC_LEN_ERR, "{wc:?}");
    wait_for_state(&tgt, QpState::Err)?;
    ensure!(tgt.query()?.1.refused_msgs == 1);
    Ok(())
}

fn bad_buffer() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let sge = Sge {
        addr: std::ptr::null_mut::<u8>().wrapping_add(64),
        length: 64,
    };
    // SAFETY: There is no memory, which the kernel finds out.
    unsafe { posted.srq.post_recv(5, &[sge])? };
    send(&mut ini, posted.srq.num(), &[1; 10], None, false)?;
    let wc = posted.completion()?;
    ensure!(
        wc.status == WcStatus::LOC_PROT_ERR && wc.wr_id == 5,
        "{wc:?}"
    );
    wait_for_state(&tgt, QpState::Err)
}

fn overflow() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let cq = context.create_cq(2, None, 0)?;
    let attr = SrqAttr {
        max_wr: 4,
        max_sge: 1,
        user_handle: 0,
    };
    let srq = xrcd.create_srq(&cq, attr)?;
    for wr_id in 0..4 {
        // SAFETY: No memory at all.
        unsafe { srq.post_recv(wr_id, &[])? };
    }
    for _ in 0..3 {
        send(&mut ini, srq.num(), b"", None, false)?;
    }
    // Whether the last one is acknowledged before the QP is in error is open.
    let _ = ini.drain();
    crate::setup::wait_for("an SRQ in error", || {
        // SAFETY: No memory at all.
        match unsafe { srq.post_recv(9, &[]) } {
            Err(e) if e.errno() == Errno::EIO => Ok(Some(())),
            _ => Ok(None),
        }
    })?;
    let mut wcs = [Wc::default(); 4];
    ensure!(cq.poll(&mut wcs)? == 2, "what was not lost comes first");
    ensure_errno("poll", cq.poll(&mut wcs), Errno::EOVERFLOW)
}
