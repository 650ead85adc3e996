// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Waiting for events as libibverbs does, that is in read(2): signals whose handlers have
//! `SA_RESTART` do not end it, and a thread can be cancelled in it.
//!
//! Cancelling unwinds the thread's frames. Whoever waits must have nothing to drop.

use std::{
    ffi::c_int,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use rustix::fs::{fcntl_getfl, OFlags};

// Those of the libc crate are said not to unwind.
extern "C-unwind" {
    fn poll(fds: *mut libc::pollfd, n: libc::nfds_t, timeout: c_int) -> c_int;
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`
const DISABLE: c_int = 1;

/// Lets the thread be cancelled, if somebody wants that.
pub(crate) fn test_cancel() {
    // SAFETY: The frames up to here have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// Calls `f`, in which the thread is not cancelled.
pub(crate) fn uncancelled<T>(f: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: It writes the old state.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    let result = f();
    // SAFETY: That is the old state.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    result
}

/// Waits until there is something to be read. An errno value; EAGAIN: the descriptor is in
/// non-blocking mode.
pub(crate) fn until_readable(fd: &OwnedFd) -> Result<(), c_int> {
    match fcntl_getfl(fd) {
        Ok(flags) if flags.contains(OFlags::NONBLOCK) => return Err(libc::EAGAIN),
        Ok(_) => (),
        Err(errno) => return Err(errno.raw_os_error()),
    }
    let mut fds = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: One descriptor. The frames up to here have nothing to drop.
        if unsafe { poll(&mut fds, 1, -1) } >= 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) if all_restart() => (),
            errno => return Err(errno.unwrap_or(libc::EIO)),
        }
    }
}

/// Whether read(2) goes on after each of the signals that are handled. Which of them it was
/// is not known.
fn all_restart() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: It writes what is the case now. Those of the C library it does not tell.
        if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
            return true;
        }
        // SAFETY: It was written.
        let action = unsafe { action.assume_init_ref() };
        let handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        !handled || action.sa_flags & libc::SA_RESTART != 0
    })
}
