// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion channels: ibv_create_comp_channel(3).
//!
//! Events come from up to three places: the real channel, for completions of the device; a
//! channel of the kernel module, for those of XRC SRQs; and [`Inbox`], for those of XRC_SEND
//! QPs. The program gets a descriptor of epoll, which is readable if one of them has an event,
//! so that it can be polled like the real one.
//!
//! A CQ that has several of these sources raises one event when the program asks for one:
//! when the program gets it, those that wait in the other places are dropped, and sources that
//! have none yet are told that none is wanted any more. The device cannot be told, so that
//! its event may come in addition.

use std::{
    ffi::{c_int, c_void},
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, MutexGuard, OnceLock, PoisonError,
    },
};

use ibxrc::{verbs::*, CompChannel, Errno};
use rustix::{
    event::{epoll, eventfd, EventfdFlags},
    fs::{fcntl_getfl, fcntl_setfl, OFlags},
    io::{read, write},
};

use crate::{
    context::{self, Context},
    cq,
    inbox::{Event, Inbox},
    listener,
    real::real,
    report,
    table::Table,
    wait,
};

static CHANNELS: Table<Channel> = Table::new();

/// What is known of a channel of the program.
pub(crate) struct Channel {
    /// What the program has.
    shell: NonNull<ibv_comp_channel>,
    real: NonNull<ibv_comp_channel>,
    epoll: OwnedFd,
    /// For those of XRC SRQs.
    module: OnceLock<CompChannel>,
    /// It has CQs with XRC objects.
    shared: AtomicBool,
    queue: Mutex<Queue>,
}

struct Queue {
    inbox: Inbox,
    /// An eventfd, readable if there is something in the inbox.
    signal: OwnedFd,
    signaled: bool,
}

impl Queue {
    /// Has `signal` tell the state of the inbox.
    fn update(&mut self) {
        let signaled = !self.inbox.is_empty();
        if signaled != self.signaled {
            // It is in non-blocking mode, and counts to one.
            let _ = match signaled {
                true => write(&self.signal, &1u64.to_ne_bytes()),
                false => read(&self.signal, &mut [0; size_of::<u64>()]),
            };
            self.signaled = signaled;
        }
    }
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

/// The context is being closed: gives back what its channels have of the kernel module. Their
/// descriptors stay open, as those of libibverbs do, for who polls them.
pub(crate) fn abandon(context: *mut ibv_context) {
    for channel in CHANNELS.remove_all(|channel| channel.is_of(context)) {
        let Channel { epoll, queue, .. } = *channel;
        mem::forget((epoll, queue));
    }
}

/// The context is being closed in a child: its channels are those of another process.
pub(crate) fn disown(context: *mut ibv_context) {
    mem::forget(CHANNELS.remove_all(|channel| channel.is_of(context)));
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
    wait::test_cancel();
    loop {
        match wait::uncancelled(|| this.take()) {
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
        if let Err(errno) = wait::until_readable(&this.epoll) {
            report::set_errno(errno);
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
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        add(&epoll, fd)?;
        add(&epoll, signal.as_fd())?;
        let shell = Box::new(ibv_comp_channel {
            context,
            fd: epoll.as_raw_fd(),
            refcnt: 0,
        });
        Ok(Channel {
            shell: NonNull::from(Box::leak(shell)),
            real,
            epoll,
            module: OnceLock::new(),
            shared: AtomicBool::new(false),
            queue: Mutex::new(Queue {
                inbox: Inbox::default(),
                signal,
                signaled: false,
            }),
        })
    }

    fn is_of(&self, context: *mut ibv_context) -> bool {
        // SAFETY: The program has the shell, and the context is the same all the time.
        unsafe { self.shell.as_ref() }.context == context
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
        listener::add(cq);
        self.queue().inbox.join(cq);
    }

    /// The channel for the completions of XRC SRQs.
    pub(crate) fn module(&self, context: &Context) -> ibxrc::Result<&CompChannel> {
        // With two at a time the second one is not needed.
        let _queue = self.queue();
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A CQ has XRC objects. Gives it its number.
    pub(crate) fn register(&self, number: u64, cq: NonNull<ibv_cq>) {
        self.queue().inbox.register(number, cq);
        self.shared.store(true, Ordering::Release);
    }

    /// A CQ is going to be destroyed; its events go with it.
    pub(crate) fn leave(&self, cq: NonNull<ibv_cq>) {
        let mut queue = self.queue();
        let known = queue.inbox.leave(cq);
        queue.update();
        drop(queue);
        // SAFETY: It is still there.
        unsafe { ack_unseen(cq, known) };
    }

    /// It was destroyed.
    pub(crate) fn left(&self, cq: NonNull<ibv_cq>, number: Option<u64>) {
        self.queue().inbox.left(cq, number);
    }

    /// It was not.
    pub(crate) fn stay(&self, cq: NonNull<ibv_cq>) {
        let mut queue = self.queue();
        queue.inbox.stay(cq);
        queue.update();
    }

    /// XRC_SEND QPs of a CQ have completions.
    pub(crate) fn notify(&self, cq: NonNull<ibv_cq>) {
        let mut queue = self.queue();
        queue.inbox.add(Event { cq, known: false }, true);
        queue.update();
    }

    /// Takes an event, if there is one. An errno value.
    fn take(&self) -> Result<Option<NonNull<ibv_cq>>, c_int> {
        let found = match self.shared.load(Ordering::Acquire) {
            true => self.take_any()?,
            false => self.take_real()?,
        };
        // SAFETY: It is not destroyed before its event is acknowledged.
        if let Some(listener) = found.and_then(|cq| unsafe { listener::of(cq.as_ptr()) }) {
            listener.delivered();
        }
        // SAFETY: As above.
        if let Some(cq) = found.and_then(|cq| unsafe { cq::of(cq.as_ptr()) }) {
            cq.delivered();
        }
        Ok(found)
    }

    /// Takes an event, wherever it is.
    fn take_any(&self) -> Result<Option<NonNull<ibv_cq>>, c_int> {
        let mut queue = self.queue();
        let fetched = self.fetch(&mut queue.inbox);
        let event = queue.inbox.take();
        queue.update();
        let Some(event) = event else {
            return fetched.map(|()| None);
        };
        if !event.known {
            // SAFETY: It leaves before it is destroyed.
            if let Some(listener) = unsafe { listener::of(event.cq.as_ptr()) } {
                listener.taken();
            }
        }
        Ok(Some(event.cq))
    }

    /// Takes what there is in other places. An errno value.
    fn fetch(&self, inbox: &mut Inbox) -> Result<(), c_int> {
        while let Some(cq) = self.take_real()? {
            // SAFETY: It is not destroyed before its event is acknowledged.
            let merge = unsafe { cq::of(cq.as_ptr()) }.is_some();
            if !inbox.add(Event { cq, known: true }, merge) {
                // SAFETY: As above.
                unsafe { ack_unseen(cq, 1) };
            }
        }
        let Some(module) = self.module.get() else {
            return Ok(());
        };
        while let Some(event) = module.try_read().map_err(|error| error.errno().raw())? {
            if let Some(cq) = inbox.by_number(event.user_handle) {
                inbox.add(Event { cq, known: false }, true);
            }
        }
        Ok(())
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
}

/// Acknowledges events that the program does not get.
///
/// # Safety
///
/// A good CQ that has so many.
unsafe fn ack_unseen(cq: NonNull<ibv_cq>, events: u32) {
    if events > 0 {
        // SAFETY: The caller's word.
        unsafe { (real().ack_cq_events)(cq.as_ptr(), events) };
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
