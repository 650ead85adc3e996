// SPDX-License-Identifier: GPL-2.0

//! A process that goes on from where this one is.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{exit, ExitStatus},
};

use anyhow::Result;

use crate::sys;

pub struct Child {
    pid: u32,
    status: Option<ExitStatus>,
}

impl Child {
    /// Has it do something, and exit. This process must not have other threads.
    pub fn start(what: impl FnOnce() -> Result<()>) -> io::Result<Child> {
        let pid = sys::fork()?;
        if pid == 0 {
            exit(match what() {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("{error:#}");
                    1
                }
            });
        }
        Ok(Child { pid, status: None })
    }

    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Kills it, if it has not ended yet.
    pub fn kill(&self) {
        if self.status.is_none() {
            sys::kill(self.pid);
        }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = sys::ended(self.pid)?.map(ExitStatus::from_raw);
        }
        Ok(self.status)
    }
}
