// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The events of a completion channel that the program has not got yet.

use std::{
    collections::{HashMap, VecDeque},
    ptr::NonNull,
};

use ibxrc::verbs::*;

/// An event for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) cq: NonNull<ibv_cq>,
    /// libibverbs knows it, and waits until it is acknowledged.
    pub(crate) known: bool,
}

/// A CQ that is being destroyed.
struct Leaving {
    cq: NonNull<ibv_cq>,
    /// It had an event.
    dropped: bool,
}

#[derive(Default)]
pub(crate) struct Inbox {
    events: VecDeque<Event>,
    /// Which CQ has which number, of those that events come for by number.
    numbers: HashMap<u64, NonNull<ibv_cq>>,
    leaving: Vec<Leaving>,
}

// SAFETY: The pointers are only told apart here.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Gives a CQ its number.
    pub(crate) fn register(&mut self, number: u64, cq: NonNull<ibv_cq>) {
        self.numbers.insert(number, cq);
    }

    pub(crate) fn by_number(&self, number: u64) -> Option<NonNull<ibv_cq>> {
        self.numbers.get(&number).copied()
    }

    /// Adds an event. With `merge` one that waits counts for all. Returns whether it was
    /// taken; if not, nobody will get it.
    pub(crate) fn add(&mut self, event: Event, merge: bool) -> bool {
        if let Some(leaving) = self.leaving.iter_mut().find(|l| l.cq == event.cq) {
            leaving.dropped = true;
            return false;
        }
        if merge && self.events.iter().any(|e| e.cq == event.cq) {
            return false;
        }
        self.events.push_back(event);
        true
    }

    pub(crate) fn take(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// A CQ is new; one that was destroyed may have had its address.
    pub(crate) fn join(&mut self, cq: NonNull<ibv_cq>) {
        self.leaving.retain(|leaving| leaving.cq != cq);
    }

    /// A CQ is going to be destroyed: nobody gets its events any more. Returns how many of
    /// those that were waiting libibverbs knows.
    pub(crate) fn leave(&mut self, cq: NonNull<ibv_cq>) -> u32 {
        self.join(cq);
        let before = self.events.len();
        let known = self.events.iter().filter(|e| e.cq == cq && e.known).count();
        self.events.retain(|event| event.cq != cq);
        self.leaving.push(Leaving {
            cq,
            dropped: self.events.len() < before,
        });
        known as u32
    }

    /// It was destroyed.
    pub(crate) fn left(&mut self, cq: NonNull<ibv_cq>, number: Option<u64>) {
        self.join(cq);
        if let Some(number) = number {
            self.numbers.remove(&number);
        }
    }

    /// It was not.
    pub(crate) fn stay(&mut self, cq: NonNull<ibv_cq>) {
        let dropped = self.leaving.iter().any(|l| l.cq == cq && l.dropped);
        self.join(cq);
        if dropped {
            let known = false;
            self.events.push_back(Event { cq, known });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cq(n: usize) -> NonNull<ibv_cq> {
        NonNull::new((n * 16) as *mut ibv_cq).unwrap()
    }

    fn event(n: usize, known: bool) -> Event {
        Event { cq: cq(n), known }
    }

    #[test]
    fn events_come_in_order_and_may_be_merged() {
        let mut inbox = Inbox::default();
        assert!(inbox.add(event(1, true), true));
        assert!(inbox.add(event(2, false), true));
        assert!(!inbox.add(event(1, false), true));
        assert!(inbox.add(event(2, true), false));
        assert_eq!(inbox.take(), Some(event(1, true)));
        assert_eq!(inbox.take(), Some(event(2, false)));
        assert_eq!(inbox.take(), Some(event(2, true)));
        assert_eq!(inbox.take(), None);
        // It was taken.
        assert!(inbox.add(event(1, false), true));
    }

    #[test]
    fn who_leaves_gets_no_events() {
        let mut inbox = Inbox::default();
        for known in [true, false, true] {
            inbox.add(event(1, known), false);
            inbox.add(event(2, known), false);
        }
        assert_eq!(inbox.leave(cq(1)), 2);
        assert!(!inbox.add(event(1, true), false));
        for known in [true, false, true] {
            assert_eq!(inbox.take(), Some(event(2, known)));
        }
        assert!(inbox.is_empty());
        inbox.left(cq(1), None);
        assert!(inbox.add(event(1, true), false));
    }

    #[test]
    fn who_stays_gets_what_was_dropped() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.leave(cq(1)), 0);
        inbox.stay(cq(1));
        assert!(inbox.is_empty());
        inbox.leave(cq(1));
        inbox.add(event(1, true), true);
        inbox.stay(cq(1));
        assert_eq!(inbox.take(), Some(event(1, false)));
        assert_eq!(inbox.take(), None);
        inbox.add(event(1, false), true);
        assert_eq!(inbox.leave(cq(1)), 0);
        inbox.stay(cq(1));
        assert_eq!(inbox.take(), Some(event(1, false)));
    }

    #[test]
    fn a_new_cq_is_not_the_one_that_left() {
        let mut inbox = Inbox::default();
        inbox.register(7, cq(1));
        inbox.leave(cq(1));
        inbox.join(cq(1));
        assert!(inbox.add(event(1, true), true));
        assert_eq!(inbox.by_number(7), Some(cq(1)));
        inbox.left(cq(1), Some(7));
        assert_eq!(inbox.by_number(7), None);
        assert_eq!(inbox.take(), Some(event(1, true)));
    }
}
