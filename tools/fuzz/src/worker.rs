// SPDX-License-Identifier: GPL-2.0

//! A process that makes calls until it is told to stop, or is killed.

use std::{cell::Cell, path::PathBuf, sync::atomic::Ordering::Relaxed, thread};

use anyhow::{Context, Result};

use crate::{
    actor::Actor,
    corpus::Corpus,
    generate,
    kcov::Kcov,
    op::{Sequence, THREADS},
    random::Random,
    scratch::Scratch,
    shared::{Shared, Thread},
    sys,
    world::{World, DEVICES},
};

/// Tags of choices that are not those of what a thread does.
const CORPUS: u32 = 1 << 16;

/// What is done follows from these.
pub struct Options<'a> {
    /// The seed of the run,
    pub seed: u64,
    /// which process it is,
    pub index: u32,
    /// and how many there were before it.
    pub life: u32,
    /// The RDMA device that stays, and the one that comes and goes.
    pub devices: [String; DEVICES],
    /// Where the files of domains are.
    pub dir: PathBuf,
    /// Sequences that covered something new.
    pub corpus: Option<&'a Corpus>,
    /// Sequences to be done over and over instead of all that.
    pub replay: &'a [Sequence],
}

/// Lives.
pub fn live(options: &Options<'_>, shared: &'static Shared) -> Result<()> {
    sys::prepare();
    let world = World::new(options.devices.clone(), &options.dir)?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..u32::from(THREADS))
            .map(|thread| {
                let world = &world;
                scope.spawn(move || {
                    let result = run(options, thread, world, shared);
                    // The others are not to go on alone.
                    result.inspect_err(|error| fail(&format!("{error:#}")))
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|_| fail("a thread panicked"))?;
        }
        Ok(())
    })
}

/// Ends the process. It is for others to say so.
fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}

/// What a thread does as its `n`th sequence.
fn sequence(options: &Options<'_>, thread: u32, n: u32) -> Sequence {
    if !options.replay.is_empty() {
        return options.replay[n as usize % options.replay.len()].clone();
    }
    let mut random = Random::new(options.seed, [options.index, options.life, thread, n]);
    let own = match (thread, n) {
        (0, 0) => generate::setup(&mut random),
        _ => generate::sequence(&mut random),
    };
    let tags = [options.index, options.life, CORPUS + 1 + thread, n];
    let mut random = Random::new(options.seed, tags);
    let mutant = options
        .corpus
        .filter(|_| n > 0 && random.one_in(3))
        .and_then(|corpus| corpus.mutant(&mut random));
    mutant.unwrap_or(own)
}

fn run(options: &Options<'_>, thread: u32, world: &World, shared: &'static Shared) -> Result<()> {
    let index = options.index * u32::from(THREADS) + thread;
    let state: &'static Thread = shared
        .threads
        .get(index as usize)
        .context("too many threads")?;
    state.pid.store(std::process::id(), Relaxed);
    state.tid.store(sys::gettid(), Relaxed);
    world.threads[thread as usize].store(sys::gettid() as i32, Relaxed);
    let mut actor = Actor {
        world,
        shared,
        thread: state,
        scratch: Scratch::new()?,
        kcov: match options.corpus {
            Some(_) => Some(Kcov::start()?),
            None => None,
        },
        new: Cell::new(false),
    };
    for n in 0.. {
        let ops = sequence(options, thread, n);
        state.record(&serde_json::to_string(&ops)?);
        for op in &ops {
            if shared.stop.load(Relaxed) {
                state.tid.store(0, Relaxed);
                return Ok(());
            }
            actor.act(op);
            state.at.fetch_add(1, Relaxed);
        }
        // The first one makes all that there is, which takes long.
        if actor.new.take() && n > 0 {
            if let Some(corpus) = options.corpus {
                shared.kept.fetch_add(1, Relaxed);
                let name = format!(
                    "{}-{}-{}-{thread}-{n}",
                    options.seed, options.index, options.life
                );
                corpus.keep(&name, ops)?;
            }
        }
    }
    Ok(())
}

/// Prints what a thread does, as far as it follows from the seed alone.
pub fn list(seed: u64, index: u32, life: u32, thread: u32, sequences: u32) -> Result<()> {
    let options = Options {
        seed,
        index,
        life,
        devices: Default::default(),
        dir: PathBuf::new(),
        corpus: None,
        replay: &[],
    };
    for n in 0..sequences {
        println!("{}", serde_json::to_string(&sequence(&options, thread, n))?);
    }
    Ok(())
}
