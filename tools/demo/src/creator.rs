// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A: creates the domain and the TGT QP, and connects it.

use std::{fs::File, os::fd::AsFd, path::PathBuf};

use anyhow::{bail, Context as _, Result};
use clap::Args;
use ibxrc::{Context, TgtQp, Xrcd, XrcdOptions};
use ibxrc_ini::{Address, Device};

use crate::{
    protocol::{Order, Report},
    role::Role,
};

#[derive(Args)]
pub struct Options {
    /// The RDMA device.
    #[arg(long)]
    pub device: String,
    /// The file whose domain is to be created.
    #[arg(long)]
    pub file: PathBuf,
}

pub struct Creator {
    xrcd: Xrcd,
    /// For our address only.
    device: Device,
    tgt_qp: Option<TgtQp>,
}

/// Opens the domain of a file.
pub fn open_xrcd(device: &str, file: &PathBuf, create: bool) -> Result<(Context, Xrcd)> {
    let context = Context::open(device)?;
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let xrcd = context.open_xrcd(XrcdOptions {
        file: Some(opened.as_fd()),
        create,
        exclusive: create,
        ..Default::default()
    })?;
    Ok((context, xrcd))
}

impl Creator {
    pub fn start(options: &Options) -> Result<Self> {
        let (_, xrcd) = open_xrcd(&options.device, &options.file, true)?;
        Ok(Creator {
            xrcd,
            device: Device::open(&options.device, 1)?,
            tgt_qp: None,
        })
    }
}

impl Role for Creator {
    fn ready(&self) -> Report {
        Report::Ready
    }

    fn obey(&mut self, order: Order) -> Result<Report> {
        let Order::Connect(ini) = order else {
            bail!("that is not for me: {order:?}");
        };
        let tgt_qp = self.xrcd.create_tgt_qp()?;
        let device = &self.device;
        tgt_qp.connect(&ini.tgt_attr(device.port(), device.gid().index, device.mtu()))?;
        let address = Address {
            qp_num: tgt_qp.qp_num(),
            psn: 0,
            gid: device.gid().gid,
            lid: device.lid(),
            mtu: device.mtu(),
            rd_atomic: device.rd_atomic(),
        };
        self.tgt_qp = Some(tgt_qp);
        Ok(Report::Connected(Some(address)))
    }
}
