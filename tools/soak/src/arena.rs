// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory that is given back in the order in which it was taken.

use std::{collections::VecDeque, ops::Range};

/// A ring of bytes.
#[derive(Debug)]
pub struct Arena {
    size: usize,
    /// What is in use, oldest first.
    used: VecDeque<Range<usize>>,
}

impl Arena {
    /// Nothing of it is in use.
    pub fn new(size: usize) -> Self {
        Arena {
            size,
            used: VecDeque::new(),
        }
    }

    /// Takes `len` bytes. `None`: some have to be given back first.
    pub fn take(&mut self, len: usize) -> Option<Range<usize>> {
        let range = match (self.used.front(), self.used.back()) {
            (Some(first), Some(last)) => {
                // A byte between the ends tells full from empty.
                if last.end >= first.start {
                    if last.end + len <= self.size {
                        last.end..last.end + len
                    } else if len < first.start {
                        0..len
                    } else {
                        return None;
                    }
                } else if last.end + len < first.start {
                    last.end..last.end + len
                } else {
                    return None;
                }
            }
            _ if len <= self.size => 0..len,
            _ => return None,
        };
        self.used.push_back(range.clone());
        Some(range)
    }

    /// Gives the oldest one back.
    pub fn give_back(&mut self) {
        self.used.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_given_twice(
            steps in prop::collection::vec((0usize..60, 0usize..4), 1..200)
        ) {
            let mut arena = Arena::new(100);
            let mut used: VecDeque<Range<usize>> = VecDeque::new();
            for (len, free) in steps {
                for _ in 0..free {
                    arena.give_back();
                    used.pop_front();
                }
                match arena.take(len) {
                    Some(range) => {
                        prop_assert!(range.len() == len && range.end <= 100);
                        for other in &used {
                            prop_assert!(
                                range.end <= other.start
                                    || other.end <= range.start
                                    || range.is_empty()
                                    || other.is_empty()
                            );
                        }
                        used.push_back(range);
                    }
                    // An empty one has room for anything.
                    None => prop_assert!(!used.is_empty()),
                }
            }
        }
    }
}
