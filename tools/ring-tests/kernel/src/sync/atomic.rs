// SPDX-License-Identifier: GPL-2.0

//! Atomic variables, with the kernel's memory orders.

use std::sync::atomic::{fence, AtomicU32, Ordering};

/// Orders nothing.
pub struct Relaxed;
/// Comes before what follows.
pub struct Acquire;
/// Comes after what precedes.
pub struct Release;
/// Has a full barrier before and after it.
pub struct Full;

/// How a variable is read.
pub trait LoadOrder {
    /// In C11's terms.
    const ORDER: Ordering;
}

impl LoadOrder for Relaxed {
    const ORDER: Ordering = Ordering::Relaxed;
}

impl LoadOrder for Acquire {
    const ORDER: Ordering = Ordering::Acquire;
}

/// How a variable is written.
pub trait StoreOrder {
    /// In C11's terms.
    const ORDER: Ordering;
}

impl StoreOrder for Relaxed {
    const ORDER: Ordering = Ordering::Relaxed;
}

impl StoreOrder for Release {
    const ORDER: Ordering = Ordering::Release;
}

/// As the kernel's.
#[repr(transparent)]
pub struct Atomic<T>(AtomicU32, std::marker::PhantomData<T>);

impl Atomic<u32> {
    /// The variable at `ptr`.
    ///
    /// # Safety
    ///
    /// It is aligned, lives, and is used by atomic accesses only.
    pub unsafe fn from_ptr<'a>(ptr: *mut u32) -> &'a Self {
        // SAFETY: It is a `u32`, and the caller's word.
        unsafe { &*ptr.cast::<Self>() }
    }

    /// Reads it.
    pub fn load<O: LoadOrder>(&self, _: O) -> u32 {
        self.0.load(O::ORDER)
    }

    /// Writes it.
    pub fn store<O: StoreOrder>(&self, value: u32, _: O) {
        self.0.store(value, O::ORDER);
    }

    /// Writes it, and returns what it was.
    pub fn xchg(&self, value: u32, _: Full) -> u32 {
        fence(Ordering::SeqCst);
        let old = self.0.swap(value, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        old
    }
}
