// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What a connection does, one thing after the other.

use std::ops::Range;

use crate::{
    content::Content,
    mix::Mix,
    random::Random,
    size::{size, MAX_LEN},
};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the next message of the stream.
    Message,
    /// RDMA WRITE to the area.
    Write {
        /// Where.
        place: Range<usize>,
        /// What.
        content: Content,
    },
    /// RDMA READ of the area.
    Read {
        /// Where.
        place: Range<usize>,
    },
    /// Add one to the word that all add to.
    FetchAdd,
    /// Count on in the word that all swap.
    CompareSwap,
}

/// A thing to do, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which of the SRQs of the domain it is about.
    pub target: usize,
    pub action: Action,
    pub fence: bool,
    pub signaled: bool,
}

/// What the connection of a sender to a domain does, without end.
#[derive(Clone, Debug)]
pub struct Schedule {
    random: Random,
    mix: Mix,
    targets: u64,
}

impl Schedule {
    /// `targets`: the SRQs of the domain.
    pub fn new(mix: Mix, sender: usize, domain: usize, targets: usize) -> Self {
        Schedule {
            mix,
            random: Random::new(mix.seed, &[2, sender as u64, domain as u64]),
            targets: targets as u64,
        }
    }

    fn place(&mut self) -> Range<usize> {
        let len = self.mix.one_sided(size(&mut self.random));
        let at = self.random.below((MAX_LEN - len + 1) as u64) as usize;
        at..at + len
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let target = self.random.below(self.targets) as usize;
        let action = match self.random.below(20) {
            0..=10 => Action::Message,
            11..=13 => Action::Write {
                place: self.place(),
                content: Content(self.random.next()),
            },
            14..=16 => Action::Read {
                place: self.place(),
            },
            _ if self.mix.lossy => Action::Message,
            17..=18 => Action::FetchAdd,
            _ => Action::CompareSwap,
        };
        Some(Step {
            target,
            action,
            fence: self.random.one_in(8),
            signaled: !self.random.one_in(3),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_seed_says_everything(
            seed in any::<u64>(),
            lossy in any::<bool>(),
            sender in 0usize..4,
        ) {
            let mix = Mix { seed, lossy };
            let take = |sender| -> Vec<_> { Schedule::new(mix, sender, 1, 3).take(50).collect() };
            prop_assert_eq!(take(sender), take(sender));
            prop_assert_ne!(take(sender), take(sender + 1));
            for step in take(sender) {
                prop_assert!(step.target < 3);
                match step.action {
                    Action::Write { place, .. } | Action::Read { place } => {
                        prop_assert_eq!(mix.one_sided(place.len()), place.len());
                        prop_assert!(place.end <= MAX_LEN);
                    }
                    Action::FetchAdd | Action::CompareSwap => prop_assert!(!lossy),
                    Action::Message => (),
                }
            }
        }
    }

    #[test]
    fn there_is_some_of_everything() {
        let mix = Mix {
            seed: 1,
            lossy: false,
        };
        let steps: Vec<_> = Schedule::new(mix, 0, 0, 3).take(500).collect();
        let wanted: [fn(&Action) -> bool; 5] = [
            |action| matches!(action, Action::Message),
            |action| matches!(action, Action::Write { .. }),
            |action| matches!(action, Action::Read { .. }),
            |action| matches!(action, Action::FetchAdd),
            |action| matches!(action, Action::CompareSwap),
        ];
        for (i, wanted) in wanted.iter().enumerate() {
            for flags in 0..4 {
                let found = steps.iter().any(|step| {
                    let how = (step.fence, step.signaled) == (flags & 1 != 0, flags & 2 != 0);
                    wanted(&step.action) && how
                });
                assert!(found, "action {i}, flags {flags}");
            }
        }
        for target in 0..3 {
            assert!(steps.iter().any(|step| step.target == target));
        }
    }
}
