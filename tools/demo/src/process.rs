// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A process of the story, seen from the story.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, Context, Result};

use crate::protocol::{Order, Report};

/// The first process of all that failed, and why: those that wait for another one
/// would wait in vain.
static CASUALTY: Mutex<Option<String>> = Mutex::new(None);

fn casualty() -> MutexGuard<'static, Option<String>> {
    CASUALTY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running process. It is killed when it is dropped.
pub struct Process {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    reports: Receiver<Report>,
    patience: Duration,
    /// Told when it may exit.
    dismissed: Arc<AtomicBool>,
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
        let dismissed = Arc::new(AtomicBool::new(false));
        let may_exit = dismissed.clone();
        // It ends with the output of the process.
        thread::spawn(move || {
            let fell = |why: String| {
                casualty().get_or_insert(why);
            };
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(Report::Failed(why)) => fell(format!("process {name} says: {why}")),
                    Err(_) => fell(format!("process {name} said {line:?}")),
                    Ok(report) => {
                        // If nobody waits for it the story is over.
                        let _ = sender.send(report);
                    }
                }
            }
            if !may_exit.load(Ordering::Acquire) {
                fell(format!("process {name} died"));
            }
        });
        Ok(Process {
            name,
            child,
            orders,
            reports,
            patience,
            dismissed,
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
        // If it is gone there will be no report.
        let _ = orders.write_all(line.as_bytes());
        Ok(())
    }

    /// Waits for its report. Any process that fails is an error.
    pub fn report(&mut self) -> Result<Report> {
        const TICK: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + self.patience;
        loop {
            match self.reports.recv_timeout(TICK) {
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Timeout) => (),
                // Its output has ended, but the reader may not have said so yet.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
            }
            if let Some(why) = casualty().take() {
                bail!(why);
            }
            if Instant::now() > deadline {
                bail!(
                    "process {} did not answer in {} s",
                    self.name,
                    self.patience.as_secs()
                );
            }
        }
    }

    /// An error about a report that does not belong here.
    pub fn unexpected(&self, report: Report) -> anyhow::Error {
        anyhow!("process {} reported {report:?} out of turn", self.name)
    }

    /// Lets it exit, and waits until it has.
    pub fn exit(mut self) -> Result<()> {
        self.dismissed.store(true, Ordering::Release);
        self.orders = None;
        let status = self.wait()?;
        if let Some(why) = casualty().take() {
            bail!(why);
        }
        if !status.success() {
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
