// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Events of objects that the program has, and has not acknowledged.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, PoisonError},
};

use super::lock;

/// By the addresses of the objects, which may be gone when an event is acknowledged by
/// mistake.
pub(super) struct Acks {
    open: Mutex<BTreeMap<usize, u32>>,
    acknowledged: Condvar,
}

impl Acks {
    pub(super) const fn new() -> Self {
        Acks {
            open: Mutex::new(BTreeMap::new()),
            acknowledged: Condvar::new(),
        }
    }

    /// The program gets an event.
    pub(super) fn taken<O>(&self, object: *const O) {
        *lock(&self.open).entry(object.addr()).or_default() += 1;
    }

    /// The program acknowledges an event. Returns whether it was one of these.
    pub(super) fn acknowledge<O>(&self, object: *const O) -> bool {
        let mut open = lock(&self.open);
        let Some(count) = open.get_mut(&object.addr()) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            open.remove(&object.addr());
            self.acknowledged.notify_all();
        }
        true
    }

    /// Waits until all are acknowledged. There are no more.
    pub(super) fn wait<O>(&self, object: *const O) {
        let mut open = lock(&self.open);
        while open.contains_key(&object.addr()) {
            let woken = self.acknowledged.wait(open);
            open = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn who_destroys_waits_for_all() {
        static ACKS: Acks = Acks::new();
        static OBJECTS: [u8; 2] = [0; 2];
        let [object, other] = &OBJECTS;
        assert!(!ACKS.acknowledge(object));
        ACKS.wait(object);
        ACKS.taken(object);
        ACKS.taken(object);
        ACKS.wait(other);
        let waiting = thread::spawn(|| ACKS.wait(&OBJECTS[0]));
        assert!(ACKS.acknowledge(object));
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        assert!(ACKS.acknowledge(object));
        waiting.join().unwrap();
        assert!(!ACKS.acknowledge(object));
    }
}
