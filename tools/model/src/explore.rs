// SPDX-License-Identifier: GPL-2.0

//! Explores one scenario, in a process of its own: a violation ends it at once, with whatever loom
//! and the threads of the scenario are in.

use std::{
    panic,
    process::{self, ExitCode},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use loom::{model::Builder, thread};

use crate::{mutants::MUTANTS, original};

/// What is explored in this process has executions, the last of which violates something.
const VIOLATED: i32 = 1;

static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

/// The other threads have the first turn.
static OTHERS_FIRST: AtomicBool = AtomicBool::new(false);

/// The threads of a scenario are there, and the calling one is about to do its part.
pub(crate) fn start() {
    if OTHERS_FIRST.load(SeqCst) {
        thread::yield_now();
    }
}

/// Explores what the arguments name. Prints the number of executions, and what is violated.
pub(crate) fn main(mut args: impl Iterator<Item = String>) -> ExitCode {
    let (Some(scenario), Some(preemptions), mutant) = (args.next(), args.next(), args.next())
    else {
        return ExitCode::FAILURE;
    };
    let scenario = original::protocols::scenarios()
        .into_iter()
        .find(|known| known.name == scenario)
        .expect("there is such a scenario");
    let run = match mutant {
        None => scenario.run,
        Some(name) => {
            MUTANTS
                .iter()
                .find(|mutant| mutant.name == name)
                .expect("there is such a mutant")
                .run
        }
    };

    panic::set_hook(Box::new(|info| {
        println!("{}\n{info}", EXECUTIONS.load(SeqCst));
        process::exit(VIOLATED);
    }));
    // loom compares an access with the last one only. A write that follows a read by the same thread
    // may so escape it, for which others have read before; not if it comes first.
    for others_first in [false, true] {
        OTHERS_FIRST.store(others_first, SeqCst);
        explore(run, preemptions.parse().ok());
    }
    println!("{}", EXECUTIONS.load(SeqCst));
    ExitCode::SUCCESS
}

/// To the end: nothing but the preemptions is bounded, also by the environment.
fn explore(run: fn(), preemptions: Option<usize>) {
    let mut builder = Builder::new();

    builder.max_threads = 4;
    builder.max_branches = 10_000;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.preemption_bound = preemptions;
    builder.checkpoint_file = None;
    builder.check(move || {
        EXECUTIONS.fetch_add(1, SeqCst);
        run();
    });
}
