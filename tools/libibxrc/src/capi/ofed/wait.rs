// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Waiting for one of two descriptors.
//!
//! A thread of the program can be cancelled in it, as in libibverbs, which unwinds its
//! frames. Whoever waits must have no lock, and nothing to drop.

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
};

use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    fs::{fcntl_getfl, OFlags},
};

use crate::error::{Errno, Error, Result};

/// Those that are cancelled; rustix makes its system calls without the C library.
mod cancelled {
    use std::ffi::c_int;

    // Those of the libc crate are said not to unwind.
    extern "C-unwind" {
        pub(super) fn poll(fds: *mut libc::pollfd, n: libc::nfds_t, timeout: c_int) -> c_int;
        pub(super) fn pthread_testcancel();
        pub(super) fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
}

/// `PTHREAD_CANCEL_DISABLE`
const DISABLE: c_int = 1;

/// Which one has something to read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Theirs,
    Ours,
}

/// Two descriptors that somebody may close meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Both {
    theirs: RawFd,
    ours: RawFd,
}

/// What there is to do.
pub(super) enum Next<T> {
    /// Return this, or -1: errno is set.
    Return(Option<T>),
    /// Leave it to libibverbs, which may wait.
    Theirs,
    Wait(Both),
}

/// Calls `f`, in which the thread is not cancelled.
pub(super) fn uncancelled<T>(f: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: It writes the old state.
    unsafe { cancelled::pthread_setcancelstate(DISABLE, &mut before) };
    let result = f();
    // SAFETY: That is the old state.
    unsafe { cancelled::pthread_setcancelstate(before, ptr::null_mut()) };
    result
}

/// Lets the thread be cancelled, if somebody wants that.
pub(super) fn test_cancel() {
    // SAFETY: The frames up to here have nothing to drop.
    unsafe { cancelled::pthread_testcancel() };
}

/// Tells which one has something to read; otherwise what to wait for.
pub(super) fn ready(
    theirs: BorrowedFd<'_>,
    ours: BorrowedFd<'_>,
    what: &'static str,
) -> Result<std::result::Result<Ready, Both>> {
    let mut fds = [
        PollFd::new(&theirs, PollFlags::IN),
        PollFd::new(&ours, PollFlags::IN),
    ];
    let n = poll(&mut fds, Some(&Timespec::default())).map_err(|e| Error::call(what, e.into()))?;
    Ok(match fds[1].revents().contains(PollFlags::IN) {
        _ if n == 0 => Err(Both {
            theirs: theirs.as_raw_fd(),
            ours: ours.as_raw_fd(),
        }),
        true => Ok(Ready::Ours),
        false => Ok(Ready::Theirs),
    })
}

/// Waits until there may be something to read, unless `theirs` is in non-blocking mode:
/// EAGAIN. EINTR: a signal came.
pub(super) fn until_ready(both: Both) -> std::result::Result<(), Errno> {
    // SAFETY: It is the program's, and open.
    let theirs = unsafe { BorrowedFd::borrow_raw(both.theirs) };
    if fcntl_getfl(theirs)?.contains(OFlags::NONBLOCK) {
        return Err(Errno::EAGAIN);
    }
    let mut fds = [both.theirs, both.ours].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: Two descriptors, of which one may be another by now; then this ends too early at
    // worst. The frames up to here have nothing to drop.
    match unsafe { cancelled::poll(fds.as_mut_ptr(), 2, -1) } {
        -1 => Err(io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::EIO, Errno::from_raw)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsFd, os::unix::net::UnixStream, thread, time::Duration};

    use super::*;

    #[test]
    fn it_tells_which_one() {
        let (theirs, mut to_theirs) = UnixStream::pair().unwrap();
        let (ours, mut to_ours) = UnixStream::pair().unwrap();
        let ready = || ready(theirs.as_fd(), ours.as_fd(), "wait").unwrap();
        theirs.set_nonblocking(true).unwrap();
        let both = ready().unwrap_err();
        assert_eq!(until_ready(both), Err(Errno::EAGAIN));
        to_theirs.write_all(&[1]).unwrap();
        assert_eq!(ready().ok(), Some(Ready::Theirs));
        to_ours.write_all(&[1]).unwrap();
        assert_eq!(ready().ok(), Some(Ready::Ours));
    }

    #[test]
    fn it_waits_if_the_descriptor_is_so() {
        let (theirs, _to_theirs) = UnixStream::pair().unwrap();
        let (ours, mut to_ours) = UnixStream::pair().unwrap();
        let both = Both {
            theirs: theirs.as_raw_fd(),
            ours: ours.as_raw_fd(),
        };
        let waiter = thread::spawn(move || until_ready(both));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        to_ours.write_all(&[1]).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    }
}
