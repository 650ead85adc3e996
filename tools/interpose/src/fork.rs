// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Programs that fork.
//!
//! The child has a copy of all that is here, but no threads of ours, and what is in the kernel
//! is its parent's. It may go on without touching that, close the contexts it has got, or open
//! one of its own.

use std::{
    cell::UnsafeCell,
    sync::{
        atomic::{AtomicU32, Ordering},
        Once,
    },
};

use crate::{cq, element, ioctl, table};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static HELD: Held = Held(UnsafeCell::new(None));

/// A process, as opposed to its parent and its children.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Self {
        Process(GENERATION.load(Ordering::Relaxed))
    }

    pub(crate) fn is_this(self) -> bool {
        self == Self::this()
    }
}

/// The locks that all contexts share, while the process forks: the child must not inherit one
/// that a thread holds which it has not got.
struct Held(UnsafeCell<Option<Guards>>);

type Guards = (
    cq::AddingGuard,
    table::WriteGuard,
    ioctl::WriteGuard,
    element::OpenGuard,
);

// SAFETY: It belongs to who has the locks.
unsafe impl Sync for Held {}

/// Has [`Process`] know of forks from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: The library stays loaded. Without memory for it there is none to fork.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before() {
    // In the order in which they are taken everywhere.
    let adding = cq::adding();
    let guards = (adding, table::write(), ioctl::write(), element::open());
    // SAFETY: This thread has the locks.
    unsafe { *HELD.0.get() = Some(guards) };
}

extern "C" fn in_parent() {
    // SAFETY: As above.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    in_parent();
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;

    #[test]
    fn a_child_is_another_process() {
        watch();
        let process = Process::this();
        // SAFETY: The child only ends.
        match unsafe { libc::fork() } {
            0 => {
                let told = !process.is_this();
                // It gets the locks.
                drop(table::write());
                drop(cq::adding());
                // SAFETY: It ends the child.
                unsafe { libc::_exit(c_int::from(!told)) }
            }
            child => {
                assert!(child > 0);
                let mut status = 1;
                // SAFETY: It writes the status.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0);
                assert!(process.is_this());
                drop(table::write());
            }
        }
    }
}
