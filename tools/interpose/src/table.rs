// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What is known of an object of the program, by the address that the program has of it.
//!
//! It is looked up on every call on the data path, without a lock. That works since nodes
//! are never freed, only used again, and since a program does not destroy an object while
//! it uses it: while one is looked up its node does not change.
//!
//! All tables are written under one lock, which is held while the process forks. It is taken
//! when objects are made and destroyed only.

use std::{
    ptr::{self, NonNull},
    sync::{
        atomic::{AtomicPtr, AtomicUsize, Ordering},
        Mutex, MutexGuard, PoisonError,
    },
};

static WRITE: Mutex<()> = Mutex::new(());

pub(crate) type WriteGuard = MutexGuard<'static, ()>;

/// The lock under which tables are written.
pub(crate) fn write() -> WriteGuard {
    WRITE.lock().unwrap_or_else(PoisonError::into_inner)
}

const BUCKETS: usize = 1 << 12;

struct Node<T> {
    /// 0: free.
    key: AtomicUsize,
    value: AtomicPtr<T>,
    next: *const Node<T>,
}

/// # Invariants
///
/// Nodes stay for ever once they are in a bucket. Of those with a key `value` is a box.
pub(crate) struct Table<T> {
    buckets: [AtomicPtr<Node<T>>; BUCKETS],
}

