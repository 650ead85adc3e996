// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An SRQ that a connection sends to, and what is known of its memory.

use std::{collections::VecDeque, ops::Range};

use anyhow::{ensure, Result};

use crate::{
    content::{hash, start_value, Content},
    layout,
    mailbox::Mailbox,
    mix::Mix,
    protocol::{Sent, Target as Where},
    size::MAX_LEN,
    stream::Stream,
    tally::{Numbers, Tally},
};

pub struct Target {
    /// Which of all SRQs it is.
    pub index: usize,
    sender: usize,
    place: Where,
    pub stream: Stream,
    pub mailbox: Mailbox,
    /// What is in the area once all that is posted is done.
    area: Vec<u8>,
    /// Parts of the area that are being read, oldest first.
    reading: VecDeque<Range<usize>>,
    /// An RDMA READ of the byte that counts what was taken from the mailbox is on its way.
    pub asking: bool,
    added: Word,
    swapped: Word,
    pub tally: Tally,
}

/// A word that all count in.
struct Word {
    start: u64,
    /// It was this at least, or more.
    least: u64,
    /// What it was when we counted.
    numbers: Numbers,
}

impl Word {
    fn new(seed: u64, which: usize) -> Self {
        let start = start_value(seed, which as u64);
        Word {
            start,
            least: start,
            numbers: Numbers::default(),
        }
    }

    fn was(&mut self, value: u64, counted: bool) -> Result<()> {
        ensure!(
            value >= self.least,
            "a word that only grows was {:#x}, and then {value:#x} (it began with {:#x})",
            self.least,
            self.start
        );
        self.least = value + u64::from(counted);
        if counted {
            self.numbers.add(value);
        }
        Ok(())
    }
}

fn apart(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.end <= b.start || b.end <= a.start
}

impl Target {
    pub fn new(mix: Mix, sender: usize, index: usize, place: Where) -> Self {
        Target {
            index,
            sender,
            place,
            stream: Stream::new(mix, sender, index),
            mailbox: Mailbox::default(),
            area: vec![0; MAX_LEN],
            reading: VecDeque::new(),
            asking: false,
            added: Word::new(mix.seed, index * 2),
            swapped: Word::new(mix.seed, index * 2 + 1),
            tally: Tally::default(),
        }
    }

    pub fn srq_num(&self) -> u32 {
        self.place.srq_num
    }

    pub fn rkey(&self) -> u32 {
        self.place.rkey
    }

    /// How an offset in the SRQ's memory is named.
    fn addr(&self, at: usize) -> u64 {
        self.place.addr + at as u64
    }

    pub fn mailbox_addr(&self, at: usize) -> u64 {
        self.addr(layout::mailbox(self.sender).start + at)
    }

    pub fn area_addr(&self, at: usize) -> u64 {
        self.addr(layout::area(self.sender).start + at)
    }

    pub fn taken_addr(&self) -> u64 {
        self.addr(layout::taken(self.sender))
    }

    pub fn added_addr(&self) -> u64 {
        self.addr(layout::ADDED)
    }

    pub fn swapped_addr(&self) -> u64 {
        self.addr(layout::SWAPPED)
    }

    /// Whether an RDMA WRITE there may overtake an RDMA READ, unless it has a fence.
    pub fn is_being_read(&self, place: &Range<usize>) -> bool {
        !self.reading.iter().all(|other| apart(place, other))
    }

    /// Something is written to the area.
    pub fn write(&mut self, place: &Range<usize>, content: Content) {
        content.write(0, &mut self.area[place.clone()]);
    }

    /// A part of the area is being read: what should be there.
    pub fn read(&mut self, place: &Range<usize>) -> &[u8] {
        self.reading.push_back(place.clone());
        &self.area[place.clone()]
    }

    /// The oldest RDMA READ is done.
    pub fn was_read(&mut self) {
        self.reading.pop_front();
    }

    /// The word that all add to was this, when we added one.
    pub fn was_added_to(&mut self, value: u64) -> Result<()> {
        self.added.was(value, true)
    }

    /// What the word that all swap may be.
    pub fn guess(&self) -> u64 {
        self.swapped.least
    }

    /// The word that all swap was this, when we tried to swap `compare`. Returns whether we did.
    pub fn was_swapped(&mut self, compare: u64, value: u64) -> Result<bool> {
        let success = value == compare;
        self.swapped.was(value, success)?;
        Ok(success)
    }

    /// What was done, in the end.
    pub fn sent(&self) -> Sent {
        Sent {
            tally: self.tally.clone(),
            added: self.added.numbers,
            swapped: self.swapped.numbers,
            area: hash(&self.area),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        let place = Where {
            srq_num: 5,
            addr: 1 << 40,
            rkey: 7,
        };
        let mix = Mix {
            seed: 1,
            lossy: false,
        };
        Target::new(mix, 2, 3, place)
    }

    #[test]
    fn a_word_never_shrinks_nor_is_found_twice() {
        let mut target = target();
        let start = start_value(1, 6);
        target.was_added_to(start).unwrap();
        target.was_added_to(start + 5).unwrap();
        assert!(target.was_added_to(start + 5).is_err());
        assert!(target.was_added_to(start).is_err());
        assert_eq!(target.sent().added.count, 2);
    }

    #[test]
    fn a_swap_that_fails_tells_what_to_try_next() {
        let mut target = target();
        let start = start_value(1, 7);
        assert_eq!(target.guess(), start);
        assert!(!target.was_swapped(start, start + 9).unwrap());
        assert_eq!(target.guess(), start + 9);
        assert!(target.was_swapped(start + 9, start + 9).unwrap());
        assert_eq!(target.guess(), start + 10);
        assert!(target.was_swapped(start + 9, start + 9).is_err());
        assert_eq!(target.sent().swapped, Numbers::from(start + 9, 1));
    }

    #[test]
    fn what_is_being_read_is_known() {
        let mut target = target();
        target.write(&(10..20), Content(1));
        assert!(Content(1).check(0, target.read(&(10..20))).is_ok());
        assert!(target.is_being_read(&(19..20)));
        assert!(!target.is_being_read(&(20..30)));
        target.was_read();
        assert!(!target.is_being_read(&(0..30)));
    }
}
