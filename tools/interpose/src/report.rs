// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What the user is told, on stderr, and the program, in errno.

use std::{
    ffi::c_int,
    fmt::Display,
    ptr,
    sync::{Once, OnceLock},
};

use ibxrc::Error;

/// What `ibxrc run -v` sets.
const VERBOSE: &str = "IBXRC_RUN_VERBOSE";

/// Tells what matters only to somebody who wants to know it.
pub(crate) fn note(what: impl Display) {
    static VERBOSELY: OnceLock<bool> = OnceLock::new();
    if *VERBOSELY.get_or_init(|| std::env::var_os(VERBOSE).is_some()) {
        eprintln!("ibxrc run: {what}");
    }
}

/// Tells why something does not work.
pub(crate) fn complain(what: impl Display) {
    eprintln!("ibxrc run: {what}");
}

/// The same, but not again.
pub(crate) fn once(said: &Once, what: impl Display) {
    said.call_once(|| complain(what));
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: It is this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// For calls that return a pointer.
pub(crate) fn null<T>(errno: c_int) -> *mut T {
    set_errno(errno);
    ptr::null_mut()
}

/// A call of libibverbs that did not work, in words, and its errno.
pub(crate) fn failed(call: &str, error: &Error) -> c_int {
    complain(format_args!("{call}: {error}"));
    error.errno().raw()
}
