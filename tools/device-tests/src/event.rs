// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Event files.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, ensure, Context as _, Result};
use ibxrc::{
    Context, Errno, EventFile, EventKind, QpError, ReclaimReason, ReportTo, SrqOptions,
    TgtQpOptions, Xrcd, XrcdOptions,
};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::{
    setup::{
        anonymous, connect, device, ensure_errno, ensure_no_event, expect_event, send_refused,
        Posted, PATIENCE,
    },
    Test,
};

pub const TESTS: &[Test] = &[
    ("an event file has a depth", depth),
    (
        "without events nothing comes, in no more time than given",
        nothing,
    ),
    ("all who asked are told of a new TGT QP", created),
    ("and that it is destroyed", reclaimed),
    ("an event file is polled and waited for", waiting),
    ("what does not fit is told", overflow),
    ("events of what was closed do not come", purged),
    (
        "a reader outlives the events that it is about to read",
        racing,
    ),
    ("errors are told to those who registered", error),
    ("and to who registers later", error_again),
    ("objects keep their event file", busy),
    ("an event file of another context is refused", stranger),
];

const HANDLE: u64 = 0xfeed_0000_0000_beef;

fn to(file: &EventFile) -> Option<ReportTo<'_>> {
    Some(ReportTo {
        file,
        user_handle: HANDLE,
    })
}

fn reporting(context: &Context, events: &EventFile) -> ibxrc::Result<Xrcd> {
    context.open_xrcd(XrcdOptions {
        events: to(events),
        ..Default::default()
    })
}

/// The same domain twice, each with an event file.
fn shared() -> Result<[(Context, EventFile, Xrcd); 2]> {
    use std::os::fd::AsFd;

    let file = tempfile::tempfile()?;
    let open = || -> Result<_> {
        let context = Context::open(&device())?;
        let events = context.create_event_file(None)?;
        let xrcd = context.open_xrcd(XrcdOptions {
            file: Some(file.as_fd()),
            create: true,
            events: to(&events),
            ..Default::default()
        })?;
        Ok((context, events, xrcd))
    };
    Ok([open()?, open()?])
}

fn depth() -> Result<()> {
    let context = Context::open(&device())?;
    for depth in [0, 4097, u32::MAX] {
        let file = context.create_event_file(Some(depth));
        ensure_errno("event file", file, Errno::EINVAL)?;
    }
    for depth in [None, Some(1), Some(4096)] {
        context.create_event_file(depth)?.close()?;
    }
    Ok(())
}

fn nothing() -> Result<()> {
    let context = Context::open(&device())?;
    let events = context.create_event_file(None)?;
    for timeout in [Duration::ZERO, Duration::from_millis(100)] {
        let start = Instant::now();
        ensure!(events.wait_timeout(timeout)?.is_none());
        ensure!(start.elapsed() >= timeout && start.elapsed() < timeout + PATIENCE);
    }
    ensure_no_event(&events)
}

fn created() -> Result<()> {
    let [(_, one_events, one), (_, two_events, two)] = shared()?;
    let tgt = one.create_tgt_qp()?;
    let kind = EventKind::TgtQpCreated {
        qp_num: tgt.qp_num(),
    };
    expect_event(&one_events, HANDLE, kind)?;
    expect_event(&two_events, HANDLE, kind)?;
    // A registration is no new TGT QP.
    two.open_tgt_qp(tgt.qp_num())?;
    ensure_no_event(&one_events)?;
    ensure_no_event(&two_events)
}

fn reclaimed() -> Result<()> {
    let [(_, one_events, one), (_, two_events, two)] = shared()?;
    let tgt = one.create_tgt_qp()?;
    let qp_num = tgt.qp_num();
    let opened = two.open_tgt_qp(qp_num)?;
    tgt.close()?;
    let created = EventKind::TgtQpCreated { qp_num };
    for events in [&one_events, &two_events] {
        expect_event(events, HANDLE, created)?;
        ensure_no_event(events)?;
    }
    opened.close()?;
    let reclaimed = EventKind::TgtQpReclaimed {
        qp_num,
        reason: ReclaimReason::LastRef,
    };
    expect_event(&one_events, HANDLE, reclaimed)?;
    expect_event(&two_events, HANDLE, reclaimed)
}

