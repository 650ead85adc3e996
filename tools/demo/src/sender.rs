// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! S: sends messages, with nothing but libibverbs and `ibxrc::IniQp`.

use std::time::Instant;

use anyhow::{anyhow, bail, Result};
use clap::Args;
use ibxrc_ini::{Device, Send, SenderAttr};

use crate::{
    message::{Random, Stream},
    protocol::{Order, Report, Target, Traffic},
    role::Role,
};

#[derive(Args)]
pub struct Options {
    /// The RDMA device.
    #[arg(long)]
    pub device: String,
    /// Which messages to send.
    #[arg(long)]
    pub seed: u64,
    /// How many receivers there are.
    #[arg(long)]
    pub streams: u32,
    /// Bytes of the longest message.
    #[arg(long)]
    pub max_len: u32,
}

pub struct Sender {
    qp: ibxrc_ini::Sender,
    streams: Vec<Stream>,
    /// Whose turn it is.
    turns: Random,
}

impl Sender {
    pub fn start(options: &Options) -> Result<Self> {
        let device = Device::open(&options.device, 1)?;
        let mut attr = SenderAttr {
            max_len: options.max_len,
            ..Default::default()
        };
        attr.qp.psn = 0x00ab_cdef;
        Ok(Sender {
            qp: ibxrc_ini::Sender::create(&device, attr)?,
            streams: (0..options.streams)
                .map(|stream| Stream::new(options.seed, stream, options.max_len))
                .collect(),
            turns: Random::new(options.seed),
        })
    }

    /// Sends to the targets in a mixed order.
    fn send(&mut self, targets: &mut [Target]) -> Result<Traffic> {
        let mut traffic = Traffic::default();
        let start = Instant::now();
        let mut left: u64 = targets.iter().map(|t| t.messages).sum();
        while left > 0 {
            let mut turn = self.turns.below(left);
            let target = targets
                .iter_mut()
                .find(|target| match turn.checked_sub(target.messages) {
                    None => true,
                    Some(rest) => {
                        turn = rest;
                        false
                    }
                })
                .ok_or_else(|| anyhow!("it is nobody's turn"))?;
            target.messages -= 1;
            left -= 1;

            let message = self
                .streams
                .get_mut(target.stream as usize)
                .and_then(Iterator::next)
                .ok_or_else(|| anyhow!("there is no stream {}", target.stream))?;
            let slot = self.qp.free_slot()?;
            message.write(&mut self.qp.buffer(slot)[..message.len as usize]);
            self.qp.send(Send {
                slot,
                len: message.len,
                srq_num: target.srq_num,
                imm: message.imm,
                solicited: false,
            })?;
            traffic.add(message.len, message.imm.is_some());
        }
        self.qp.drain()?;
        traffic.seconds = start.elapsed().as_secs_f64();
        Ok(traffic)
    }
}

impl Role for Sender {
    fn ready(&self) -> Report {
        Report::Address(self.qp.address())
    }

    fn obey(&mut self, order: Order) -> Result<Report> {
        match order {
            Order::Connect(tgt) => {
                self.qp.connect(&tgt)?;
                Ok(Report::Connected(None))
            }
            Order::Send(mut targets) => Ok(Report::Sent(self.send(&mut targets)?)),
            _ => bail!("that is not for me: {order:?}"),
        }
    }
}
