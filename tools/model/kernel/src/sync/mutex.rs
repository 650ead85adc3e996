// SPDX-License-Identifier: GPL-2.0

//! Mutexes.

use loom::sync::MutexGuard;

use crate::init::PinInit;

/// As the kernel's.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// See [`new_mutex`](crate::new_mutex).
    pub fn new(value: T) -> impl PinInit<Self> {
        move || Ok(Self(loom::sync::Mutex::new(value)))
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // A model ends with its first panic.
        self.0.lock().expect("nobody has panicked")
    }
}

/// An initialiser of a mutex.
#[macro_export]
macro_rules! new_mutex {
    ($value:expr, $name:literal) => {
        $crate::sync::Mutex::new($value)
    };
}
