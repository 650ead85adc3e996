// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The thread that looks after work requests while the program does something else.
//!
//! A device with XRC sends a long message by itself. Here it is many messages, of which only
//! so many fit into the send queue; when those are done somebody has to post the next ones.

use std::{
    ffi::c_int,
    io,
    mem::{self, MaybeUninit},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    thread::{self, JoinHandle},
};

use ibxrc::verbs::*;
use rustix::{
    event::{eventfd, poll, EventfdFlags, PollFd, PollFlags},
    fs::{fcntl_getfl, fcntl_setfl, OFlags},
    io::write,
};

use crate::{cq, fork::Process, real::real};

/// Dropped, it stops.
pub(crate) struct Progress {
    channel: NonNull<ibv_comp_channel>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    /// Where the thread is.
    process: Process,
}

/// The channel, for the thread.
struct Channel(NonNull<ibv_comp_channel>);

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for Channel {}

impl Progress {
    /// Starts it for a context. An errno value.
    pub(crate) fn start(context: *mut ibv_context) -> Result<Self, c_int> {
        // SAFETY: The caller has a good context.
        let channel = unsafe { (real().create_comp_channel)(context) };
        let channel = NonNull::new(channel).ok_or_else(|| {
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        })?;
        let started = (|| {
            // SAFETY: It is open as long as the channel.
            let fd = unsafe { BorrowedFd::borrow_raw(channel.as_ref().fd) };
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
            let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let (stopped, given) = (stop.try_clone()?, Channel(channel));
            let thread = without_signals(|| {
                thread::Builder::new()
                    .name("ibxrc".into())
                    .spawn(move || run(given, stopped))
            })?;
            Ok((stop, thread))
        })();
        match started {
            Ok((stop, thread)) => Ok(Progress {
                channel,
                stop,
                thread: Some(thread),
                process: Process::this(),
            }),
            Err(error) => {
                // SAFETY: Nobody else has it.
                unsafe { (real().destroy_comp_channel)(channel.as_ptr()) };
                let error: io::Error = error;
                Err(error.raw_os_error().unwrap_or(libc::EAGAIN))
            }
        }
    }

    /// What CQs are made with that it shall look after. Their `cq_context` is the program's
    /// CQ.
    pub(crate) fn channel(&self) -> *mut ibv_comp_channel {
        self.channel.as_ptr()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // Its descriptors are shared with the parent, and the thread is the parent's.
            mem::forget(self.thread.take());
            return;
        }
        let _ = write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // SAFETY: The thread has ended.
        unsafe { (real().destroy_comp_channel)(self.channel.as_ptr()) };
    }
}

/// The program's signals are none of the thread's business.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: They write what they are given.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = start();
    // SAFETY: It was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}

fn run(channel: Channel, stop: OwnedFd) {
    let channel = channel.0.as_ptr();
    // SAFETY: It is there until the thread has ended.
    let fd = unsafe { BorrowedFd::borrow_raw((*channel).fd) };
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(fd, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        let (mut hidden, mut program) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: A good channel.
        if unsafe { (real().get_cq_event)(channel, &mut hidden, &mut program) } != 0 {
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => continue,
                // The device is gone.
                _ => return,
            }
        }
        // SAFETY: It is not freed before the hidden CQ is destroyed, and that not before the
        // event is acknowledged.
        if let Some(cq) = unsafe { cq::of(program.cast()) } {
            cq.sends.progress(cq, hidden);
        }
        // SAFETY: It has one event.
        unsafe { (real().ack_cq_events)(hidden, 1) };
    }
}
