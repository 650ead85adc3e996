// SPDX-License-Identifier: GPL-2.0

//! What is explored.

/// Threads that meet, and what must hold of them.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// How often a thread may be interrupted where it could go on. `None`: all orders are explored.
    pub(crate) preemptions: Option<usize>,
    /// One execution.
    pub(crate) run: fn(),
}

impl Scenario {
    /// All orders are explored.
    pub(crate) const fn new(name: &'static str, run: fn()) -> Self {
        Self {
            name,
            preemptions: None,
            run,
        }
    }

    /// Those with `count` preemptions and less are.
    pub(crate) const fn preemptions(mut self, count: usize) -> Self {
        self.preemptions = Some(count);
        self
    }
}