fn polled(events: &EventFile, timeout: Duration) -> Result<PollFlags> {
    let mut fds = [PollFd::new(events, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout)?;
    poll(&mut fds, Some(&timeout))?;
    Ok(fds[0].revents())
}

fn waiting() -> Result<()> {
    let context = Context::open(&device())?;
    let events = context.create_event_file(None)?;
    let xrcd = reporting(&context, &events)?;
    ensure!(polled(&events, Duration::ZERO)?.is_empty());
    let tgt = xrcd.create_tgt_qp()?;
    ensure!(polled(&events, PATIENCE)? == PollFlags::IN);
    let kind = EventKind::TgtQpCreated {
        qp_num: tgt.qp_num(),
    };
    expect_event(&events, HANDLE, kind)?;
    ensure!(polled(&events, Duration::ZERO)?.is_empty());

    thread::scope(|scope| {
        let reader = scope.spawn(|| events.wait());
        thread::sleep(Duration::from_millis(100));
        ensure!(!reader.is_finished());
        let tgt = xrcd.create_tgt_qp()?;
        let event = reader.join().map_err(|_| anyhow!("a thread panicked"))??;
        ensure!(matches!(event.kind, EventKind::TgtQpCreated { qp_num } if qp_num == tgt.qp_num()));
        Ok(())
    })
}

fn overflow() -> Result<()> {
    let context = Context::open(&device())?;
    let events = context.create_event_file(Some(2))?;
    let xrcd = reporting(&context, &events)?;
    let tgts = (0..5)
        .map(|_| xrcd.create_tgt_qp())
        .collect::<ibxrc::Result<Vec<_>>>()?;
    for tgt in &tgts[..2] {
        let kind = EventKind::TgtQpCreated {
            qp_num: tgt.qp_num(),
        };
        expect_event(&events, HANDLE, kind)?;
    }
    expect_event(&events, 0, EventKind::Overflow { dropped: 3 })?;
    ensure_no_event(&events)?;
    // There is room again.
    let tgt = xrcd.create_tgt_qp()?;
    let kind = EventKind::TgtQpCreated {
        qp_num: tgt.qp_num(),
    };
    expect_event(&events, HANDLE, kind)
}

fn purged() -> Result<()> {
    let context = Context::open(&device())?;
    let events = context.create_event_file(None)?;
    let xrcd = reporting(&context, &events)?;
    xrcd.create_tgt_qp()?.close()?;
    ensure!(polled(&events, PATIENCE)? == PollFlags::IN);
    xrcd.close()?;
    ensure_no_event(&events)
}

/// Events leave between being seen and being read, and nobody waits for them.
fn racing() -> Result<()> {
    let context = Context::open(&device())?;
    let events = context.create_event_file(None)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = || -> ibxrc::Result<u32> {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += u32::from(events.wait_timeout(Duration::from_millis(10))?.is_some());
            }
            Ok(n)
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        let result = (0..50).try_for_each(|_| {
            let xrcd = reporting(&context, &events)?;
            xrcd.create_tgt_qp()?.close()?;
            xrcd.close()?;
            anyhow::Ok(())
        });
        done.store(true, Ordering::Relaxed);
        result?;
        let mut read = 0;
        for reader in readers {
            read += reader.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        // Each domain had two events, which were read or not.
        ensure!(read <= 100, "{read} events");
        ensure_no_event(&events)
    })
}

fn error() -> Result<()> {
    let [(one, one_events, mine), (two, _two_events, other)] = shared()?;
    let (created, opened) = (one.create_event_file(None)?, two.create_event_file(None)?);
    let tgt = mine.create_tgt_qp_with(TgtQpOptions {
        events: to(&created),
    })?;
    let kind = EventKind::TgtQpCreated {
        qp_num: tgt.qp_num(),
    };
    expect_event(&one_events, HANDLE, kind)?;
    let _second = other.open_tgt_qp_with(
        tgt.qp_num(),
        TgtQpOptions {
            events: Some(ReportTo {
                file: &opened,
                user_handle: 6,
            }),
        },
    )?;
    let mut ini = connect(&tgt)?;
    ensure_no_event(&created)?;
    send_refused(&mut ini)?;
    let kind = EventKind::TgtQpError {
        qp_num: tgt.qp_num(),
        error: QpError::REQ_ERR,
    };
    expect_event(&created, HANDLE, kind)?;
    expect_event(&opened, 6, kind)?;
    // It is still there.
    ensure_no_event(&created)?;
    ensure_no_event(&one_events)?;
    ensure!(tgt.query()?.1.refs == 2);
    Ok(())
}

fn error_again() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let events = context.create_event_file(None)?;
    let options = TgtQpOptions {
        events: to(&events),
    };
    let tgt = xrcd.create_tgt_qp_with(options)?;
    let mut ini = connect(&tgt)?;
    send_refused(&mut ini)?;
    let kind = EventKind::TgtQpError {
        qp_num: tgt.qp_num(),
        error: QpError::REQ_ERR,
    };
    expect_event(&events, HANDLE, kind)?;
    let late = context.create_event_file(None)?;
    let _opened = xrcd.open_tgt_qp_with(tgt.qp_num(), TgtQpOptions { events: to(&late) })?;
    expect_event(&late, HANDLE, kind)?;
    ensure_no_event(&events)
}

fn busy() -> Result<()> {
    let context = Context::open(&device())?;
    let busy = |events: EventFile| -> Result<EventFile> {
        let failed = events.close().err().context("it closed")?;
        ensure!(failed.error.errno() == Errno::EBUSY, "{failed}");
        Ok(failed.object)
    };
    let events = context.create_event_file(None)?;
    let xrcd = reporting(&context, &events)?;
    let events = busy(events)?;
    xrcd.close()?;

    let xrcd = context.open_xrcd(XrcdOptions::default())?;
    let tgt = xrcd.create_tgt_qp_with(TgtQpOptions {
        events: to(&events),
    })?;
    let events = busy(events)?;
    tgt.close()?;
    let options = SrqOptions {
        events: Some(&events),
    };
    let posted = Posted::create_with(&context, &xrcd, 4, options)?;
    let events = busy(events)?;
    posted.srq.close().map_err(ibxrc::Error::from)?;
    events.close()?;
    Ok(())
}

fn stranger() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let events = Context::open(&device())?.create_event_file(None)?;
    ensure_errno("domain", reporting(&context, &events), Errno::EINVAL)?;
    let options = TgtQpOptions {
        events: to(&events),
    };
    let tgt = xrcd.create_tgt_qp_with(options);
    ensure_errno("TGT QP", tgt, Errno::EINVAL)?;
    let tgt = xrcd.create_tgt_qp()?;
    let opened = xrcd.open_tgt_qp_with(tgt.qp_num(), options);
    ensure_errno("registration", opened, Errno::EINVAL)?;
    let cq = context.create_cq(4, None, 0)?;
    let attr = ibxrc::SrqAttr {
        max_wr: 4,
        max_sge: 1,
        user_handle: 0,
    };
    let options = SrqOptions {
        events: Some(&events),
    };
    let srq = xrcd.create_srq_with(&cq, attr, options);
    ensure_errno("SRQ", srq, Errno::EINVAL)
}
