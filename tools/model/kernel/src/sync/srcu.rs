// SPDX-License-Identifier: GPL-2.0

//! Sleepable RCU, of its guarantee and no more: readers of two epochs are counted apart, a reader
//! has a full barrier after it has begun and before it ends, and who synchronizes waits for those of
//! either epoch.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use loom::sync::{
    atomic::{fence, AtomicUsize},
    Condvar, Mutex,
};

use crate::{error::Error, init::PinInit};

/// As the kernel's.
pub struct Srcu {
    epoch: AtomicUsize,
    /// In either epoch.
    readers: [AtomicUsize; 2],
    /// For whoever synchronizes, and to end.
    grace: Mutex<()>,
    ended: Condvar,
}

impl Srcu {
    /// See [`new_srcu`](crate::new_srcu).
    pub fn new() -> impl PinInit<Self, Error> {
        || {
            Ok(Self {
                epoch: AtomicUsize::new(0),
                readers: [AtomicUsize::new(0), AtomicUsize::new(0)],
                grace: Mutex::new(()),
                ended: Condvar::new(),
            })
        }
    }

    /// Begins to read.
    pub fn read_lock(&self) -> Guard<'_> {
        // It may end before the next step.
        let epoch = self.epoch.load(Relaxed);

        self.readers[epoch].fetch_add(1, Relaxed);
        fence(SeqCst);
        Guard { srcu: self, epoch }
    }

    /// Waits for those to end who have begun.
    pub fn synchronize(&self) {
        fence(SeqCst);

        let mut grace = self.grace.lock().expect("nobody has panicked");

        for _ in 0..2 {
            let epoch = self.epoch.load(Relaxed);

            // Those who begin from here on are not waited for.
            self.epoch.store(1 - epoch, Relaxed);
            fence(SeqCst);
            while self.readers[epoch].load(Acquire) != 0 {
                grace = self.ended.wait(grace).expect("nobody has panicked");
            }
        }
        fence(SeqCst);
    }
}

/// A reader.
#[must_use]
pub struct Guard<'a> {
    srcu: &'a Srcu,
    epoch: usize,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        fence(SeqCst);

        // Or `synchronize` might go to sleep just after.
        let _grace = self.srcu.grace.lock().expect("nobody has panicked");

        self.srcu.readers[self.epoch].fetch_sub(1, Release);
        self.srcu.ended.notify_all();
    }
}

/// An initialiser of an [`Srcu`].
#[macro_export]
macro_rules! new_srcu {
    ($name:literal) => {
        $crate::sync::Srcu::new()
    };
}
