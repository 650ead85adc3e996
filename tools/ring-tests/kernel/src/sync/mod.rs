// SPDX-License-Identifier: GPL-2.0

//! Locks and references.

use std::{
    ops::Deref,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    alloc::flags::Flags,
    error::{Error, Result},
    init::PinInit,
};

pub mod atomic;
pub mod barrier;

/// As the kernel's.
pub struct Arc<T>(std::sync::Arc<T>);

impl<T> Arc<T> {
    /// Makes one.
    pub fn pin_init<E>(init: impl PinInit<T, E>, _: Flags) -> Result<Self>
    where
        Error: From<E>,
    {
        Ok(Arc(std::sync::Arc::new(init.init()?)))
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Arc(self.0.clone())
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// As the kernel's, but that it sleeps.
pub struct SpinLock<T>(Mutex<T>);

impl<T> SpinLock<T> {
    /// Makes one.
    pub fn new(value: T) -> Self {
        SpinLock(Mutex::new(value))
    }

    /// Takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Initialises a [`SpinLock`].
#[macro_export]
macro_rules! new_spinlock {
    ($value:expr, $name:literal) => {
        || Ok::<_, ::core::convert::Infallible>($crate::sync::SpinLock::new($value))
    };
}
