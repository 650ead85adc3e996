// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion channels: ibv_create_comp_channel(3).
//!
//! Events come from up to three places: the real channel, for completions of the device; a
//! channel of the kernel module, for those of XRC SRQs; and a pipe, for those of XRC_SEND
//! QPs. The program gets a descriptor of epoll, which is readable if one of them is, so that
//! it can be polled like the real one.

use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Mutex, MutexGuard, OnceLock, PoisonError,
    },
};

use ibxrc::{verbs::*, CompChannel, Errno};
use rustix::{
    event::{epoll, poll, PollFd, PollFlags},
    fs::{fcntl_getfl, fcntl_setfl, OFlags},
    io::{read, write},
    pipe::{pipe_with, PipeFlags},
};

use crate::{
    context::{self, Context},
    cq,
    real::real,
    report,
    table::Table,
};

static CHANNELS: Table<Channel> = Table::new();

/// What is known of a channel of the program.
pub(crate) struct Channel {
    /// What the program has.
    shell: NonNull<ibv_comp_channel>,
    real: NonNull<ibv_comp_channel>,
    epoll: OwnedFd,
    /// Numbers of CQs whose XRC_SEND QPs have completions.
    sends: (OwnedFd, OwnedFd),
    /// For those of XRC SRQs.
    module: OnceLock<CompChannel>,
    /// Which CQ has which number.
    cqs: Mutex<HashMap<u64, NonNull<ibv_cq>>>,
    /// Where to look first.
    turn: AtomicUsize,
}

// SAFETY: The pointers are used in calls of libibverbs, which is thread-safe.
unsafe impl Send for Channel {}
// SAFETY: As above.
unsafe impl Sync for Channel {}

/// What is known of a channel; `None`: it is of a context that was left alone.
///
/// # Safety
///
/// NULL or a good channel, which is not destroyed as long as the reference is used.
pub(crate) unsafe fn of<'a>(channel: *const ibv_comp_channel) -> Option<&'a Channel> {
    // SAFETY: It is removed when it is destroyed.
    unsafe { CHANNELS.get(channel) }
}

/// # Safety
///
/// See ibv_create_comp_channel(3).
pub(crate) unsafe fn create(verbs: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: The caller's word.
    let channel = unsafe { (real().create_comp_channel)(verbs) };
    let Some(channel) = NonNull::new(channel) else {
        return ptr::null_mut();
    };
    // SAFETY: The caller's word.
    if unsafe { context::of(verbs) }.is_none() {
        return channel.as_ptr();
    }
    match Channel::new(channel) {
        Ok(new) => {
            let shell = new.shell.as_ptr();
            CHANNELS.insert(shell, Box::new(new));
            shell
        }
        Err(errno) => {
            // SAFETY: It was just created.
            unsafe { (real().destroy_comp_channel)(channel.as_ptr()) };
            report::null(errno.raw_os_error())
        }
    }
}

/// # Safety
///
/// See ibv_destroy_comp_channel(3).
pub(crate) unsafe fn destroy(shell: *mut ibv_comp_channel) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(shell) }) else {
        // SAFETY: As above.
        return unsafe { (real().destroy_comp_channel)(shell) };
    };
    // SAFETY: A context with channels is open.
    let busy = unsafe { with_context(shell, || (*shell).refcnt != 0) };
    if busy {
        return libc::EBUSY;
    }
    // SAFETY: The caller's word: nothing uses it any more.
    let errno = unsafe { (real().destroy_comp_channel)(this.real.as_ptr()) };
    if errno == 0 {
        CHANNELS.remove(shell);
        // SAFETY: Of `Channel::new`.
        drop(unsafe { Box::from_raw(shell) });
    }
    errno
}

/// Calls `f` with the mutex under which libibverbs counts the CQs of channels.
///
/// # Safety
///
/// A good channel.
unsafe fn with_context<T>(channel: *mut ibv_comp_channel, f: impl FnOnce() -> T) -> T {
    // SAFETY: The caller's word.
    let mutex = unsafe { &raw mut (*(*channel).context).mutex };
    // SAFETY: It stays as long as the context.
    unsafe { libc::pthread_mutex_lock(mutex.cast()) };
    let result = f();
    // SAFETY: Locked above.
    unsafe { libc::pthread_mutex_unlock(mutex.cast()) };
    result
}

/// # Safety
///
/// See ibv_get_cq_event(3).
pub(crate) unsafe fn get_event(
    shell: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(shell) }) else {
        // SAFETY: As above.
        return unsafe { (real().get_cq_event)(shell, cq, cq_context) };
    };
    loop {
        match this.take() {
            Ok(Some(found)) => {
                // SAFETY: The caller's word; a CQ with events is not destroyed.
                unsafe {
                    *cq = found.as_ptr();
                    *cq_context = found.as_ref().cq_context;
                }
                return 0;
            }
            Ok(None) => (),
            Err(errno) => {
                report::set_errno(errno);
                return -1;
            }
        }
        if let Err(errno) = this.wait() {
            report::set_errno(errno.raw_os_error());
            return -1;
        }
    }
}

