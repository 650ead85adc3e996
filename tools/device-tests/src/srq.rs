// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What SRQs tell: lists, limits and backlogs.

use anyhow::{ensure, Context as _, Result};
use ibxrc::{Context, Errno, EventFile, EventKind, SrqOptions, Xrcd};

use crate::{
    setup::{
        anonymous, connected, device, ensure_errno, ensure_no_event, expect_event, named, send,
        wait_for, Posted, PATIENCE,
    },
    Test,
};

pub const TESTS: &[Test] = &[
    ("all SRQs are listed in order", list),
    ("an SRQ tells what it has received", info),
    ("an SRQ tells once when it runs low", limit),
    ("an SRQ tells when messages back up", backlog),
];

fn reporting(context: &Context, xrcd: &Xrcd, events: &EventFile, max_wr: u32) -> Result<Posted> {
    let options = SrqOptions {
        events: Some(events),
    };
    Posted::create_with(context, xrcd, max_wr, options)
}

fn list() -> Result<()> {
    let file = tempfile::tempfile()?;
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let (mine, other) = (named(&one, &file)?, named(&two, &file)?);
    // More than the library asks for at first.
    let srqs = (0..40)
        .map(|_| Posted::create(&one, &mine, 1))
        .collect::<Result<Vec<_>>>()?;
    let listed: Vec<u32> = other.srqs()?.iter().map(|info| info.srq_num).collect();
    let mut expected: Vec<u32> = srqs.iter().map(|posted| posted.srq.num()).collect();
    expected.sort_unstable();
    ensure!(listed == expected, "{listed:?} instead of {expected:?}");
    drop(srqs);
    ensure!(other.srqs()?.is_empty());
    Ok(())
}

fn info() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let info = || -> Result<_> { Ok(*xrcd.srqs()?.first().context("it is not listed")?) };
    let fresh = info()?;
    ensure!(
        fresh.srq_num == posted.srq.num() && !fresh.error,
        "{fresh:?}"
    );
    ensure!(fresh.pid == Some(std::process::id()), "{fresh:?}");
    ensure!(fresh.waiting_msgs == 0 && fresh.recv_msgs == 0, "{fresh:?}");
    for _ in 0..3 {
        send(&mut ini, posted.srq.num(), b"waits", None, false)?;
    }
    wait_for("three messages that wait", || {
        Ok((info()?.waiting_msgs == 3).then_some(()))
    })?;
    posted.post(64)?;
    posted.expect(b"waits")?;
    wait_for("two messages that wait", || {
        Ok((info()?.waiting_msgs == 2).then_some(()))
    })?;
    ensure!(info()?.recv_msgs == 1);
    Ok(())
}

fn limit() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let events = context.create_event_file(None)?;
    let posted = reporting(&context, &xrcd, &events, 8)?;
    let srq_num = posted.srq.num();
    let told = |limit| {
        // What the SRQ was created with.
        expect_event(&events, 0xbeef, EventKind::SrqLimit { srq_num, limit })
    };
    let too_much = posted.srq.set_limit(posted.srq.entries() + 1);
    ensure_errno("more than fit", too_much, Errno::EINVAL)?;
    for _ in 0..4 {
        posted.post(64)?;
    }
    posted.srq.set_limit(4)?;
    ensure_no_event(&events)?;
    let state = posted.srq.query()?;
    ensure!(state.max_wr == posted.srq.entries() && state.max_sge == 2);
    ensure!(state.limit == 4);
    for _ in 0..2 {
        send(&mut ini, srq_num, b"one", None, false)?;
        posted.expect(b"one")?;
    }
    told(4)?;
    ensure!(posted.srq.query()?.limit == 0);
    // Once.
    ensure_no_event(&events)?;
    // At once.
    posted.srq.set_limit(posted.srq.entries())?;
    told(posted.srq.entries())?;
    posted.srq.set_limit(2)?;
    posted.srq.set_limit(0)?;
    send(&mut ini, srq_num, b"two", None, false)?;
    posted.expect(b"two")?;
    ini.drain()?;
    ensure_no_event(&events)
}

fn backlog() -> Result<()> {
    /// More than may wait, but fewer than there are buffers for.
    const MESSAGES: u32 = 140;
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let events = context.create_event_file(None)?;
    let posted = reporting(&context, &xrcd, &events, 256)?;
    for _ in 0..MESSAGES {
        send(&mut ini, posted.srq.num(), b"", None, false)?;
    }
    let event = events.wait_timeout(PATIENCE)?.context("no event")?;
    ensure!(
        matches!(event.kind, EventKind::SrqBacklog { srq_num, waiting }
            if srq_num == posted.srq.num() && waiting > 0 && waiting <= MESSAGES),
        "{event:?}"
    );
    ensure!(event.user_handle == 0xbeef);
    for _ in 0..MESSAGES {
        posted.post(2)?;
    }
    for _ in 0..MESSAGES {
        posted.expect(b"")?;
    }
    ini.drain()?;
    ensure_no_event(&events)
}
