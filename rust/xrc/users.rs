// SPDX-License-Identifier: GPL-2.0

//! Objects that cannot be closed while others were made with them.

use kernel::sync::{
    atomic::{
        ordering::{
            Full,
            Relaxed, //
        },
        Atomic, //
    },
    Arc, //
};

/// How many objects were made with one.
pub(crate) struct Users(Atomic<u32>);

impl Users {
    /// None.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Whether there is any.
    ///
    /// Nobody can become a user meanwhile if the caller has the handle exclusively.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

/// Counts the holder among the users of `T`, and keeps `T`.
pub(crate) struct InUse<T: AsRef<Users>>(Arc<T>);

impl<T: AsRef<Users>> InUse<T> {
    /// Counts one more. Every user has a handle of its file, so there are never too many.
    pub(crate) fn new(object: &Arc<T>) -> Self {
        (**object).as_ref().0.add(1u32, Relaxed);
        Self(object.clone())
    }
}

impl<T: AsRef<Users>> Drop for InUse<T> {
    fn drop(&mut self) {
        let _ = (*self.0).as_ref().0.fetch_sub(1u32, Full);
    }
}
