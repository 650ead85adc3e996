// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! When TGT QPs die by other policies than the default.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use ibxrc::{
    Context, DomainFlags, DomainPolicy, Errno, EventFile, EventKind, Policy, QpAttr, QpState,
    ReclaimReason, ReportTo, TgtQpOptions, Xrcd, XrcdOptions,
};

use crate::{
    setup::{
        connect, connected, device, ensure_errno, expect_event, send, send_refused, Posted,
        PATIENCE,
    },
    Test,
};

pub const TESTS: &[Test] = &[
    ("a TGT QP stays as long as its domain", stays),
    ("it goes when it was alone for long enough", lingers),
    ("it goes with an error when nobody holds it", error),
    ("an error takes it from those who hold it", referenced),
    ("it goes with the last SRQ when nobody holds it", last_srq),
];

const DOMAIN: DomainPolicy = DomainPolicy {
    policy: Policy::Domain,
    flags: DomainFlags::NONE,
    linger: Duration::ZERO,
    max_tgt_qps: 0,
    max_srqs: 0,
    max_bytes: 0,
};

/// A domain with a policy, and its events.
fn reporting(policy: DomainPolicy) -> Result<(Context, EventFile, Xrcd)> {
    let context = Context::open(&device())?;
    let events = context.create_event_file(None)?;
    let xrcd = context.open_xrcd(XrcdOptions {
        policy: Some(policy),
        events: Some(ReportTo {
            file: &events,
            user_handle: 1,
        }),
        ..Default::default()
    })?;
    Ok((context, events, xrcd))
}

/// That a TGT QP is created, then destroyed for this reason.
fn expect_reclaim(events: &EventFile, qp_num: u32, reason: ReclaimReason) -> Result<()> {
    expect_event(events, 1, EventKind::TgtQpCreated { qp_num })?;
    expect_event(events, 1, EventKind::TgtQpReclaimed { qp_num, reason })
}

fn stays() -> Result<()> {
    let (context, _events, xrcd) = reporting(DOMAIN)?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let qp_num = tgt.qp_num();
    tgt.close()?;
    ensure!(xrcd.query_tgt_qp(qp_num)?.1.refs == 0);
    ensure!(xrcd.tgt_qp_holders(qp_num)?.is_empty());
    // It receives.
    let posted = Posted::create(&context, &xrcd, 4)?;
    posted.post(64)?;
    send(&mut ini, posted.srq.num(), b"to an orphan", None, false)?;
    posted.expect(b"to an orphan")?;
    let opened = xrcd.open_tgt_qp(qp_num)?;
    ensure!(opened.query()?.1.refs == 1);
    ensure!(opened.holders()?[0].id == 2, "the first one had 1");
    Ok(())
}

fn lingers() -> Result<()> {
    let linger = Duration::from_millis(300);
    let (_context, events, xrcd) = reporting(DomainPolicy { linger, ..DOMAIN })?;
    let tgt = xrcd.create_tgt_qp()?;
    let qp_num = tgt.qp_num();
    let start = Instant::now();
    tgt.close()?;
    expect_reclaim(&events, qp_num, ReclaimReason::Linger)?;
    ensure!(start.elapsed() >= linger, "{:?}", start.elapsed());
    ensure!(xrcd.tgt_qps()?.is_empty());
    ensure_errno("open", xrcd.open_tgt_qp(qp_num), Errno::EINVAL)
}

fn error() -> Result<()> {
    let (_context, events, xrcd) = reporting(DOMAIN)?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let qp_num = tgt.qp_num();
    tgt.close()?;
    send_refused(&mut ini)?;
    expect_reclaim(&events, qp_num, ReclaimReason::Error)?;
    ensure!(xrcd.tgt_qps()?.is_empty());
    Ok(())
}

fn referenced() -> Result<()> {
    let (context, events, xrcd) = reporting(DomainPolicy {
        flags: DomainFlags::RECLAIM_REFERENCED,
        ..Default::default()
    })?;
    let mine = context.create_event_file(None)?;
    let tgt = xrcd.create_tgt_qp_with(TgtQpOptions {
        events: Some(ReportTo {
            file: &mine,
            user_handle: 2,
        }),
    })?;
    let qp_num = tgt.qp_num();
    let mut ini = connect(&tgt)?;
    send_refused(&mut ini)?;
    expect_reclaim(&events, qp_num, ReclaimReason::Error)?;
    // The error itself may be told before.
    let reclaimed = EventKind::TgtQpReclaimed {
        qp_num,
        reason: ReclaimReason::Error,
    };
    loop {
        let event = mine.wait_timeout(PATIENCE)?.context("no event")?;
        ensure!(event.user_handle == 2, "{event:?}");
        match event.kind {
            EventKind::TgtQpError { qp_num: n, .. } => ensure!(n == qp_num),
            kind => {
                ensure!(kind == reclaimed, "{kind:?}");
                break;
            }
        }
    }

    ensure!(xrcd.tgt_qps()?.is_empty());
    let reset = QpAttr {
        state: Some(QpState::Reset),
        ..Default::default()
    };
    let rtr = QpAttr {
        state: Some(QpState::Rtr),
        ..Default::default()
    };
    ensure_errno("query", tgt.query(), Errno::ESTALE)?;
    ensure_errno("modify", tgt.modify(&reset), Errno::ESTALE)?;
    ensure_errno("connect", tgt.connect(&rtr), Errno::ESTALE)?;
    ensure_errno("disconnect", tgt.disconnect(Duration::ZERO), Errno::ESTALE)?;
    ensure_errno("holders", tgt.holders(), Errno::ESTALE)?;
    ensure_errno("by number", xrcd.query_tgt_qp(qp_num), Errno::EINVAL)?;
    ensure_errno("open", xrcd.open_tgt_qp(qp_num), Errno::EINVAL)?;
    let failed = tgt.disconnect_and_close(Duration::ZERO).err();
    let failed = failed.context("it disconnected")?;
    ensure!(failed.error.errno() == Errno::ESTALE, "{failed}");
    failed.object.close()?;
    Ok(())
}

fn last_srq() -> Result<()> {
    let (context, events, xrcd) = reporting(DomainPolicy {
        flags: DomainFlags::RECLAIM_WITH_LAST_SRQ,
        ..DOMAIN
    })?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let held = xrcd.create_tgt_qp()?;
    let (held_num, alone) = (held.qp_num(), xrcd.create_tgt_qp()?);
    let qp_num = alone.qp_num();
    alone.close()?;
    ensure!(xrcd.tgt_qps()?.len() == 2);
    posted.srq.close().map_err(ibxrc::Error::from)?;
    expect_event(&events, 1, EventKind::TgtQpCreated { qp_num: held_num })?;
    expect_reclaim(&events, qp_num, ReclaimReason::LastSrq)?;
    ensure!(held.query()?.1.refs == 1);
    held.close()?;
    let kind = EventKind::TgtQpReclaimed {
        qp_num: held_num,
        reason: ReclaimReason::LastSrq,
    };
    expect_event(&events, 1, kind)?;
    ensure!(xrcd.tgt_qps()?.is_empty());
    Ok(())
}
