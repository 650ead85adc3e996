// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! B and C: receive messages, and check that each is the one that was to come.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, Result};
use clap::Args;
use ibxrc::{ReceiverAttr, TgtQp, Xrcd};

use crate::{
    creator::open_xrcd,
    message::Stream,
    protocol::{Order, Report, Traffic},
    role::Role,
};

#[derive(Args)]
pub struct Options {
    /// The RDMA device.
    #[arg(long)]
    pub device: String,
    /// The file whose domain is to be opened.
    #[arg(long)]
    pub file: PathBuf,
    /// Which messages are to come.
    #[arg(long)]
    pub seed: u64,
    /// Which of them are for us.
    #[arg(long)]
    pub stream: u32,
    /// Bytes of the longest.
    #[arg(long)]
    pub max_len: u32,
    /// How long to wait for the next message, in seconds.
    #[arg(long)]
    pub patience: u64,
}

pub struct Receiver {
    receiver: ibxrc::Receiver,
    xrcd: Xrcd,
    tgt_qp: Option<TgtQp>,
    stream: Stream,
    received: u64,
    patience: Duration,
}

impl Receiver {
    pub fn start(options: &Options) -> Result<Self> {
        let (context, xrcd) = open_xrcd(&options.device, &options.file, false)?;
        let attr = ReceiverAttr {
            buffers: 64,
            buffer_size: options.max_len,
        };
        Ok(Receiver {
            receiver: ibxrc::Receiver::new(&context, &xrcd, attr)?,
            xrcd,
            tgt_qp: None,
            stream: Stream::new(options.seed, options.stream, options.max_len),
            received: 0,
            patience: Duration::from_secs(options.patience),
        })
    }

    /// Receives the next message of the stream. Returns its length and whether it has
    /// immediate data.
    fn receive(&mut self) -> Result<(u32, bool)> {
        let number = self.received;
        let expected = self
            .stream
            .next()
            .ok_or_else(|| anyhow!("the stream has an end"))?;
        let Some(message) = self.receiver.receive(Some(self.patience))? else {
            bail!(
                "message {number} did not come in {} s",
                self.patience.as_secs()
            );
        };
        let wc = message.wc();
        if wc.byte_len != expected.len || wc.imm != expected.imm {
            bail!(
                "message {number} should have {} bytes and immediate data {:x?}, but has {} and \
                 {:x?}",
                expected.len,
                expected.imm,
                wc.byte_len,
                wc.imm
            );
        }
        if let Err(at) = expected.check(&message) {
            bail!("message {number} is wrong at byte {at} of {}", expected.len);
        }
        if let Some(tgt_qp) = &self.tgt_qp {
            if wc.qp_num != tgt_qp.qp_num() {
                bail!(
                    "message {number} came through QP {} instead of {}",
                    wc.qp_num,
                    tgt_qp.qp_num()
                );
            }
        }
        self.received += 1;
        Ok((expected.len, expected.imm.is_some()))
    }
}

impl Role for Receiver {
    fn ready(&self) -> Report {
        Report::Listening {
            srq_num: self.receiver.srq_num(),
        }
    }

    fn obey(&mut self, order: Order) -> Result<Report> {
        match order {
            Order::Register { qp_num } => {
                let tgt_qp = self.xrcd.open_tgt_qp(qp_num)?;
                let (_, info) = tgt_qp.query()?;
                self.tgt_qp = Some(tgt_qp);
                Ok(Report::Registered { refs: info.refs })
            }
            Order::Receive { messages } => {
                let mut traffic = Traffic::default();
                let mut start = Instant::now();
                for i in 0..messages {
                    let (len, with_imm) = self.receive()?;
                    if i == 0 {
                        start = Instant::now();
                    }
                    traffic.add(len, with_imm);
                }
                traffic.seconds = start.elapsed().as_secs_f64();
                Ok(Report::Received(traffic))
            }
            _ => bail!("that is not for me: {order:?}"),
        }
    }
}
