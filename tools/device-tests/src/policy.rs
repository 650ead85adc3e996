// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The rules of a domain.

use std::{os::fd::AsFd, time::Duration};

use anyhow::{ensure, Result};
use ibxrc::{Context, DomainFlags, DomainPolicy, Errno, Policy, XrcdOptions};

use crate::{
    setup::{anonymous, anonymous_with, device, ensure_errno, named, Posted},
    Test,
};

pub const TESTS: &[Test] = &[
    ("a domain has the policy of its maker", kept),
    ("another policy is refused", another),
    ("a policy that makes no sense is refused", nonsense),
    ("no more TGT QPs and SRQs than the policy lets", limits),
    ("no more bytes than the policy lets", bytes),
];

const POLICY: DomainPolicy = DomainPolicy {
    policy: Policy::Domain,
    flags: DomainFlags(
        DomainFlags::RECLAIM_REFERENCED.0
            | DomainFlags::RECLAIM_WITH_LAST_SRQ.0
            | DomainFlags::USE_NEEDS_WRITE.0,
    ),
    linger: Duration::from_millis(12_345),
    max_tgt_qps: 3,
    max_srqs: 4,
    max_bytes: 1 << 40,
};

fn kept() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    ensure!(xrcd.query_policy()? == DomainPolicy::default());
    let (_context, xrcd) = anonymous_with(POLICY)?;
    ensure!(xrcd.query_policy()? == POLICY);
    ensure!(xrcd.query()?.policy == Policy::Domain);
    Ok(())
}

fn another() -> Result<()> {
    let file = tempfile::tempfile()?;
    let context = Context::open(&device())?;
    let open = |policy| {
        context.open_xrcd(XrcdOptions {
            file: Some(file.as_fd()),
            create: true,
            policy,
            ..Default::default()
        })
    };
    let first = open(Some(POLICY))?;
    // Who asks for none takes what there is.
    let second = named(&context, &file)?;
    ensure!(second.query_policy()? == POLICY);
    let third = open(Some(POLICY))?;
    ensure!(third.query()?.handles == 3);
    for other in [
        DomainPolicy::default(),
        DomainPolicy {
            max_bytes: 1,
            ..POLICY
        },
        DomainPolicy {
            flags: DomainFlags::USE_NEEDS_WRITE,
            ..POLICY
        },
    ] {
        ensure_errno("another policy", open(Some(other)), Errno::EEXIST)?;
    }
    ensure!(first.query()?.handles == 3);
    drop((first, second, third));
    // Now there is no domain any more, so that any will do.
    let xrcd = open(Some(DomainPolicy::default()))?;
    ensure!(xrcd.query_policy()? == DomainPolicy::default());
    Ok(())
}

fn nonsense() -> Result<()> {
    let refs = DomainPolicy::default();
    for policy in [
        DomainPolicy {
            policy: Policy::Other(99),
            ..refs
        },
        DomainPolicy {
            flags: DomainFlags(1 << 31),
            ..refs
        },
        DomainPolicy {
            flags: DomainFlags::RECLAIM_WITH_LAST_SRQ,
            ..refs
        },
        DomainPolicy {
            linger: Duration::from_millis(1),
            ..refs
        },
    ] {
        let context = Context::open(&device())?;
        let xrcd = context.open_xrcd(XrcdOptions {
            policy: Some(policy),
            ..Default::default()
        });
        ensure_errno(&format!("{policy:?}"), xrcd, Errno::EINVAL)?;
    }
    Ok(())
}

fn limits() -> Result<()> {
    let (context, xrcd) = anonymous_with(DomainPolicy {
        max_tgt_qps: 2,
        max_srqs: 1,
        ..Default::default()
    })?;
    let first = xrcd.create_tgt_qp()?;
    let _second = xrcd.create_tgt_qp()?;
    ensure_errno("a third TGT QP", xrcd.create_tgt_qp(), Errno::EDQUOT)?;
    // Registrations are not counted.
    drop(xrcd.open_tgt_qp(first.qp_num())?);
    first.close()?;
    let _third = xrcd.create_tgt_qp()?;
    ensure!(xrcd.query()?.tgt_qps == 2);

    let posted = Posted::create(&context, &xrcd, 4)?;
    let cq = context.create_cq(4, None, 0)?;
    let attr = ibxrc::SrqAttr {
        max_wr: 4,
        max_sge: 1,
        user_handle: 0,
    };
    ensure_errno("a second SRQ", xrcd.create_srq(&cq, attr), Errno::EDQUOT)?;
    posted.srq.close().map_err(ibxrc::Error::from)?;
    xrcd.create_srq(&cq, attr)?;
    Ok(())
}

fn bytes() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_, limits) = context.query()?;
    ensure!(limits.tgt_qp_bytes > 0 && limits.srq_bytes > 0);
    ensure!(xrcd.query()?.bytes == 0);
    let qp = u64::from(limits.tgt_qp_bytes);
    let srq = u64::from(limits.srq_bytes);

    let (context, xrcd) = anonymous_with(DomainPolicy {
        max_bytes: qp + srq,
        ..Default::default()
    })?;
    let tgt = xrcd.create_tgt_qp()?;
    ensure!(xrcd.query()?.bytes == qp);
    let posted = Posted::create(&context, &xrcd, 4)?;
    ensure!(xrcd.query()?.bytes == qp + srq);
    ensure_errno("a TGT QP too much", xrcd.create_tgt_qp(), Errno::EDQUOT)?;
    ensure!(xrcd.query()?.bytes == qp + srq);
    tgt.close()?;
    ensure!(xrcd.query()?.bytes == srq);
    xrcd.create_tgt_qp()?.close()?;
    posted.srq.close().map_err(ibxrc::Error::from)?;
    ensure!(xrcd.query()?.bytes == 0);
    Ok(())
}
