// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Where in a mailbox messages go, and when there is room.

use std::{collections::VecDeque, ops::Range};

use crate::size::MAX_LEN;

/// Gives each message its place, one after the other. Both sides do so.
#[derive(Clone, Debug, Default)]
pub struct Places {
    next: usize,
}

impl Places {
    /// The place of the next message.
    pub fn next(&mut self, len: usize) -> Range<usize> {
        if self.next + len > MAX_LEN {
            self.next = 0;
        }
        let start = self.next;
        self.next += len;
        start..self.next
    }
}

/// So many can be counted in a byte that is read now and then.
const MOST: usize = 100;

/// What a sender knows of a mailbox.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// Messages that may not have been taken.
    there: VecDeque<Range<usize>>,
    taken: u8,
}

impl Mailbox {
    /// Whether a message may be written there.
    pub fn has_room(&self, place: &Range<usize>) -> bool {
        self.there.len() < MOST
            && self
                .there
                .iter()
                .all(|other| place.end <= other.start || other.end <= place.start)
    }

    /// A message is written.
    pub fn put(&mut self, place: Range<usize>) {
        self.there.push_back(place);
    }

    /// The receiver has taken so many, modulo 256. `false`: that cannot be.
    pub fn set_taken(&mut self, taken: u8) -> bool {
        let news = usize::from(taken.wrapping_sub(self.taken));
        if news > self.there.len() {
            return false;
        }
        self.taken = taken;
        self.there.drain(..news);
        true
    }

    /// How many the receiver had taken, modulo 256, when that was asked last.
    pub fn taken(&self) -> u8 {
        self.taken
    }

    /// Messages that may not have been taken.
    pub fn len(&self) -> usize {
        self.there.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_there_is_not_written_over(
            lens in prop::collection::vec(0..=MAX_LEN, 1..500),
            patience in 0usize..300,
        ) {
            let mut places = Places::default();
            let mut mailbox = Mailbox::default();
            let mut there = VecDeque::new();
            let mut taken = 0u8;
            for len in lens {
                let place = places.next(len);
                prop_assert!(place.end <= MAX_LEN && place.len() == len);
                while there.len() > patience || !mailbox.has_room(&place) {
                    prop_assert!(there.pop_front().is_some());
                    taken = taken.wrapping_add(1);
                    prop_assert!(mailbox.set_taken(taken));
                }
                for other in &there {
                    let other: &Range<usize> = other;
                    prop_assert!(place.end <= other.start || other.end <= place.start);
                }
                mailbox.put(place.clone());
                there.push_back(place);
                prop_assert_eq!(mailbox.len(), there.len());
            }
        }
    }

    #[test]
    fn more_than_there_is_cannot_be_taken() {
        let mut mailbox = Mailbox::default();
        mailbox.put(0..1);
        assert!(!mailbox.set_taken(2));
        assert!(mailbox.set_taken(1));
        assert!(!mailbox.set_taken(0));
    }
}
