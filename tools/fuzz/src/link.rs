// SPDX-License-Identifier: GPL-2.0

//! A Soft-RoCE device that comes and goes, on a network interface of its own.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{bail, Context, Result};

use crate::random::Random;

const NETDEV: &str = "ibxrcfuzz";
const ADDRESS: &str = "192.0.2.77/24";

/// What is next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Add,
    Delete,
}

pub struct Link {
    device: String,
    random: Random,
    scale: u32,
    next: Next,
    /// When it is to be done.
    due: Instant,
    /// Who does it, and since when.
    child: Option<(Child, Instant)>,
    pub removals: u64,
    pub slowest: Duration,
}

impl Link {
    /// Makes the network interface.
    pub fn start(device: &str, seed: u64, scale: u32) -> Result<Link> {
        // It may be in the kernel.
        let _ = wait(start("modprobe", &["-q", "dummy"])?);
        // A run that was killed has left one.
        let _ = wait(start("ip", &["link", "del", NETDEV])?);
        wait(start("ip", &["link", "add", NETDEV, "type", "dummy"])?)?;
        let link = Link {
            device: device.to_string(),
            random: Random::new(seed, [u32::MAX, 0, 0, 0]),
            scale,
            next: Next::Add,
            due: Instant::now(),
            child: None,
            removals: 0,
            slowest: Duration::ZERO,
        };
        wait(start("ip", &["addr", "add", ADDRESS, "dev", NETDEV])?)?;
        wait(start("ip", &["link", "set", NETDEV, "up"])?)?;
        Ok(link)
    }

    /// Goes on with it. To be called often.
    pub fn go_on(&mut self) -> Result<()> {
        if let Some((child, since)) = &mut self.child {
            if child.try_wait().context("cannot wait for rdma")?.is_none() {
                return Ok(());
            }
            let took = since.elapsed();
            if let Some((child, _)) = self.child.take() {
                wait(child)?;
            }
            let tenths = match self.next {
                Next::Add => {
                    self.next = Next::Delete;
                    20 + self.random.below(60)
                }
                Next::Delete => {
                    self.next = Next::Add;
                    self.removals += 1;
                    self.slowest = self.slowest.max(took);
                    1 + self.random.below(10)
                }
            };
            self.due = Instant::now() + Duration::from_millis(100) * tenths * self.scale;
        } else if Instant::now() >= self.due {
            let device = &self.device;
            let child = match self.next {
                Next::Add => start(
                    "rdma",
                    &["link", "add", device, "type", "rxe", "netdev", NETDEV],
                ),
                Next::Delete => start("rdma", &["link", "del", device]),
            };
            self.child = Some((child?, Instant::now()));
        }
        Ok(())
    }

    /// Whether there is no device. Else it goes at once.
    pub fn is_gone(&mut self) -> bool {
        self.due = match self.next {
            Next::Add => Instant::now() + Duration::from_secs(3600),
            Next::Delete => Instant::now(),
        };
        self.child.is_none() && self.next == Next::Add
    }

    /// The process that takes it away or brings it back, if it has done so for that long.
    pub fn stuck(&self, patience: Duration) -> Option<u32> {
        let (child, since) = self.child.as_ref()?;
        (since.elapsed() > patience).then(|| child.id())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It takes the device with it.
        if let Ok(child) = start("ip", &["link", "del", NETDEV]) {
            let _ = wait(child);
        }
    }
}

fn start(program: &str, arguments: &[&str]) -> Result<Child> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} {}", arguments.join(" ")))
}

fn wait(mut child: Child) -> Result<()> {
    let status = child.wait().context("cannot wait for a process")?;
    if !status.success() {
        let mut said = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        bail!("{status}: {}", said.trim());
    }
    Ok(())
}
