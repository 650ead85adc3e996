// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A process of the story, seen from the story.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, Context, Result};

use crate::protocol::{Order, Report};

/// A running process. It is killed when it is dropped.
pub struct Process {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    reports: Receiver<Report>,
    patience: Duration,
}

impl Process {
    /// Starts one. `patience` is how long it may take for a report.
    pub fn start(name: &'static str, arguments: &[String], patience: Duration) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start process {name}"))?;
        let orders = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| anyhow!("process {name} has no output"))?;
        let (sender, reports) = mpsc::channel();
        // It ends with the output of the process.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let report = serde_json::from_str(&line)
                    .unwrap_or_else(|_| Report::Failed(format!("it said {line:?}")));
                if sender.send(report).is_err() {
                    break;
                }
            }
        });
        Ok(Process {
            name,
            child,
            orders,
            reports,
            patience,
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives it an order.
    pub fn order(&mut self, order: &Order) -> Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        let Some(orders) = &mut self.orders else {
            bail!("process {} takes no orders any more", self.name);
        };
        if orders.write_all(line.as_bytes()).is_err() {
            // It must have said why.
            self.report()?;
            bail!("process {} is gone", self.name);
        }
        Ok(())
    }

    /// Waits for its report.
    pub fn report(&mut self) -> Result<Report> {
        match self.reports.recv_timeout(self.patience) {
            Ok(Report::Failed(why)) => bail!("process {} says: {why}", self.name),
            Ok(report) => Ok(report),
            Err(RecvTimeoutError::Timeout) => bail!(
                "process {} did not answer in {} s",
                self.name,
                self.patience.as_secs()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                bail!("process {} died ({status})", self.name)
            }
        }
    }

    /// An error about a report that does not belong here.
    pub fn unexpected(&self, report: Report) -> anyhow::Error {
        anyhow!("process {} reported {report:?} out of turn", self.name)
    }

    /// Lets it exit, and waits until it has.
    pub fn exit(mut self) -> Result<()> {
        self.orders = None;
        let status = self.wait()?;
        if !status.success() {
            // It may have told.
            self.report()?;
            bail!("process {} failed ({status})", self.name);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!(
                    "process {} did not exit in {} s",
                    self.name,
                    self.patience.as_secs()
                );
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
