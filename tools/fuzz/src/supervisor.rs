// SPDX-License-Identifier: GPL-2.0

//! Starts the processes, kills some, interrupts what sleeps, and sees that all goes on.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, Context, Result};

use crate::{
    child::Child,
    corpus::{self, Corpus},
    kernel_log::KernelLog,
    link::Link,
    op::{Sequence, THREADS},
    peer, process,
    random::Random,
    report,
    shared::{Shared, Thread},
    sys, worker, Run,
};

/// The device that comes and goes.
const PASSING: &str = "ibxrcfuzz0";
const TICK: Duration = Duration::from_millis(100);
/// A thread that has done nothing for so long is interrupted.
const IMPATIENCE: Duration = Duration::from_millis(300);
/// And after that it hangs. So does a process that was killed, and the end. Times the scale.
const PATIENCE: Duration = Duration::from_secs(60);
/// What takes the device away waits for all who are in the module, and its driver for more.
const LINK_PATIENCE: Duration = Duration::from_secs(150);
const PROGRESS: Duration = Duration::from_secs(10);
/// In runs that are at least so long each method succeeds.
const ALL_METHODS: u64 = 60;

/// A process.
struct Worker {
    index: u32,
    life: u32,
    child: Child,
    killed: Option<Instant>,
    threads: Vec<Watch>,
}

/// What a thread has done, and since when.
struct Watch {
    thread: &'static Thread,
    done: u64,
    since: Instant,
    interrupted: Instant,
}

struct Supervisor<'a> {
    run: &'a Run,
    seed: u64,
    shared: &'static Shared,
    dir: PathBuf,
    corpus: Option<Corpus>,
    replay: Vec<Sequence>,
    workers: Vec<Worker>,
    deaths: u64,
    patience: Duration,
}

