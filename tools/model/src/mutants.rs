// SPDX-License-Identifier: GPL-2.0

//! The core with one thing wrong, in many ways: the model is worth what it finds.

/// One of them.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What is wrong.
    pub(crate) what: &'static str,
    /// What finds it.
    pub(crate) scenario: &'static str,
    /// A part of what is said then.
    pub(crate) finds: &'static str,
    /// The scenario, with the mutant.
    pub(crate) run: fn(),
}

// Made by `build.rs`.
include!(concat!(env!("OUT_DIR"), "/mutants.rs"));
