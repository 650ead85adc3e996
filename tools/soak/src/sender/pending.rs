// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A work request that may not be done.

use std::ops::Range;

use crate::{schedule::Step, tally::Kind};

/// What is to be seen to when a work request is done.
pub enum Then {
    Nothing,
    /// This was read from the area.
    Compare(Vec<u8>),
    /// So many were taken from the mailbox.
    Taken,
    Added,
    Swapped {
        compare: u64,
    },
}

/// A work request that may not be done.
pub struct Pending {
    pub id: u64,
    /// `None`: it is not of the schedule.
    pub kind: Option<Kind>,
    pub opcode: u32,
    pub target: usize,
    pub range: Range<usize>,
    /// It gives memory of the arena back.
    pub gives_back: bool,
    pub fence: bool,
    pub signaled: bool,
    pub then: Then,
}

impl Pending {
    /// Memory of the arena goes with it. The rest is up to whoever posts it.
    pub fn new(step: &Step, kind: Kind, opcode: u32, range: Range<usize>) -> Self {
        Pending {
            id: 0,
            kind: Some(kind),
            opcode,
            target: step.target,
            range,
            gives_back: true,
            fence: step.fence,
            signaled: step.signaled,
            then: Then::Nothing,
        }
    }

    /// One that is not of the schedule, and is signaled.
    pub fn extra(target: usize, opcode: u32, range: Range<usize>) -> Self {
        Pending {
            id: 0,
            kind: None,
            opcode,
            target,
            range,
            gives_back: true,
            fence: false,
            signaled: true,
            then: Then::Nothing,
        }
    }
}
