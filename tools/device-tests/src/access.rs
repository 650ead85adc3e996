// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Who may do what: open modes and job keys.

use std::{
    fs::{File, OpenOptions},
    os::fd::AsFd,
    time::Duration,
};

use anyhow::{ensure, Result};
use ibxrc::{
    Context, DomainFlags, DomainPolicy, Errno, EventKind, JobKey, QpAttr, QpError, QpState,
    ReportTo, TgtQpOptions, Xrcd, XrcdOptions,
};

use crate::{
    setup::{
        connect, connected, device, ensure_errno, expect_event, named, send, wait_for_state, Posted,
    },
    Test,
};

pub const TESTS: &[Test] = &[
    ("opening a domain needs its file open for reading", reading),
    (
        "making one with a policy needs it open for writing",
        writing,
    ),
    ("who may only look at a domain may not use it", looking),
    ("another job's TGT QPs may not be used", job_keys),
    ("another job's messages are refused", job_key_of_message),
];

fn with_file(file: &File, policy: Option<DomainPolicy>) -> XrcdOptions<'_> {
    XrcdOptions {
        file: Some(file.as_fd()),
        create: true,
        policy,
        ..Default::default()
    }
}

fn reading() -> Result<()> {
    let context = Context::open(&device())?;
    let file = tempfile::NamedTempFile::new()?;
    let write_only = OpenOptions::new().write(true).open(file.path())?;
    let open = || context.open_xrcd(with_file(&write_only, None));
    ensure_errno("to make a domain", open(), Errno::EACCES)?;
    let _xrcd = named(&context, file.as_file())?;
    ensure_errno("to open one", open(), Errno::EACCES)
}

fn writing() -> Result<()> {
    let context = Context::open(&device())?;
    let file = tempfile::NamedTempFile::new()?;
    let read_only = File::open(file.path())?;
    let policy = Some(DomainPolicy::default());
    let open = |policy| context.open_xrcd(with_file(&read_only, policy));
    ensure_errno("with a policy", open(policy), Errno::EACCES)?;
    let xrcd = open(None)?;
    // This one is not made, only opened.
    drop(open(policy)?);
    // And may be used.
    xrcd.create_tgt_qp()?;
    Ok(())
}

fn init_attr() -> QpAttr {
    QpAttr {
        state: Some(QpState::Init),
        port: Some(1),
        pkey_index: Some(0),
        access_flags: Some(0),
        ..Default::default()
    }
}

/// That one may look at a TGT QP, but not use it.
fn ensure_look_only(xrcd: &Xrcd, qp_num: u32) -> Result<()> {
    ensure!(xrcd.query_tgt_qp(qp_num)?.1.qp_num == qp_num);
    ensure!(xrcd.tgt_qp_holders(qp_num)?.len() == 1);
    ensure_errno("open", xrcd.open_tgt_qp(qp_num), Errno::EACCES)?;
    let modified = xrcd.modify_tgt_qp(qp_num, &init_attr());
    ensure_errno("modify", modified, Errno::EACCES)?;
    let attr = QpAttr {
        state: Some(QpState::Rtr),
        ..Default::default()
    };
    let connected = xrcd.connect_tgt_qp(qp_num, &attr);
    ensure_errno("connect", connected, Errno::EACCES)?;
    let disconnected = xrcd.disconnect_tgt_qp(qp_num, Duration::ZERO);
    ensure_errno("disconnect", disconnected, Errno::EACCES)
}

fn looking() -> Result<()> {
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let file = tempfile::NamedTempFile::new()?;
    let read_only = File::open(file.path())?;
    let policy = DomainPolicy {
        flags: DomainFlags::USE_NEEDS_WRITE,
        ..Default::default()
    };
    let user = one.open_xrcd(with_file(file.as_file(), Some(policy)))?;
    let tgt = user.create_tgt_qp()?;
    let posted = Posted::create(&one, &user, 4)?;

    let looker = two.open_xrcd(with_file(&read_only, None))?;
    ensure!(looker.query()?.handles == 2 && looker.query_policy()? == policy);
    ensure!(looker.tgt_qps()?.len() == 1);
    ensure!(looker.srqs()?[0].srq_num == posted.srq.num());
    ensure_look_only(&looker, tgt.qp_num())?;
    ensure_errno("create", looker.create_tgt_qp(), Errno::EACCES)?;
    let cq = two.create_cq(4, None, 0)?;
    let attr = ibxrc::SrqAttr {
        max_wr: 4,
        max_sge: 1,
        user_handle: 0,
    };
    ensure_errno("SRQ", looker.create_srq(&cq, attr), Errno::EACCES)?;
    ensure!(tgt.query()?.1.state == QpState::Reset);
    Ok(())
}

fn with_key(context: &Context, file: &impl AsFd, key: u64) -> ibxrc::Result<Xrcd> {
    context.open_xrcd(XrcdOptions {
        file: Some(file.as_fd()),
        create: true,
        job_key: Some(JobKey(key)),
        ..Default::default()
    })
}

fn job_keys() -> Result<()> {
    let context = Context::open(&device())?;
    let file = tempfile::tempfile()?;
    let mine = with_key(&context, &file, 0)?;
    let tgt = mine.create_tgt_qp()?;
    for other in [with_key(&context, &file, 1)?, named(&context, &file)?] {
        ensure_look_only(&other, tgt.qp_num())?;
    }
    ensure!(tgt.query()?.1.state == QpState::Reset);
    let same = with_key(&context, &file, 0)?;
    let opened = same.open_tgt_qp(tgt.qp_num())?;
    same.modify_tgt_qp(tgt.qp_num(), &init_attr())?;
    ensure!(opened.query()?.1.state == QpState::Init);
    Ok(())
}

fn job_key_of_message() -> Result<()> {
    let context = Context::open(&device())?;
    let file = tempfile::tempfile()?;
    let mine = with_key(&context, &file, 7)?;
    let same = with_key(&context, &file, 7)?;
    let (_tgt, mut ini) = connected(&mine)?;
    let posted = Posted::create(&context, &same, 4)?;
    posted.post(64)?;
    send(&mut ini, posted.srq.num(), b"ours", None, false)?;
    posted.expect(b"ours")?;

    let events = context.create_event_file(None)?;
    for other in [with_key(&context, &file, 8)?, named(&context, &file)?] {
        let tgt = other.create_tgt_qp_with(TgtQpOptions {
            events: Some(ReportTo {
                file: &events,
                user_handle: 5,
            }),
        })?;
        let mut ini = connect(&tgt)?;
        posted.post(64)?;
        send(&mut ini, posted.srq.num(), b"theirs", None, false)?;
        // Whether it is acknowledged before the TGT QP is in error is open.
        let _ = ini.drain();
        let error = EventKind::TgtQpError {
            qp_num: tgt.qp_num(),
            error: QpError::REQ_ERR,
        };
        expect_event(&events, 5, error)?;
        wait_for_state(&tgt, QpState::Err)?;
        ensure!(tgt.query()?.1.refused_msgs == 1);
        ensure!(posted.completion_once()?.is_none());
    }
    Ok(())
}
