// SPDX-License-Identifier: GPL-2.0

//! Calls the module as no program should: a fuzzer that knows its methods.
//!
//! Several processes of several threads each make calls that are right, and calls that are
//! wrong in all ways that there are; write to rings; map, close and pass descriptors; send
//! what no sender should; fork and are killed, while one of the devices comes and goes. What
//! a process does follows from the seed, the number of the process, and how many there were
//! in its place before. Where the kernel has kcov, sequences that ran new code of the module
//! are kept, and mutants of them are mixed in.

mod actor;
mod child;
mod corpus;
mod generate;
mod kcov;
mod kernel_log;
mod link;
mod mapping;
mod message;
mod mutate;
mod op;
mod peer;
mod process;
mod random;
mod report;
mod scratch;
mod shared;
mod supervisor;
mod sys;
mod table;
mod value;
mod worker;
mod world;

use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Calls the module as no program should.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    run: Run,

    #[command(subcommand)]
    command: Option<Command>,
}

/// What to do.
#[derive(Args)]
struct Run {
    /// How long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What is done follows from this number; without it, it is another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// The RDMA device.
    #[arg(long, env = "XRC_DEVICE", default_value = "rxe0")]
    device: String,
    /// Processes at a time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    processes: u32,
    /// A file of sequences that covered something new, to begin with and to be added to.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// A file for the offsets in the module's code (.text) that were run.
    #[arg(long)]
    coverage: Option<PathBuf>,
    /// Do what follows from the seed only.
    #[arg(long)]
    unguided: bool,
    /// Do the sequences of this file over and over.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// How much slower than usual the kernel is.
    #[arg(long, env = "XRC_TIME_SCALE", default_value_t = 1)]
    scale: u32,
}

#[derive(Subcommand)]
enum Command {
    /// Print what a thread does, a sequence a line, as JSON.
    List {
        /// The seed of the run.
        #[arg(long)]
        seed: u64,
        /// Which of the processes.
        #[arg(long, default_value_t = 0)]
        index: u32,
        /// How many there were before in its place.
        #[arg(long, default_value_t = 0)]
        life: u32,
        /// Which of its threads.
        #[arg(long, default_value_t = 0)]
        thread: u32,
        /// How many sequences.
        #[arg(long, default_value_t = 10)]
        sequences: u32,
    },
}

fn main() -> ExitCode {
    let Arguments { run, command } = Arguments::parse();
    let result = match command {
        Some(Command::List {
            seed,
            index,
            life,
            thread,
            sequences,
        }) => worker::list(seed, index, life, thread, sequences),
        None => fuzz(run),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(run: Run) -> Result<()> {
    // A random number, of 32 bits so that it can be typed.
    let seed = run
        .seed
        .unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    let guided = !run.unguided && run.replay.is_none() && kcov::Kcov::is_there();
    println!(
        "seed {seed}, {} s, {} processes of {} threads, {}",
        run.seconds,
        run.processes,
        op::THREADS,
        match guided {
            true => "guided by kcov",
            false => "not guided",
        }
    );
    supervisor::supervise(&run, seed, guided)
}
