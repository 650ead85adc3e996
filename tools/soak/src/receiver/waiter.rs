// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A CQ that is polled, or waited for; no event that is due may fail to come.

use std::time::Duration;

use anyhow::{ensure, Result};
use ibxrc::{CompChannel, Context, Cq, Wc};

/// What an armed CQ is to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    /// Nothing that we can be sure of.
    No,
    /// The next completion that is polled.
    Next,
    /// The next one that is solicited.
    Solicited,
}

pub struct Waiter {
    pub cq: Cq,
    channel: CompChannel,
    user_handle: u64,
    armed: Armed,
    /// Events that came.
    pub events: u64,
}

impl Waiter {
    pub fn create(context: &Context, entries: usize, user_handle: u64) -> Result<Self> {
        let channel = context.create_comp_channel()?;
        let cq = context.create_cq(entries as u32, Some(&channel), user_handle)?;
        Ok(Waiter {
            cq,
            channel,
            user_handle,
            armed: Armed::No,
            events: 0,
        })
    }

    /// Takes completions. If there is one that an event was due for, the event has to come
    /// within `patience`.
    pub fn poll(&mut self, wcs: &mut [Wc], patience: Duration) -> Result<usize> {
        let n = self.cq.poll(wcs)?;
        let due = match self.armed {
            Armed::No => false,
            Armed::Next => n > 0,
            Armed::Solicited => wcs[..n]
                .iter()
                .any(|wc| wc.solicited || !wc.status.is_success()),
        };
        if due {
            let armed = self.armed;
            ensure!(
                self.wait(patience)?,
                "a wake-up is lost: CQ {:#x} was armed ({armed:?}), {:?} has completed, and no \
                 event came in {} s",
                self.user_handle,
                &wcs[..n],
                patience.as_secs()
            );
        }
        Ok(n)
    }

    /// Asks for an event. `false`: there are completions already.
    pub fn arm(&mut self, solicited_only: bool) -> Result<bool> {
        // An older event says nothing about what comes now.
        self.wait(Duration::ZERO)?;
        if self.cq.arm(solicited_only) {
            // Of these no event tells, and of the next one it may.
            self.armed = Armed::No;
            return Ok(false);
        }
        self.armed = match solicited_only {
            true => Armed::Solicited,
            false => Armed::Next,
        };
        Ok(true)
    }

    /// Waits for an event, and takes it.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        let Some(event) = self.channel.wait_timeout(timeout)? else {
            return Ok(false);
        };
        ensure!(
            event.user_handle == self.user_handle,
            "an event of {:#x} instead of {:#x}",
            event.user_handle,
            self.user_handle
        );
        self.armed = Armed::No;
        self.events += 1;
        Ok(true)
    }

    pub fn channel(&self) -> &CompChannel {
        &self.channel
    }

    pub fn close(self) -> Result<()> {
        self.cq.close()?;
        self.channel.close()?;
        Ok(())
    }
}