// SAFETY: It hands out `&T` and `Box<T>`.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no nodes.
        Table {
            buckets: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS],
        }
    }

    fn bucket<K>(&self, key: *const K) -> &AtomicPtr<Node<T>> {
        // What malloc returns is aligned to 16 bytes.
        let hash = (key as usize >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        &self.buckets[hash % BUCKETS]
    }

    fn find<K>(&self, key: *const K, wanted: usize) -> Option<&Node<T>> {
        let mut at: *const Node<T> = self.bucket(key).load(Ordering::Acquire);
        // SAFETY: By the invariants.
        while let Some(node) = unsafe { at.as_ref() } {
            if node.key.load(Ordering::Acquire) == wanted {
                return Some(node);
            }
            at = node.next;
        }
        None
    }

    /// What is known of `key`.
    ///
    /// # Safety
    ///
    /// It is not removed as long as the reference is used.
    pub(crate) unsafe fn get<'a, K>(&self, key: *const K) -> Option<&'a T> {
        if key.is_null() {
            return None;
        }
        let node = self.find(key, key as usize)?;
        // SAFETY: By the invariants and the caller's word.
        unsafe { node.value.load(Ordering::Acquire).as_ref() }
    }

    /// Adds what is known of `key`, which is not NULL and not there.
    pub(crate) fn insert<K>(&self, key: *const K, value: Box<T>) {
        let value = Box::into_raw(value);
        let _writer = write();
        if let Some(free) = self.find(key, 0) {
            free.value.store(value, Ordering::Release);
            free.key.store(key as usize, Ordering::Release);
            return;
        }
        let bucket = self.bucket(key);
        // INVARIANT: It is leaked.
        let node = Box::leak(Box::new(Node {
            key: AtomicUsize::new(key as usize),
            value: AtomicPtr::new(value),
            next: bucket.load(Ordering::Relaxed),
        }));
        bucket.store(node, Ordering::Release);
    }

    /// Removes everything of which `which` says so.
    pub(crate) fn remove_all(&self, which: impl Fn(&T) -> bool) -> Vec<Box<T>> {
        let mut removed = Vec::new();
        let _writer = write();
        for bucket in &self.buckets {
            let mut at: *const Node<T> = bucket.load(Ordering::Relaxed);
            // SAFETY: By the invariants.
            while let Some(node) = unsafe { at.as_ref() } {
                at = node.next;
                if node.key.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                let value = node.value.load(Ordering::Relaxed);
                // SAFETY: By the invariants; nobody removes it meanwhile.
                if which(unsafe { &*value }) {
                    // INVARIANT: It has no key any more.
                    node.key.store(0, Ordering::Release);
                    // SAFETY: By the invariants; nobody else removes it.
                    removed.push(unsafe { Box::from_raw(value) });
                }
            }
        }
        removed
    }

    /// Removes what is known of `key`.
    pub(crate) fn remove<K>(&self, key: *const K) -> Option<Box<T>> {
        if key.is_null() {
            return None;
        }
        let _writer = write();
        let node = self.find(key, key as usize)?;
        let value = node.value.load(Ordering::Relaxed);
        // INVARIANT: It has no key any more.
        node.key.store(0, Ordering::Release);
        // SAFETY: By the invariants; nobody else removes it.
        NonNull::new(value).map(|value| unsafe { Box::from_raw(value.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    // The tables are static, as all are: their nodes would be lost with them.

    #[test]
    fn what_is_put_in_is_found_until_it_is_removed() {
        static TABLE: Table<usize> = Table::new();
        let keys: Vec<_> = (1..20_000usize).map(|i| (i * 16) as *const u8).collect();
        for round in 0..2 {
            for key in &keys {
                TABLE.insert(*key, Box::new(*key as usize + round));
            }
            for key in &keys {
                // SAFETY: It is removed below.
                let found = unsafe { TABLE.get(*key) };
                assert_eq!(found, Some(&(*key as usize + round)));
            }
            for key in &keys {
                assert_eq!(TABLE.remove(*key), Some(Box::new(*key as usize + round)));
                // SAFETY: It is not there.
                assert_eq!(unsafe { TABLE.get(*key) }, None);
                assert_eq!(TABLE.remove(*key), None);
            }
        }
    }

    #[test]
    fn nodes_are_used_again() {
        static TABLE: Table<u8> = Table::new();
        let key = 64 as *const u8;
        let count = || {
            let mut at: *const Node<u8> = TABLE.bucket(key).load(Ordering::Relaxed);
            let mut n = 0;
            // SAFETY: Nodes stay.
            while let Some(node) = unsafe { at.as_ref() } {
                n += 1;
                at = node.next;
            }
            n
        };
        for i in 0..10 {
            TABLE.insert(key, Box::new(i));
            assert_eq!(count(), 1);
            TABLE.remove(key);
        }
    }

    #[test]
    fn what_is_removed_by_what_it_is_goes_once() {
        static TABLE: Table<usize> = Table::new();
        for i in 1..1000usize {
            TABLE.insert((i * 16) as *const u8, Box::new(i));
        }
        let mut even = TABLE.remove_all(|n| n % 2 == 0);
        even.sort();
        let wanted: Vec<_> = (1..1000).filter(|n| n % 2 == 0).map(Box::new).collect();
        assert_eq!(even, wanted);
        assert!(TABLE.remove_all(|n| n % 2 == 0).is_empty());
        for i in 1..1000usize {
            // SAFETY: It is not removed.
            let found = unsafe { TABLE.get((i * 16) as *const u8) };
            assert_eq!(found, (i % 2 == 1).then_some(&i));
        }
    }

    #[test]
    fn null_is_never_there() {
        static TABLE: Table<u8> = Table::new();
        // A free node has the key 0.
        TABLE.insert(64 as *const u8, Box::new(1));
        TABLE.remove(64 as *const u8);
        // SAFETY: It is not there.
        assert_eq!(unsafe { TABLE.get(ptr::null::<u8>()) }, None);
        assert_eq!(TABLE.remove(ptr::null::<u8>()), None);
    }

    #[test]
    fn threads_do_not_see_what_others_do() {
        static TABLE: Table<usize> = Table::new();
        // All in one bucket, where nodes pass from one to the other.
        let bucket = TABLE.bucket(16 as *const u8);
        let keys: Vec<_> = (1..usize::MAX)
            .map(|i| i * 16)
            .filter(|key| ptr::eq(TABLE.bucket(*key as *const u8), bucket))
            .take(12)
            .collect();
        thread::scope(|scope| {
            for keys in keys.chunks(3) {
                scope.spawn(move || {
                    for (i, key) in keys.iter().cycle().take(3000).enumerate() {
                        let key = *key as *const u8;
                        TABLE.insert(key, Box::new(i));
                        // SAFETY: It is removed below.
                        assert_eq!(unsafe { TABLE.get(key) }, Some(&i));
                        assert_eq!(TABLE.remove(key), Some(Box::new(i)));
                        // SAFETY: It is not there.
                        assert_eq!(unsafe { TABLE.get(key) }, None);
                    }
                });
            }
        });
    }
}
