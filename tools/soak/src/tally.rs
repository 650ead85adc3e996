// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What was done, counted.

use std::{fmt, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::random::scramble;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    CompareSwap,
    FetchAdd,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Send,
        Kind::SendImm,
        Kind::Write,
        Kind::WriteImm,
        Kind::Read,
        Kind::CompareSwap,
        Kind::FetchAdd,
    ];

    /// As the verbs call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Send => "SEND",
            Kind::SendImm => "SEND_WITH_IMM",
            Kind::Write => "RDMA_WRITE",
            Kind::WriteImm => "RDMA_WRITE_WITH_IMM",
            Kind::Read => "RDMA_READ",
            Kind::CompareSwap => "ATOMIC_CMP_AND_SWP",
            Kind::FetchAdd => "ATOMIC_FETCH_AND_ADD",
        }
    }

    /// Whether a receiver is told of it.
    pub fn is_received(self) -> bool {
        matches!(self, Kind::Send | Kind::SendImm | Kind::WriteImm)
    }
}

/// How many, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub messages: u64,
    pub bytes: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// A count for each operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally([Count; Kind::ALL.len()]);

impl Tally {
    /// Counts one of `len` bytes.
    pub fn add(&mut self, kind: Kind, len: usize) {
        self.0[kind as usize] += Count {
            messages: 1,
            bytes: len as u64,
        };
    }

    /// How many there were of a kind.
    pub fn of(&self, kind: Kind) -> Count {
        self.0[kind as usize]
    }

    /// All of those that `which` picks.
    pub fn sum(&self, which: impl Fn(Kind) -> bool) -> Count {
        let mut sum = Count::default();
        for kind in Kind::ALL.into_iter().filter(|kind| which(*kind)) {
            sum += self.of(kind);
        }
        sum
    }

    /// The tally of what a receiver is told of.
    pub fn received(&self) -> Tally {
        let mut received = self.clone();
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_received()) {
            received.0[kind as usize] = Count::default();
        }
        received
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            *count += *other;
        }
    }
}

impl fmt::Display for Tally {
    /// A line for each operation, and their sum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name, count: Count| {
            writeln!(
                f,
                "{name:<20} {:>9} messages {:>14} bytes",
                count.messages, count.bytes
            )
        };
        for kind in Kind::ALL {
            line(kind.name(), self.of(kind))?;
        }
        line("sum", self.sum(|_| true))
    }
}

/// A set of numbers, told from any other one by their count and a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    pub count: u64,
    sum: u64,
}

impl Numbers {
    /// Adds one.
    pub fn add(&mut self, number: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(scramble(number));
    }

    /// The first `count` numbers from `start` on.
    pub fn from(start: u64, count: u64) -> Self {
        let mut numbers = Numbers::default();
        for i in 0..count {
            numbers.add(start.wrapping_add(i));
        }
        numbers
    }
}

impl AddAssign for Numbers {
    fn add_assign(&mut self, other: Numbers) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tally_has_a_line_for_each() {
        let mut tally = Tally::default();
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            tally.add(kind, 10 * i);
            tally.add(kind, 1);
        }
        assert_eq!(tally.to_string().lines().count(), 8);
        assert_eq!(
            tally.sum(|_| true),
            Count {
                messages: 14,
                bytes: 217
            }
        );
        let received = tally.received();
        assert_eq!(received.of(Kind::Write), Count::default());
        assert_eq!(received.sum(|_| true), tally.sum(Kind::is_received));
    }

    proptest! {
        #[test]
        fn a_number_twice_is_seen(start in any::<u64>(), n in 2u64..50, at in 0u64..50) {
            let at = at % n;
            let mut numbers = Numbers::default();
            for i in (0..n).rev() {
                // One of them instead of its neighbour.
                let i = if i == at { (at + 1) % n } else { i };
                numbers.add(start.wrapping_add(i));
            }
            prop_assert_ne!(numbers, Numbers::from(start, n));
        }

        #[test]
        fn parts_make_up_the_set(start in any::<u64>(), n in 0u64..50, m in 0u64..50) {
            let mut numbers = Numbers::from(start.wrapping_add(n), m);
            numbers += Numbers::from(start, n);
            prop_assert_eq!(numbers, Numbers::from(start, n + m));
        }
    }
}
