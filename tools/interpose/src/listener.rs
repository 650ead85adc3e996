// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What there is to know of any CQ with a completion channel: whether the program waits for
//! an event, and which events it has not acknowledged.
//!
//! A program may ask for an event before the first XRC object completes into the CQ, which
//! is then to raise it. So this is known of all of them.

use std::{
    ptr::NonNull,
    sync::{
        atomic::{fence, AtomicU8, Ordering},
        Condvar, Mutex, MutexGuard, PoisonError,
    },
};

use ibxrc::verbs::*;

use crate::table::Table;

static LISTENERS: Table<Listener> = Table::new();

/// Which completions the program wants an event for, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    No,
    /// Those that the sender asked for, and those with an error.
    Solicited,
    Any,
}

impl Wanted {
    pub(crate) fn new(solicited_only: bool) -> Self {
        match solicited_only {
            true => Wanted::Solicited,
            false => Wanted::Any,
        }
    }
}

#[derive(Default)]
pub(crate) struct Listener {
    /// A [`Wanted`].
    wanted: AtomicU8,
    /// Events the program has that libibverbs does not know, and has not acknowledged.
    open: Mutex<u32>,
    acknowledged: Condvar,
}

/// What is known of a CQ; `None`: it has no channel of ours.
///
/// # Safety
///
/// NULL or a good CQ, which is not destroyed as long as the reference is used.
pub(crate) unsafe fn of<'a>(cq: *const ibv_cq) -> Option<&'a Listener> {
    // SAFETY: It is removed when it is destroyed.
    unsafe { LISTENERS.get(cq) }
}

/// A CQ was made.
pub(crate) fn add(cq: NonNull<ibv_cq>) {
    LISTENERS.insert(cq.as_ptr(), Box::default());
}

/// It is going to be destroyed.
pub(crate) fn remove(cq: *const ibv_cq) -> Option<Box<Listener>> {
    LISTENERS.remove(cq)
}

/// It was not.
pub(crate) fn put_back(cq: *const ibv_cq, listener: Box<Listener>) {
    LISTENERS.insert(cq, listener);
}

impl Listener {
    /// The program asks for an event. Who looks for sources of it after this finds them, or
    /// they find this with [`Self::wanted`].
    pub(crate) fn want(&self, wanted: Wanted) {
        // Who waits for any completion still does.
        self.wanted.fetch_max(wanted as u8, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// What the program waits for. A source that was made known before is asked for it, or
    /// has it from here.
    pub(crate) fn wanted(&self) -> Wanted {
        fence(Ordering::SeqCst);
        match self.wanted.load(Ordering::SeqCst) {
            0 => Wanted::No,
            1 => Wanted::Solicited,
            _ => Wanted::Any,
        }
    }

    /// The program gets an event.
    pub(crate) fn delivered(&self) {
        self.wanted.store(Wanted::No as u8, Ordering::SeqCst);
    }

    fn open(&self) -> MutexGuard<'_, u32> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program gets an event that libibverbs does not know.
    pub(crate) fn taken(&self) {
        *self.open() += 1;
    }

    /// The program acknowledges events. Returns how many of them libibverbs knows.
    pub(crate) fn acknowledge(&self, events: u32) -> u32 {
        let mut open = self.open();
        let ours = events.min(*open);
        *open -= ours;
        self.acknowledged.notify_all();
        events - ours
    }

    /// Waits until all events are acknowledged that libibverbs does not know.
    pub(crate) fn wait_acknowledged(&self) {
        let mut open = self.open();
        while *open > 0 {
            open = self
                .acknowledged
                .wait(open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_any_completion_still_does() {
        let listener = Listener::default();
        assert_eq!(listener.wanted(), Wanted::No);
        listener.want(Wanted::new(true));
        assert_eq!(listener.wanted(), Wanted::Solicited);
        listener.want(Wanted::new(false));
        listener.want(Wanted::new(true));
        assert_eq!(listener.wanted(), Wanted::Any);
        listener.delivered();
        assert_eq!(listener.wanted(), Wanted::No);
    }

    #[test]
    fn events_that_libibverbs_knows_are_acknowledged_to_it() {
        let listener = Listener::default();
        assert_eq!(listener.acknowledge(2), 2);
        listener.taken();
        listener.taken();
        assert_eq!(listener.acknowledge(1), 0);
        assert_eq!(listener.acknowledge(3), 2);
        listener.wait_acknowledged();
    }
}