impl Channel {
    /// Makes what the program gets of a real channel.
    fn new(real: NonNull<ibv_comp_channel>) -> rustix::io::Result<Self> {
        // SAFETY: A good channel.
        let (context, fd) = unsafe { (real.as_ref().context, real.as_ref().fd) };
        // SAFETY: It is open as long as the channel is there.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let sends = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        add(&epoll, fd)?;
        add(&epoll, sends.0.as_fd())?;
        let shell = Box::new(ibv_comp_channel {
            context,
            fd: epoll.as_raw_fd(),
            refcnt: 0,
        });
        Ok(Channel {
            shell: NonNull::from(Box::leak(shell)),
            real,
            epoll,
            sends,
            module: OnceLock::new(),
            cqs: Mutex::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// The channel that the device's CQs are made with.
    pub(crate) fn real(&self) -> *mut ibv_comp_channel {
        self.real.as_ptr()
    }

    /// Makes a CQ that was made with the real channel one of this.
    ///
    /// # Safety
    ///
    /// A good CQ that nobody else uses yet.
    pub(crate) unsafe fn take_over(&self, mut cq: NonNull<ibv_cq>) {
        let (shell, real) = (self.shell.as_ptr(), self.real.as_ptr());
        // SAFETY: The caller's word; libibverbs counts on the channel that the CQ has.
        unsafe {
            cq.as_mut().channel = shell;
            with_context(shell, || {
                (*shell).refcnt += 1;
                (*real).refcnt -= 1;
            });
        }
    }

    /// The channel for the completions of XRC SRQs.
    pub(crate) fn module(&self, context: &Context) -> ibxrc::Result<&CompChannel> {
        // With two at a time the second one is not needed.
        let _cqs = self.cqs();
        if let Some(module) = self.module.get() {
            return Ok(module);
        }
        let module = context.module.create_comp_channel()?;
        add(&self.epoll, module.as_fd()).map_err(|errno| ibxrc::Error::System {
            what: "make a completion channel",
            errno: Errno::from_raw(errno.raw_os_error()),
        })?;
        Ok(self.module.get_or_init(|| module))
    }

    fn cqs(&self) -> MutexGuard<'_, HashMap<u64, NonNull<ibv_cq>>> {
        self.cqs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a CQ its number.
    pub(crate) fn register(&self, number: u64, cq: NonNull<ibv_cq>) {
        self.cqs().insert(number, cq);
    }

    /// The CQ of this number is going to be destroyed; its events go with it.
    pub(crate) fn unregister(&self, number: u64) {
        self.cqs().remove(&number);
    }

    /// XRC_SEND QPs of the CQ of this number have completions.
    pub(crate) fn notify(&self, number: u64) {
        // With thousands of events waiting there is one that makes the program look.
        let _ = write(&self.sends.1, &number.to_ne_bytes());
    }

    /// Takes an event from where there is one.
    fn take(&self) -> Result<Option<NonNull<ibv_cq>>, c_int> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for place in 0..3 {
            let found = match (turn + place) % 3 {
                0 => self.take_real()?,
                1 => self.take_module()?,
                _ => self.take_send(),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn take_real(&self) -> Result<Option<NonNull<ibv_cq>>, c_int> {
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: The channel is there as long as we are, and is in non-blocking mode.
        match unsafe { (real().get_cq_event)(self.real.as_ptr(), &mut cq, &mut context) } {
            0 => Ok(NonNull::new(cq)),
            _ => match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN) | None => Ok(None),
                Some(errno) => Err(errno),
            },
        }
    }

    fn take_module(&self) -> Result<Option<NonNull<ibv_cq>>, c_int> {
        let Some(module) = self.module.get() else {
            return Ok(None);
        };
        while let Some(event) = module.try_read().map_err(|error| error.errno().raw())? {
            if let Some(cq) = self.found(event.user_handle) {
                return Ok(Some(cq));
            }
        }
        Ok(None)
    }

    fn take_send(&self) -> Option<NonNull<ibv_cq>> {
        let mut number = [0; size_of::<u64>()];
        while read(&self.sends.0, &mut number) == Ok(number.len()) {
            if let Some(cq) = self.found(u64::from_ne_bytes(number)) {
                return Some(cq);
            }
        }
        None
    }

    /// The CQ of this number, which has an event that libibverbs does not know.
    fn found(&self, number: u64) -> Option<NonNull<ibv_cq>> {
        let cqs = self.cqs();
        let cq = *cqs.get(&number)?;
        // SAFETY: It is not destroyed before its number is gone.
        unsafe { cq::of(cq.as_ptr()) }?.event_taken();
        Some(cq)
    }

    /// Waits until there may be an event; EAGAIN: the program does not want to.
    fn wait(&self) -> rustix::io::Result<()> {
        if fcntl_getfl(&self.epoll)?.contains(OFlags::NONBLOCK) {
            return Err(rustix::io::Errno::AGAIN);
        }
        poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], None)?;
        Ok(())
    }
}

fn add(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    epoll::add(
        epoll,
        fd,
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN,
    )
}
