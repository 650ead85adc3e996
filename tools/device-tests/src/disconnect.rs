// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Connecting in a time, and disconnecting.

use std::{thread, time::Duration};

use anyhow::{anyhow, ensure, Context as _, Result};
use ibxrc::{Context, Errno, Error, QpAttr, QpState};
use ibxrc_ini::{Device, Sender, SenderAttr};

use crate::{
    setup::{anonymous, connected, device, ensure_errno, named, send, tgt_attr, Posted, PATIENCE},
    Test,
};

pub const TESTS: &[Test] = &[
    ("a TGT QP is connected in a time", connect),
    ("a disconnected TGT QP is in error", idle),
    (
        "messages that find no buffer are dropped and counted",
        flushed,
    ),
    ("messages that find one are delivered", delivered),
    ("any process of the domain may disconnect", by_number),
    (
        "disconnecting gives the registration back, if asked",
        release,
    ),
];

fn connect() -> Result<()> {
    let file = tempfile::tempfile()?;
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let (mine, other) = (named(&one, &file)?, named(&two, &file)?);
    let device = Device::open(&device(), 1)?;
    let ini = Sender::create(&device, SenderAttr::default())?;
    let attr = tgt_attr(&device, &ini);
    let tgt = mine.create_tgt_qp()?;
    let error = tgt.connect_timeout(&attr, Duration::ZERO).err();
    let expected = Error::Connect {
        state: Some(QpState::Reset),
        errno: Errno::ETIMEDOUT,
    };
    ensure!(error == Some(expected), "in no time: {error:?}");
    ensure!(tgt.connect_timeout(&attr, PATIENCE)? == QpState::Rtr);
    let again = tgt.connect_timeout(&attr, PATIENCE);
    ensure_errno("connect again", again, Errno::EINVAL)?;

    let tgt = mine.create_tgt_qp()?;
    let qp_num = tgt.qp_num();
    ensure!(other.connect_tgt_qp_timeout(qp_num, &attr, PATIENCE)? == QpState::Rtr);
    ensure!(tgt.query()?.1.state == QpState::Rtr);
    let none = other.connect_tgt_qp_timeout(0, &attr, PATIENCE);
    ensure_errno("a number that there is not", none, Errno::EINVAL)
}

fn idle() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let (tgt, _ini) = connected(&xrcd)?;
    for _ in 0..2 {
        let info = tgt.disconnect(PATIENCE)?;
        ensure!(
            info.delivered_msgs == 0 && info.flushed_msgs == 0,
            "{info:?}"
        );
        ensure!(tgt.query()?.1.state == QpState::Err);
    }
    let fresh = xrcd.create_tgt_qp()?;
    ensure_errno("RESET", fresh.disconnect(Duration::ZERO), Errno::EINVAL)?;
    ensure!(fresh.query()?.1.state == QpState::Reset);
    fresh.modify(&QpAttr {
        state: Some(QpState::Init),
        port: Some(1),
        pkey_index: Some(0),
        access_flags: Some(0),
        ..Default::default()
    })?;
    let info = fresh.disconnect(Duration::ZERO)?;
    ensure!(
        info.delivered_msgs == 0 && info.flushed_msgs == 0,
        "{info:?}"
    );
    ensure!(fresh.query()?.1.state == QpState::Err);
    Ok(())
}

fn flushed() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 8)?;
    for i in 0..3u8 {
        send(&mut ini, posted.srq.num(), &[i; 10], None, false)?;
    }
    ini.drain()?;
    let info = tgt.disconnect(Duration::from_millis(100))?;
    ensure!(
        info.delivered_msgs == 0 && info.flushed_msgs == 3,
        "{info:?}"
    );
    ensure!(xrcd.srqs()?[0].waiting_msgs == 0);
    // What is dropped does not come.
    posted.post(64)?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    send(&mut ini, posted.srq.num(), b"after it", None, false)?;
    posted.expect(b"after it")?;
    Ok(())
}

fn delivered() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 8)?;
    for i in 0..3u8 {
        send(&mut ini, posted.srq.num(), &[i; 10], None, false)?;
    }
    ini.drain()?;
    thread::scope(|scope| {
        let disconnect = scope.spawn(|| tgt.disconnect(PATIENCE));
        thread::sleep(Duration::from_millis(100));
        let waits = !disconnect.is_finished();
        for _ in 0..3 {
            posted.post(64)?;
        }
        let info = disconnect
            .join()
            .map_err(|_| anyhow!("a thread panicked"))??;
        ensure!(waits, "it did not wait: {info:?}");
        ensure!(
            info.delivered_msgs == 3 && info.flushed_msgs == 0,
            "{info:?}"
        );
        Ok(())
    })?;
    for i in 0..3u8 {
        let wc = posted.completion_once()?.context("a message is missing")?;
        ensure!(wc.status.is_success() && wc.wr_id == u64::from(i), "{wc:?}");
    }
    Ok(())
}

fn by_number() -> Result<()> {
    let file = tempfile::tempfile()?;
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let (mine, other) = (named(&one, &file)?, named(&two, &file)?);
    let (tgt, mut ini) = connected(&mine)?;
    let posted = Posted::create(&one, &mine, 4)?;
    send(&mut ini, posted.srq.num(), b"waits", None, false)?;
    ini.drain()?;
    let info = other.disconnect_tgt_qp(tgt.qp_num(), Duration::ZERO)?;
    ensure!(
        info.delivered_msgs == 0 && info.flushed_msgs == 1,
        "{info:?}"
    );
    let (_, info) = tgt.query()?;
    ensure!(info.state == QpState::Err && info.refs == 1);
    let (_, stranger) = anonymous()?;
    let disconnected = stranger.disconnect_tgt_qp(tgt.qp_num(), Duration::ZERO);
    ensure_errno("another domain", disconnected, Errno::EINVAL)
}

fn release() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let opened = xrcd.open_tgt_qp(tgt.qp_num())?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    send(&mut ini, posted.srq.num(), b"waits", None, false)?;
    ini.drain()?;
    let info = tgt.disconnect_and_close(Duration::ZERO)?;
    ensure!(info.flushed_msgs == 1, "{info:?}");
    let (_, info) = opened.query()?;
    ensure!(info.refs == 1 && info.state == QpState::Err);
    // A new registration may have the handle of the one that was given back.
    let again = xrcd.open_tgt_qp(opened.qp_num())?;
    opened.disconnect_and_close(Duration::ZERO)?;
    ensure!(again.query()?.1.refs == 1);
    again.disconnect_and_close(Duration::ZERO)?;
    ensure!(xrcd.tgt_qps()?.is_empty());
    Ok(())
}
