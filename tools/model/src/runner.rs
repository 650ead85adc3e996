// SPDX-License-Identifier: GPL-2.0

//! Runs explorations, as many at a time as there are CPUs, and says what came of them.

use std::{
    env, io,
    process::{Command, ExitCode, Output},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use crate::{mutants::MUTANTS, original};

/// What is to be run.
#[derive(Default)]
pub(crate) struct Selection {
    /// Instead of the bounds that there are.
    pub(crate) preemptions: Option<usize>,
    /// Only what has this in its name.
    pub(crate) filter: Option<String>,
}

/// What is wrong is found with few.
const MUTANT_PREEMPTIONS: usize = 3;

/// An exploration, and what came of it.
struct Exploration {
    scenario: &'static str,
    preemptions: Option<usize>,
    /// Its name and what it must find.
    mutant: Option<(&'static str, &'static str)>,
    outcome: Option<Outcome>,
}

struct Outcome {
    executions: u64,
    time: Duration,
    /// What was violated.
    violation: Option<String>,
}

impl Exploration {
    /// The core as it is violates nothing, a mutant what it should.
    fn has_passed(&self) -> bool {
        let violation = self.outcome.as_ref().map(|outcome| &outcome.violation);

        match (violation, self.mutant) {
            (Some(None), None) => true,
            (Some(Some(violation)), Some((_, finds))) => violation.contains(finds),
            _ => false,
        }
    }

    fn run(&self) -> io::Result<Outcome> {
        let start = Instant::now();
        let output = Command::new(env::current_exe()?)
            .args(["--explore", self.scenario])
            .arg(self.preemptions.map_or("all".to_owned(), |n| n.to_string()))
            .args(self.mutant.map(|(name, _)| name))
            .output()?;

        Ok(Outcome::new(&output, start.elapsed()))
    }
}

impl Outcome {
    /// The number of executions is the first line; in the others, if there are, is the violation.
    fn new(output: &Output, time: Duration) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let (executions, violation) = text.split_once('\n').unwrap_or_default();
        let executions = executions.parse();
        let violation = match (&executions, output.status.success(), violation) {
            (Ok(_), true, "") => None,
            (Ok(_), false, violation) if !violation.is_empty() => Some(violation.to_owned()),
            _ => Some(format!("the process broke: {output:?}")),
        };

        Self {
            executions: executions.unwrap_or(0),
            time,
            violation,
        }
    }
}

/// Runs what is selected.
pub(crate) fn main(selection: &Selection) -> ExitCode {
    let mut explorations = select(selection);
    let start = Instant::now();

    println!("\nrunning {} explorations", explorations.len());
    run_all(&mut explorations);
    for exploration in &explorations {
        report(exploration);
    }
    summarize(&explorations, start.elapsed())
}

fn select(selection: &Selection) -> Vec<Exploration> {
    let is_selected = |name: &str| {
        selection
            .filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter))
    };
    let scenarios = original::protocols::scenarios()
        .into_iter()
        .filter(|scenario| is_selected(scenario.name))
        .map(|scenario| Exploration {
            scenario: scenario.name,
            preemptions: scenario
                .preemptions
                .map(|count| selection.preemptions.unwrap_or(count)),
            mutant: None,
            outcome: None,
        });
    let mutants = MUTANTS
        .iter()
        .filter(|mutant| is_selected(mutant.name))
        .map(|mutant| Exploration {
            scenario: mutant.scenario,
            preemptions: Some(MUTANT_PREEMPTIONS),
            mutant: Some((mutant.name, mutant.finds)),
            outcome: None,
        });

    scenarios.chain(mutants).collect()
}

fn run_all(explorations: &mut [Exploration]) {
    let next = AtomicUsize::new(0);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cpus)
            .map(|_| {
                scope.spawn(|| {
                    let mut outcomes = Vec::new();

                    while let Some((i, exploration)) = {
                        let i = next.fetch_add(1, SeqCst);

                        explorations.get(i).map(|exploration| (i, exploration))
                    } {
                        outcomes.push((i, exploration.run()));
                    }
                    outcomes
                })
            })
            .collect();

        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("it does not panic"))
            .collect()
    });

    for (i, outcome) in outcomes {
        explorations[i].outcome = outcome.ok();
    }
}

fn report(exploration: &Exploration) {
    let what = match exploration.mutant {
        Some((name, _)) => format!("mutant {name}"),
        None => exploration.scenario.to_owned(),
    };

    if exploration.has_passed() {
        println!("test {what} ... ok");
        return;
    }
    println!("test {what} ... FAILED");
    match &exploration.outcome {
        None => println!("    it could not be run"),
        Some(Outcome {
            violation: None, ..
        }) => println!("    nothing was found by {}", exploration.scenario),
        Some(Outcome {
            violation: Some(violation),
            ..
        }) => println!("    {violation}"),
    }
}

fn summarize(explorations: &[Exploration], time: Duration) -> ExitCode {
    let count = |is: &dyn Fn(&&Exploration) -> bool| explorations.iter().filter(is).count();
    let passed = count(&|exploration| exploration.has_passed());
    let failed = explorations.len() - passed;
    let outcomes = |is_mutant| {
        explorations
            .iter()
            .filter(move |exploration| exploration.mutant.is_some() == is_mutant)
            .filter_map(|exploration| Some((exploration, exploration.outcome.as_ref()?)))
    };

    println!(
        "\n{:<42} {:>11} {:>10} {:>8}",
        "explored", "preemptions", "executions", "seconds"
    );
    for (exploration, outcome) in outcomes(false) {
        println!(
            "{:<42} {:>11} {:>10} {:>8.1}",
            exploration.scenario,
            exploration
                .preemptions
                .map_or("all".to_owned(), |count| format!("up to {count}")),
            outcome.executions,
            outcome.time.as_secs_f64()
        );
    }

    let total: u64 = outcomes(false).map(|(_, outcome)| outcome.executions).sum();

    println!("{:<42} {:>11} {total:>10}", "all", "");
    println!("\n{:<28} {:<42} {:>10}", "mutant", "found by", "execution");
    for (exploration, outcome) in outcomes(true) {
        let (name, _) = exploration.mutant.unwrap_or_default();

        println!(
            "{name:<28} {:<42} {:>10}",
            exploration.scenario, outcome.executions
        );
    }
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
         0 filtered out; finished in {:.2}s\n",
        if failed == 0 { "ok" } else { "FAILED" },
        time.as_secs_f64()
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