/// Runs it all.
pub fn supervise(run: &Run, seed: u64, guided: bool) -> Result<()> {
    let dir = tempfile::tempdir().context("cannot make a directory")?;
    let shared = Shared::create()?;
    let mut corpus = match guided {
        true => Some(Corpus::new(dir.path().join("corpus"))?),
        false => None,
    };
    if let (Some(corpus), Some(file)) = (&mut corpus, &run.corpus) {
        corpus.load(file)?;
    }
    let replay = match &run.replay {
        Some(file) => corpus::read(file)?,
        None => Vec::new(),
    };
    let mut log = KernelLog::open()?;
    let mut link =
        Link::start(PASSING, seed, run.scale).context("no device that comes and goes")?;
    peer::prepare();
    let mut supervisor = Supervisor {
        run,
        seed,
        shared,
        dir: dir.path().to_path_buf(),
        corpus,
        replay,
        workers: Vec::new(),
        deaths: 0,
        patience: PATIENCE * run.scale,
    };
    let start = Instant::now();
    let result = supervisor
        .work(&mut link, &mut log, start)
        .and_then(|()| supervisor.end(&mut link));
    if result.is_err() {
        supervisor.tell_all();
    }
    for worker in &mut supervisor.workers {
        // One that hangs is not waited for.
        worker.child.kill();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", report::progress(shared, seconds, 0, seconds));
    println!(
        "{} removals of the device, {:.1} s at most; {} processes killed",
        link.removals,
        link.slowest.as_secs_f64(),
        supervisor.deaths
    );
    print!("{}", report::methods_table(shared));
    if let (Some(corpus), Some(file)) = (&mut supervisor.corpus, &run.corpus) {
        corpus.gather()?;
        corpus.save(file)?;
    }
    if let Some(file) = &run.coverage {
        let lines: Vec<_> = shared.coverage().map(|at| format!("{at:#x}\n")).collect();
        fs::write(file, lines.concat())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    result.with_context(|| format!("seed {seed}"))?;
    nothing_is_left(supervisor.patience)?;
    if let Some(complaint) = log.complaint() {
        bail!("the kernel said: {complaint}");
    }
    let never = report::never(shared);
    if run.seconds >= ALL_METHODS && run.replay.is_none() && !never.is_empty() {
        bail!("never succeeded: {}", never.join(", "));
    }
    Ok(())
}

impl Supervisor<'_> {
    fn spawn(&mut self, index: u32, life: u32) -> Result<Worker> {
        if let Some(corpus) = &mut self.corpus {
            corpus.gather()?;
        }
        let options = worker::Options {
            seed: self.seed,
            index,
            life,
            devices: [self.run.device.clone(), PASSING.to_string()],
            dir: self.dir.clone(),
            corpus: self.corpus.as_ref(),
            replay: &self.replay,
        };
        let shared = self.shared;
        let child = Child::start(|| worker::live(&options, shared));
        let child = child.context("cannot start a process")?;
        let now = Instant::now();
        let threads = (0..u32::from(THREADS)).map(|thread| {
            let n = (index * u32::from(THREADS) + thread) as usize;
            let thread = &self.shared.threads[n];
            // Of the process before.
            thread.tid.store(0, Relaxed);
            Watch {
                thread,
                done: thread.done.load(Relaxed),
                since: now,
                interrupted: now,
            }
        });
        Ok(Worker {
            index,
            life,
            child,
            killed: None,
            threads: threads.collect(),
        })
    }

    fn work(&mut self, link: &mut Link, log: &mut KernelLog, start: Instant) -> Result<()> {
        let mut random = Random::new(self.seed, [u32::MAX, 1, 0, 0]);
        for index in 0..self.run.processes {
            let worker = self.spawn(index, 0)?;
            self.workers.push(worker);
        }
        let end = start + Duration::from_secs(self.run.seconds);
        let mut told = (start, 0);
        let mut next_death = start + Duration::from_secs(5);
        loop {
            thread::sleep(TICK);
            let now = Instant::now();
            if let Some(complaint) = log.complaint() {
                bail!("the kernel said: {complaint}");
            }
            if now >= next_death {
                // Every few seconds, more rarely where it takes long to start again.
                let tenths = 30 + random.below(70);
                next_death = now + Duration::from_millis(100) * tenths * self.run.scale;
                let which = random.below(self.run.processes) as usize;
                self.kill(which);
            }
            for which in 0..self.workers.len() {
                self.look_after(which)?;
            }
            self.look_after_link(link)?;
            if now - told.0 >= PROGRESS {
                let seconds = (now - start).as_secs_f64();
                let since = (now - told.0).as_secs_f64();
                println!("{}", report::progress(self.shared, seconds, told.1, since));
                told = (now, self.shared.calls());
            }
            if now >= end {
                return Ok(());
            }
        }
    }

    fn look_after_link(&self, link: &mut Link) -> Result<()> {
        link.go_on().context("the device that comes and goes")?;
        if let Some(pid) = link.stuck(LINK_PATIENCE * self.run.scale) {
            print!("{}", process::stacks(pid));
            bail!("the device does not come or go");
        }
        Ok(())
    }

    fn kill(&mut self, which: usize) {
        let worker = &mut self.workers[which];
        if worker.killed.is_none() {
            worker.child.kill();
            worker.killed = Some(Instant::now());
            self.deaths += 1;
        }
    }

    /// Sees that a process goes on; starts another one if it was killed.
    fn look_after(&mut self, which: usize) -> Result<()> {
        let patience = self.patience;
        let worker = &mut self.workers[which];
        let (index, life) = (worker.index, worker.life);
        let ended = worker.child.ended().context("cannot wait for a process")?;
        if let Some(status) = ended {
            if worker.killed.is_none() || status.signal() != Some(libc::SIGKILL) {
                self.tell(which);
                bail!("process {index}, life {life}: {status}");
            }
            self.workers[which] = self.spawn(index, life + 1)?;
            return Ok(());
        }
        if let Some(since) = worker.killed {
            if since.elapsed() > patience {
                bail!("process {index}, life {life} does not die");
            }
        } else if let Some(thread) = worker.stuck(patience) {
            bail!("process {index}, life {life}, thread {thread} hangs");
        }
        Ok(())
    }

    /// Has all processes end.
    fn end(&mut self, link: &mut Link) -> Result<()> {
        self.shared.stop.store(true, Relaxed);
        let end = Instant::now() + LINK_PATIENCE * self.run.scale;
        loop {
            let mut left = usize::from(!link.is_gone());
            self.look_after_link(link)?;
            for which in 0..self.workers.len() {
                let worker = &mut self.workers[which];
                match worker.child.ended().context("cannot wait for a process")? {
                    Some(status) if status.success() || worker.killed.is_some() => (),
                    Some(status) => {
                        let (index, life) = (worker.index, worker.life);
                        self.tell(which);
                        bail!("process {index}, life {life}: {status}");
                    }
                    None => {
                        left += 1;
                        worker.stuck(Duration::MAX);
                    }
                }
            }
            if left == 0 {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{left} processes do not end");
            }
            thread::sleep(TICK);
        }
    }

    /// What a process was about to do.
    fn tell(&self, which: usize) {
        let worker = &self.workers[which];
        println!(
            "process {} ({}), life {}: sequences, and where in them:",
            worker.index,
            worker.child.id(),
            worker.life
        );
        for watch in &worker.threads {
            let at = watch.thread.at.load(Relaxed);
            println!("  {at} of {}", watch.thread.recorded());
        }
    }

    /// What all are about to do, and where they are.
    fn tell_all(&self) {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        println!("load {}", load.trim());
        for which in 0..self.workers.len() {
            self.tell(which);
            print!("{}", process::stacks(self.workers[which].child.id()));
            for watch in &self.workers[which].threads {
                println!(
                    "  thread {}: {:.1} s since it did something",
                    watch.thread.tid.load(Relaxed),
                    watch.since.elapsed().as_secs_f64()
                );
            }
        }
    }
}

impl Worker {
    /// Interrupts threads that wait for something. The id of one that has done so for too
    /// long.
    fn stuck(&mut self, patience: Duration) -> Option<u32> {
        for watch in &mut self.threads {
            let done = watch.thread.done.load(Relaxed);
            if done != watch.done {
                watch.done = done;
                watch.since = Instant::now();
            } else if watch.since.elapsed() > patience {
                return Some(watch.thread.tid.load(Relaxed));
            } else if watch.since.elapsed() > IMPATIENCE && watch.interrupted.elapsed() > IMPATIENCE
            {
                watch.interrupted = Instant::now();
                sys::interrupt(self.child.id(), watch.thread.tid.load(Relaxed));
            }
        }
        None
    }
}

/// Nothing of the module is left on any device, and nobody has it open.
fn nothing_is_left(patience: Duration) -> Result<()> {
    let end = Instant::now() + patience;
    loop {
        let left = left()?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("left over: {left}");
        }
        thread::sleep(TICK);
    }
}

fn left() -> Result<String> {
    let count = fs::read_to_string(Path::new("/sys/module/ib_xrc/refcnt"));
    let count = count.context("cannot see who uses the module")?;
    if count.trim() != "0" {
        return Ok(format!("use count {}", count.trim()));
    }
    for kind in ["pd", "cq", "qp", "mr", "srq"] {
        let output = Command::new("rdma")
            .args(["resource", "show", kind])
            .output();
        let output = output.context("rdma resource show")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(line) = text.lines().find(|line| line.contains("[ib_xrc]")) {
            return Ok(format!("{kind} {line}"));
        }
    }
    Ok(String::new())
}
