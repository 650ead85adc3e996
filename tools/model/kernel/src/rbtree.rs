// SPDX-License-Identifier: GPL-2.0

//! Trees. Only a thread that has the lock uses one, so they need no loom.

use std::marker::PhantomData;

use crate::prelude::{Flags, Result};

/// A map: pairs in the order of their keys.
pub struct RBTree<K, V>(Vec<(K, V)>);

impl<K: Ord + Copy, V> RBTree<K, V> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "the core does without")]
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Where a key is; else, where it would be.
    fn find(&self, key: &K) -> std::result::Result<usize, usize> {
        self.0.binary_search_by_key(key, |&(key, _)| key)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.find(key).ok()?;

        Some(&self.0[at].1)
    }

    /// The value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key).ok()?;

        Some(&mut self.0[at].1)
    }

    /// Adds a node. Returns the one with its key that was there.
    pub fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<RBTreeNode<K, V>> {
        let old = self.remove_node(&node.key);
        let (Ok(at) | Err(at)) = self.find(&node.key);

        self.0.insert(at, (node.key, node.value));
        old
    }

    /// Takes a node out.
    pub fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
        let at = self.find(key).ok()?;
        let (key, value) = self.0.remove(at);

        Some(RBTreeNode { key, value })
    }

    /// The first that is not before `key`.
    pub fn cursor_lower_bound_mut(&mut self, key: &K) -> Option<CursorMut<'_, K, V>> {
        let (Ok(at) | Err(at)) = self.find(key);

        CursorMut::new(self, at)
    }
}

/// A place in a tree.
pub struct CursorMut<'a, K, V> {
    tree: &'a mut RBTree<K, V>,
    at: usize,
}

impl<'a, K: Ord + Copy, V> CursorMut<'a, K, V> {
    fn new(tree: &'a mut RBTree<K, V>, at: usize) -> Option<Self> {
        (at < tree.0.len()).then_some(Self { tree, at })
    }

    /// What is there.
    pub fn current(&self) -> (&K, &V) {
        let (key, value) = &self.tree.0[self.at];

        (key, value)
    }

    /// The next one.
    pub fn move_next(self) -> Option<Self> {
        Self::new(self.tree, self.at + 1)
    }

    /// Takes out what is there.
    pub fn remove_current(self) -> (Option<Self>, RBTreeNode<K, V>) {
        let (key, value) = self.tree.0.remove(self.at);

        (Self::new(self.tree, self.at), RBTreeNode { key, value })
    }
}

/// A part of a tree.
pub struct RBTreeNode<K, V> {
    key: K,
    value: V,
}

impl<K, V> RBTreeNode<K, V> {
    /// What it consists of.
    pub fn to_key_value(self) -> (K, V) {
        (self.key, self.value)
    }
}

/// Room for a node.
pub struct RBTreeNodeReservation<K, V>(PhantomData<fn() -> (K, V)>);

impl<K, V> RBTreeNodeReservation<K, V> {
    /// Allocates it; here that succeeds.
    pub fn new(_flags: Flags) -> Result<Self> {
        Ok(Self(PhantomData))
    }

    /// A node that is there.
    pub fn into_node(self, key: K, value: V) -> RBTreeNode<K, V> {
        RBTreeNode { key, value }
    }
}
