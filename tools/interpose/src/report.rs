// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What the user is told, on stderr, and the program, in errno.

use std::{
    collections::HashSet,
    ffi::c_int,
    fmt::Display,
    io::{self, stderr},
    ptr,
    sync::{Mutex, OnceLock},
};

use ibxrc::Error;
use rustix::io::write;

/// What `ibxrc run -v` sets.
const VERBOSE: &str = "IBXRC_RUN_VERBOSE";

/// Tells what matters only to somebody who wants to know it.
pub(crate) fn note(what: impl Display) {
    static VERBOSELY: OnceLock<bool> = OnceLock::new();
    if *VERBOSELY.get_or_init(|| std::env::var_os(VERBOSE).is_some()) {
        say(what);
    }
}

/// Tells why something does not work.
pub(crate) fn complain(what: impl Display) {
    say(what);
}

/// Says it once. With one call, so that lines of several processes stay lines, and without the
/// lock of standard error, which somebody may have held when this process was forked.
fn say(what: impl Display) {
    static SAID: OnceLock<Mutex<Said>> = OnceLock::new();
    let line = format!("ibxrc run: {what}\n");
    if let Ok(mut said) = SAID.get_or_init(Mutex::default).try_lock() {
        if !said.is_new(&line) {
            return;
        }
    }
    let errno = io::Error::last_os_error().raw_os_error();
    // There is nobody to tell that it cannot be told.
    let _ = write(stderr(), line.as_bytes());
    // It may be what the program is going to look at.
    set_errno(errno.unwrap_or(0));
}

/// What was said already.
#[derive(Default)]
struct Said(HashSet<String>);

impl Said {
    /// To be said; not if it was, or so much was that one more helps nobody.
    fn is_new(&mut self, line: &str) -> bool {
        const MOST: usize = 256;
        self.0.len() < MOST && self.0.insert(line.to_owned())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_twice_or_without_end() {
        let mut said = Said::default();
        assert!(said.is_new("a"));
        assert!(!said.is_new("a"));
        assert!(said.is_new("b"));
        let more = (0..1000).filter(|n| said.is_new(&n.to_string())).count();
        assert_eq!(more, 254);
    }
}
