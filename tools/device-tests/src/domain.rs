// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Devices and domains.

use anyhow::{ensure, Context as _, Result};
use ibxrc::{Context, Errno, Policy, XrcdOptions};
use std::os::fd::AsFd;

use crate::{
    setup::{anonymous, device, ensure_errno, named, Posted},
    Test,
};

pub const TESTS: &[Test] = &[
    ("devices are listed and opened", devices),
    (
        "a device that is not there is told with those that are",
        no_device,
    ),
    ("a domain is found by its file", by_file),
    ("open says why it does not", open_errors),
    ("a domain does not close while it is in use", close_busy),
    ("objects keep what they were made with", drop_order),
];

fn devices() -> Result<()> {
    let name = device();
    let devices = ibxrc::list_devices()?;
    let listed = devices
        .iter()
        .find(|d| d.name == name)
        .context("the device is not listed")?;
    ensure!(listed.ports >= 1 && listed.node_guid != 0);
    for context in [Context::open(&name)?, Context::open(listed.index)?] {
        let (info, limits) = context.query()?;
        ensure!(info == *listed && context.device() == *listed);
        ensure!(context.list_devices()? == devices);
        ensure!(limits.max_cqe > 0 && limits.max_srq_wr > 0 && limits.max_srq_sge > 0);
        ensure!(limits.max_msg_size >= 1024);
        context.close()?;
    }
    Ok(())
}

fn no_device() -> Result<()> {
    let error = Context::open("nosuchdevice0").err().context("it opened")?;
    ensure!(error.errno() == Errno::ENODEV, "{error}");
    ensure!(error.to_string().contains(&device()), "{error}");
    ensure_errno("index", Context::open(u32::MAX), Errno::ENODEV)
}

fn by_file() -> Result<()> {
    let file = tempfile::tempfile()?;
    let other = tempfile::tempfile()?;
    // Two contexts, as in two processes.
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let first = named(&one, &file)?;
    let second = named(&two, &file)?;
    let third = named(&two, &other)?;
    let info = first.query()?;
    ensure!(info == second.query()?, "not the same domain");
    ensure!(info.handles == 2 && info.policy == Policy::Refs, "{info:?}");
    ensure!(info.inode != 0 && info.inode != third.query()?.inode);
    let tgt = second.create_tgt_qp()?;
    ensure!(first.tgt_qps()?.len() == 1 && third.tgt_qps()?.is_empty());
    drop(tgt);
    second.close()?;
    ensure!(first.query()?.handles == 1);
    let (_, xrcd) = anonymous()?;
    ensure!(xrcd.query()?.inode == 0);
    Ok(())
}

fn open_errors() -> Result<()> {
    let context = Context::open(&device())?;
    let file = tempfile::tempfile()?;
    let open = |create, exclusive| {
        context.open_xrcd(XrcdOptions {
            file: Some(file.as_fd()),
            create,
            exclusive,
            ..Default::default()
        })
    };
    ensure_errno("no domain, no create", open(false, false), Errno::EAGAIN)?;
    let _xrcd = open(true, true)?;
    ensure_errno("exclusive", open(true, true), Errno::EINVAL)?;
    open(false, false)?;
    Ok(())
}

fn close_busy() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let tgt = xrcd.create_tgt_qp()?;
    let failed = xrcd.close().err().context("it closed")?;
    ensure!(failed.error.errno() == Errno::EBUSY, "{failed}");
    let xrcd = failed.object;
    ensure!(xrcd.query()?.tgt_qps == 1);
    tgt.close()?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let failed = xrcd.close().err().context("it closed")?;
    ensure!(failed.error.errno() == Errno::EBUSY, "{failed}");
    posted.srq.close().map_err(ibxrc::Error::from)?;
    failed.object.close()?;
    ensure_errno("context", context.close(), Errno::EBUSY)?;
    Ok(())
}

fn drop_order() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let tgt = xrcd.create_tgt_qp()?;
    drop(context);
    drop(xrcd);
    // They still work.
    tgt.query()?;
    let Posted { srq, cq, .. } = posted;
    drop(cq);
    drop(tgt);
    srq.close().map_err(ibxrc::Error::from)?;
    Ok(())
}
