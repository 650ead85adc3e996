// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What is known of objects of libibverbs.

use std::{
    collections::{btree_map::Entry, BTreeMap},
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
};

use super::lock;
use crate::error::Result;

/// By their addresses, until it is removed.
pub(super) struct Table<T>(RwLock<BTreeMap<usize, Arc<T>>>);

impl<T> Table<T> {
    pub(super) const fn new() -> Self {
        Table(RwLock::new(BTreeMap::new()))
    }

    pub(super) fn get<O>(&self, object: *const O) -> Option<Arc<T>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&object.addr()).cloned()
    }

    /// What is known, or what `make` makes.
    pub(super) fn get_or_make<O>(&self, object: *const O, make: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(object.addr());
        entry.or_insert_with(|| Arc::new(make())).clone()
    }

    pub(super) fn insert<O>(&self, object: *const O, about: Arc<T>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(object.addr(), about);
    }

    pub(super) fn remove<O>(&self, object: *const O) -> Option<Arc<T>> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.remove(&object.addr())
    }

    /// Removes it if it is this.
    pub(super) fn remove_if<O>(&self, object: *const O, is_this: impl FnOnce(&T) -> bool) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(entry) = known.entry(object.addr()) {
            if is_this(entry.get()) {
                entry.remove();
            }
        }
    }
}

/// The same as long as somebody uses it.
pub(super) struct Shared<T>(Mutex<BTreeMap<usize, Weak<T>>>);

impl<T> Shared<T> {
    pub(super) const fn new() -> Self {
        Shared(Mutex::new(BTreeMap::new()))
    }

    pub(super) fn get<O>(&self, object: *const O) -> Option<Arc<T>> {
        lock(&self.0).get(&object.addr()).and_then(Weak::upgrade)
    }

    /// What is known, or what `make` makes.
    pub(super) fn get_or_make<O>(
        &self,
        object: *const O,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut known = lock(&self.0);
        if let Some(about) = known.get(&object.addr()).and_then(Weak::upgrade) {
            return Ok(about);
        }
        known.retain(|_, about| about.strong_count() > 0);
        let about = Arc::new(make()?);
        known.insert(object.addr(), Arc::downgrade(&about));
        Ok(about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_is_not_known() {
        let table = Table::new();
        let object = 1u8;
        assert!(table.get(&object).is_none());
        assert_eq!(*table.get_or_make(&object, || 2), 2);
        assert_eq!(*table.get_or_make(&object, || 3), 2);
        assert_eq!(table.get(&object).as_deref(), Some(&2));
        assert_eq!(table.remove(&object).as_deref(), Some(&2));
        assert!(table.get(&object).is_none());
        table.insert(&object, Arc::new(4));
        assert_eq!(table.get(&object).as_deref(), Some(&4));
    }

    #[test]
    fn what_is_shared_goes_with_its_last_user() {
        let shared = Shared::new();
        let object = 1u8;
        let first = shared.get_or_make(&object, || Ok(2)).unwrap();
        let second = shared.get_or_make(&object, || Ok(3)).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        drop(first);
        assert!(shared.get(&object).is_some());
        drop(second);
        assert!(shared.get(&object).is_none());
        assert_eq!(*shared.get_or_make(&object, || Ok(3)).unwrap(), 3);
    }
}
