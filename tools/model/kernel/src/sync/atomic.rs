// SPDX-License-Identifier: GPL-2.0

//! Atomic variables, with the kernel's memory orders.
//!
//! A fully ordered operation has a full barrier before and after it, a failed `cmpxchg` orders
//! nothing. In C11's terms, which are loom's, these are fences.

use std::sync::atomic::Ordering as Order;

use loom::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64};

pub use self::ordering::{Acquire, Full, Relaxed, Release};

/// The memory orders.
pub mod ordering {
    use super::Order;

    /// Orders nothing.
    pub struct Relaxed;
    /// Comes before what follows.
    pub struct Acquire;
    /// Comes after what precedes.
    pub struct Release;
    /// Both, and orders what precedes before what follows.
    pub struct Full;

    /// A memory order.
    pub trait Ordering {
        /// The nearest that is not stronger.
        const ORDER: Order;
        /// Full barriers make up for the difference.
        const FENCED: bool = false;
    }

    impl Ordering for Relaxed {
        const ORDER: Order = Order::Relaxed;
    }

    impl Ordering for Acquire {
        const ORDER: Order = Order::Acquire;
    }

    impl Ordering for Release {
        const ORDER: Order = Order::Release;
    }

    impl Ordering for Full {
        const ORDER: Order = Order::AcqRel;
        const FENCED: bool = true;
    }

    /// What a load may be.
    pub trait AcquireOrRelaxed: Ordering {}
    impl AcquireOrRelaxed for Acquire {}
    impl AcquireOrRelaxed for Relaxed {}

    /// What a store may be.
    pub trait ReleaseOrRelaxed: Ordering {}
    impl ReleaseOrRelaxed for Release {}
    impl ReleaseOrRelaxed for Relaxed {}
}

/// What can be in an [`Atomic`].
pub trait AtomicType: Copy {
    /// loom's type for it.
    type Cell;

    /// Makes one.
    fn cell(self) -> Self::Cell;
    /// Reads it.
    fn load(cell: &Self::Cell, order: Order) -> Self;
    /// Writes it.
    fn store(cell: &Self::Cell, value: Self, order: Order);
    /// Writes it if it is `old`.
    fn compare_exchange(
        cell: &Self::Cell,
        old: Self,
        new: Self,
        order: Order,
    ) -> Result<Self, Self>;
}

macro_rules! atomic_type {
    ($type:ty, $cell:ty) => {
        impl AtomicType for $type {
            type Cell = $cell;

            fn cell(self) -> $cell {
                <$cell>::new(self)
            }

            fn load(cell: &$cell, order: Order) -> Self {
                cell.load(order)
            }

            fn store(cell: &$cell, value: Self, order: Order) {
                cell.store(value, order);
            }

            fn compare_exchange(
                cell: &$cell,
                old: Self,
                new: Self,
                order: Order,
            ) -> Result<Self, Self> {
                cell.compare_exchange(old, new, order, Order::Relaxed)
            }
        }
    };
}

atomic_type!(bool, AtomicBool);
atomic_type!(u32, AtomicU32);
atomic_type!(u64, AtomicU64);

/// What can be added to.
pub trait AtomicAdd: AtomicType {
    /// Adds.
    fn fetch_add(cell: &Self::Cell, value: Self, order: Order) -> Self;
}

impl AtomicAdd for u32 {
    fn fetch_add(cell: &AtomicU32, value: u32, order: Order) -> u32 {
        cell.fetch_add(value, order)
    }
}

/// As the kernel's.
pub struct Atomic<T: AtomicType>(T::Cell);

impl<T: AtomicType> Atomic<T> {
    /// Makes one.
    pub fn new(value: T) -> Self {
        Self(value.cell())
    }

    /// Reads it.
    pub fn load<O: ordering::AcquireOrRelaxed>(&self, _: O) -> T {
        T::load(&self.0, O::ORDER)
    }

    /// Writes it.
    pub fn store<O: ordering::ReleaseOrRelaxed>(&self, value: T, _: O) {
        T::store(&self.0, value, O::ORDER);
    }

    /// Writes it if it is `old`; else returns what it is.
    pub fn cmpxchg<O: ordering::Ordering>(&self, old: T, new: T, _: O) -> Result<T, T> {
        // The barrier before it is left out, since it is not there if this fails: weaker than the
        // kernel's, so that no order is relied upon which is not there.
        let result = T::compare_exchange(&self.0, old, new, O::ORDER);

        if O::FENCED && result.is_ok() {
            fence(Order::SeqCst);
        }
        result
    }

    /// Adds; returns what it was.
    pub fn fetch_add<O: ordering::Ordering>(&self, value: T, _: O) -> T
    where
        T: AtomicAdd,
    {
        if O::FENCED {
            fence(Order::SeqCst);
        }

        let old = T::fetch_add(&self.0, value, O::ORDER);

        if O::FENCED {
            fence(Order::SeqCst);
        }
        old
    }
}
