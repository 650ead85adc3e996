// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A process of the story: does what it is told, and exits when nobody tells it
//! anything any more.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
};

use anyhow::{Context, Result};
use rustix::process::{set_parent_process_death_signal, Signal};

use crate::protocol::{Order, Report};

/// One of the processes A, B, C and S.
pub trait Role: Sized {
    /// What it reports when it is ready.
    fn ready(&self) -> Report;

    /// Does what it is told.
    fn obey(&mut self, order: Order) -> Result<Report>;
}

/// Lives the life of a process that is started like this.
pub fn play<R: Role>(start: impl FnOnce() -> Result<R>) -> ExitCode {
    match live(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the story is gone there is nobody to tell.
            let _ = tell(&Report::Failed(format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn live<R: Role>(start: impl FnOnce() -> Result<R>) -> Result<()> {
    // Whatever we are doing when the story is killed, nobody waits for it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut role = start()?;
    tell(&role.ready())?;
    for line in io::stdin().lock().lines() {
        let line = line.context("cannot read an order")?;
        let order = serde_json::from_str(&line).context("an order makes no sense")?;
        tell(&role.obey(order)?)?;
    }
    // Whatever the process still has goes with it: nothing is closed here, as if it had
    // been killed.
    std::mem::forget(role);
    Ok(())
}

fn tell(report: &Report) -> Result<()> {
    let mut line = serde_json::to_string(report)?;
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
        .context("cannot report")
}
