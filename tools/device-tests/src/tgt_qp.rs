// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! TGT QPs.

use anyhow::{ensure, Context as _, Result};
use ibxrc::{Context, Errno, Error, QpAttr, QpState};
use ibxrc_ini::{Device, Sender, SenderAttr};

use crate::{
    setup::{anonymous, device, ensure_errno, named, tgt_attr},
    Test,
};

pub const TESTS: &[Test] = &[
    ("a TGT QP is connected in one call", connect),
    ("and step by step", modify),
    ("a failed connect says where it stopped", connect_stops),
    ("it is known by its number", by_number),
    ("it lives until its last registration goes", lifetime),
    ("all TGT QPs are listed in order", list),
    ("who holds a TGT QP is listed", holders),
];

fn ini() -> Result<(Device, Sender)> {
    let device = Device::open(&device(), 1)?;
    let ini = Sender::create(&device, SenderAttr::default())?;
    Ok((device, ini))
}

fn connect() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let (device, ini) = ini()?;
    let tgt = xrcd.create_tgt_qp()?;
    let (_, info) = tgt.query()?;
    ensure!(info.state == QpState::Reset && info.refs == 1 && info.dest_qp_num == 0);
    let attr = tgt_attr(&device, &ini);
    ensure!(tgt.connect(&attr)? == QpState::Rtr);
    let (got, info) = tgt.query()?;
    ensure!(info.state == QpState::Rtr && info.dest_qp_num == ini.address().qp_num);
    ensure!(got.state == Some(QpState::Rtr), "{got:?}");
    ensure!(got.dest_qp_num == attr.dest_qp_num && got.rq_psn == attr.rq_psn);
    ensure!(got.path_mtu == attr.path_mtu && got.port == attr.port);
    ensure!(got.min_rnr_timer == attr.min_rnr_timer);
    let grh = |attr: &QpAttr| {
        attr.path
            .and_then(|p| p.grh)
            .map(|g| (g.dgid, g.sgid_index))
    };
    ensure!(grh(&got).is_some() && grh(&got) == grh(&attr), "{got:?}");
    ensure_errno("connect again", tgt.connect(&attr), Errno::EINVAL)
}

fn modify() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let (device, ini) = ini()?;
    let tgt = xrcd.create_tgt_qp()?;
    let all = tgt_attr(&device, &ini);
    let init = QpAttr {
        state: Some(QpState::Init),
        port: all.port,
        pkey_index: all.pkey_index,
        access_flags: all.access_flags,
        ..Default::default()
    };
    let rtr = QpAttr {
        port: None,
        pkey_index: None,
        access_flags: None,
        ..all
    };
    ensure_errno("RTR first", tgt.modify(&rtr), Errno::EINVAL)?;
    tgt.modify(&init)?;
    ensure!(tgt.query()?.1.state == QpState::Init);
    tgt.modify(&rtr)?;
    ensure!(tgt.query()?.1.state == QpState::Rtr);
    let state = |state| QpAttr {
        state: Some(state),
        ..Default::default()
    };
    tgt.modify(&state(QpState::Err))?;
    ensure!(tgt.query()?.1.state == QpState::Err);
    tgt.modify(&state(QpState::Reset))?;
    ensure!(tgt.connect(&all)? == QpState::Rtr);
    Ok(())
}

fn connect_stops() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let (device, ini) = ini()?;
    let tgt = xrcd.create_tgt_qp()?;
    let mut attr = tgt_attr(&device, &ini);
    // INIT takes it, RTR does not.
    attr.path_mtu = Some(99);
    let error = tgt.connect(&attr).err().context("it connected")?;
    let Error::Connect { state, .. } = error else {
        anyhow::bail!("{error:?}");
    };
    ensure!(state == Some(QpState::Init), "{error}");
    ensure!(tgt.query()?.1.state == QpState::Init);
    ensure!(tgt.connect(&tgt_attr(&device, &ini))? == QpState::Rtr);
    Ok(())
}

fn by_number() -> Result<()> {
    let file = tempfile::tempfile()?;
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let (mine, other) = (named(&one, &file)?, named(&two, &file)?);
    let (_, stranger) = anonymous()?;
    let (device, ini) = ini()?;
    let tgt = mine.create_tgt_qp()?;
    let number = tgt.qp_num();
    ensure!(other.connect_tgt_qp(number, &tgt_attr(&device, &ini))? == QpState::Rtr);
    let (_, info) = other.query_tgt_qp(number)?;
    ensure!(info.refs == 1 && info.state == QpState::Rtr);
    let error = QpAttr {
        state: Some(QpState::Err),
        ..Default::default()
    };
    other.modify_tgt_qp(number, &error)?;
    ensure!(tgt.query()?.1.state == QpState::Err);
    ensure_errno("query", stranger.query_tgt_qp(number), Errno::EINVAL)?;
    ensure_errno(
        "modify",
        stranger.modify_tgt_qp(number, &error),
        Errno::EINVAL,
    )?;
    ensure_errno("open", stranger.open_tgt_qp(number), Errno::EINVAL)
}

fn lifetime() -> Result<()> {
    let file = tempfile::tempfile()?;
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let (mine, other) = (named(&one, &file)?, named(&two, &file)?);
    let created = mine.create_tgt_qp()?;
    let opened = other.open_tgt_qp(created.qp_num())?;
    ensure!(opened.qp_num() == created.qp_num());
    ensure!(opened.query()?.1.refs == 2);
    // The creator goes, with everything it has.
    drop((created, mine, one));
    ensure!(opened.query()?.1.refs == 1);
    ensure!(other.tgt_qps()?.len() == 1);
    opened.close()?;
    ensure!(other.tgt_qps()?.is_empty());
    Ok(())
}

fn list() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    // More than the library asks for at first.
    let tgts = (0..50)
        .map(|_| xrcd.create_tgt_qp())
        .collect::<ibxrc::Result<Vec<_>>>()?;
    let listed: Vec<u32> = xrcd.tgt_qps()?.iter().map(|info| info.qp_num).collect();
    let mut expected: Vec<u32> = tgts.iter().map(|tgt| tgt.qp_num()).collect();
    expected.sort_unstable();
    ensure!(listed == expected, "{listed:?} instead of {expected:?}");
    Ok(())
}

fn holders() -> Result<()> {
    let file = tempfile::tempfile()?;
    let (one, two) = (Context::open(&device())?, Context::open(&device())?);
    let (mine, other) = (named(&one, &file)?, named(&two, &file)?);
    let tgt = mine.create_tgt_qp()?;
    let number = tgt.qp_num();
    // More than the library asks for at first.
    let opened = (0..40)
        .map(|_| other.open_tgt_qp(number))
        .collect::<ibxrc::Result<Vec<_>>>()?;
    let holders = tgt.holders()?;
    ensure!(holders == mine.tgt_qp_holders(number)?);
    ensure!(holders.iter().map(|h| h.id).eq(1..=41), "{holders:?}");
    let me = Some(std::process::id());
    ensure!(holders.iter().all(|h| h.pid == me), "{holders:?}");
    drop(opened);
    tgt.close()?;
    let holders = other.tgt_qp_holders(number);
    ensure_errno("a TGT QP that is gone", holders, Errno::EINVAL)
}
