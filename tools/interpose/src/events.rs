// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Asynchronous events: ibv_get_async_event(3).
//!
//! They come from two places: libibverbs, for the device and what it has, and the kernel
//! module, for XRC SRQs and QPs of type XRC_RECV. The program gets a descriptor of epoll
//! in `async_fd`, which is readable if one of them is, from the beginning: programs look at
//! it once. What libibverbs does with the real one is seen to here and in [`crate::ioctl`].
//!
//! Events of what only we know, as the RC QP behind one of type XRC_SEND, are acknowledged
//! at once and become those of what the program has; [`element`] counts these.

use std::{
    collections::{HashMap, HashSet},
    ffi::c_int,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use ibxrc::{verbs::*, EventFile, EventKind, ReportTo, SrqError};
use rustix::{
    event::{epoll, poll, PollFd, PollFlags, Timespec},
    fs::{fcntl_getfl, fcntl_setfl, OFlags},
};

use crate::{
    context::{self, Context},
    element::{self, Element},
    ioctl,
    real::real,
    report, wait,
};

/// The asynchronous events of a context.
pub(crate) struct Events {
    verbs: NonNull<ibv_context>,
    /// What libibverbs and the kernel know.
    real: RawFd,
    /// What the program knows.
    epoll: OwnedFd,
    module: OnceLock<EventFile>,
    /// Held while libibverbs reads the real one, which it finds in the context.
    reading: Mutex<()>,
    names: Mutex<Names>,
}

// SAFETY: The pointer is used in calls of libibverbs, which is thread-safe.
unsafe impl Send for Events {}
// SAFETY: As above.
unsafe impl Sync for Events {}

/// Under which names events come.
#[derive(Default)]
struct Names {
    last: u64,
    /// What the module knows by a number.
    numbers: HashMap<u64, Named>,
    /// What stands for an object that libibverbs knows.
    substitutes: HashMap<Element, Element>,
    /// CQs that were told to be in error.
    failed: HashSet<Element>,
}

#[derive(Clone, Copy)]
struct Named {
    element: Element,
    /// Where it completes.
    cq: Option<Element>,
}

/// An object that the module reports events for. Dropped, it gets none any more; those that
/// the program has are to be acknowledged.
pub(crate) struct Subject {
    events: &'static Events,
    number: u64,
}

impl Subject {
    /// For an object that is about to be made.
    pub(crate) fn new(context: &Context, element: Element, cq: Option<Element>) -> Option<Self> {
        // SAFETY: A context outlives what is made with it.
        let context: &'static Context = unsafe { &*ptr::from_ref(context) };
        let events = context.events.as_ref()?;
        let mut names = events.names();
        names.last += 1;
        let number = names.last;
        names.numbers.insert(number, Named { element, cq });
        drop(names);
        Some(Subject { events, number })
    }

    /// What its events carry.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Where it is to report to.
    pub(crate) fn report_to(&self, context: &Context) -> ibxrc::Result<ReportTo<'static>> {
        Ok(ReportTo {
            file: self.events.module(context)?,
            user_handle: self.number,
        })
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.events.names().numbers.remove(&self.number);
    }
}

impl Events {
    /// Puts a descriptor of ours into a context that was just opened.
    ///
    /// # Safety
    ///
    /// A good context, which stays until [`Self::restore`]; nobody else has it yet.
    pub(crate) unsafe fn new(verbs: NonNull<ibv_context>) -> rustix::io::Result<Self> {
        // SAFETY: The caller's word.
        let real = unsafe { verbs.as_ref() }.async_fd;
        if real < 0 {
            return Err(rustix::io::Errno::BADF);
        }
        // SAFETY: It is open as long as the context.
        let fd = unsafe { BorrowedFd::borrow_raw(real) };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        add(&epoll, fd)?;
        fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        ioctl::stand_for(epoll.as_raw_fd(), real);
        let events = Events {
            verbs,
            real,
            epoll,
            module: OnceLock::new(),
            reading: Mutex::new(()),
            names: Mutex::default(),
        };
        events.show(events.epoll.as_raw_fd());
        Ok(events)
    }

    /// Puts the real descriptor back: the context is going to be closed.
    pub(crate) fn restore(&self) {
        self.show(self.real);
        ioctl::forget(self.epoll.as_raw_fd());
    }

    /// Other threads may read it at the same time. Each gets one or the other.
    fn show(&self, fd: RawFd) {
        // SAFETY: The context is not closed.
        unsafe { ptr::write_volatile(&raw mut (*self.verbs.as_ptr()).async_fd, fd) };
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the module's objects report to.
    fn module(&self, context: &Context) -> ibxrc::Result<&EventFile> {
        // With two at a time the second one is not needed.
        let _names = self.names();
        if let Some(module) = self.module.get() {
            return Ok(module);
        }
        let module = context.module.create_event_file(None)?;
        add(&self.epoll, module.as_fd()).map_err(|errno| ibxrc::Error::System {
            what: "watch for events",
            errno: ibxrc::Errno::from_raw(errno.raw_os_error()),
        })?;
        Ok(self.module.get_or_init(|| module))
    }

    /// Events of `known`, which libibverbs made for us, are those of `element`.
    pub(crate) fn substitute(&self, known: Element, element: Element) {
        self.names().substitutes.insert(known, element);
    }

    /// What libibverbs made is gone.
    pub(crate) fn substitute_gone(&self, known: Element) {
        self.names().substitutes.remove(&known);
    }

    /// A CQ is gone; another one may get its address.
    pub(crate) fn cq_gone(&self, cq: *mut ibv_cq) {
        self.names().failed.remove(&Element::Cq(cq));
    }

    /// Takes an event from where there is one. An errno value.
    fn take(&self) -> Result<Option<ibv_async_event>, c_int> {
        if let Some(event) = self.take_module() {
            return Ok(Some(event));
        }
        self.take_real()
    }

    fn take_module(&self) -> Option<ibv_async_event> {
        let module = self.module.get()?;
        loop {
            // Held until the event counts as the program's: nobody destroys it before.
            let mut names = self.names();
            let event = match module.try_read() {
                Ok(event) => event?,
                Err(error) => {
                    // The device is gone, of which libibverbs tells. It would stay readable.
                    let _ = epoll::delete(&self.epoll, module);
                    report::note(format_args!("no more events of XRC objects: {error}"));
                    return None;
                }
            };
            let Some(named) = names.numbers.get(&event.user_handle).copied() else {
                continue;
            };
            if let Some(event) = names.translate(named, event.kind) {
                return Some(event);
            }
        }
    }

    fn take_real(&self) -> Result<Option<ibv_async_event>, c_int> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: It is open as long as the context.
        let fd = unsafe { BorrowedFd::borrow_raw(self.real) };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(0) => return Ok(None),
            Ok(_) => (),
            Err(errno) => return Err(errno.raw_os_error()),
        }
        let mut event = MaybeUninit::uninit();
        self.show(self.real);
        // SAFETY: A good context, in non-blocking mode.
        let got = unsafe { (real().get_async_event)(self.verbs.as_ptr(), event.as_mut_ptr()) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        self.show(self.epoll.as_raw_fd());
        if got != 0 {
            return match errno {
                Some(libc::EAGAIN) => Ok(None),
                errno => Err(errno.unwrap_or(libc::EIO)),
            };
        }
        // SAFETY: It was written.
        let event: ibv_async_event = unsafe { event.assume_init() };
        // SAFETY: It is of libibverbs.
        let Some(known) = (unsafe { Element::of(&event) }) else {
            return Ok(Some(event));
        };
        let names = self.names();
        let Some(&element) = names.substitutes.get(&known) else {
            return Ok(Some(event));
        };
        element::taken(element);
        drop(names);
        // SAFETY: It was got just now.
        unsafe { (real().ack_async_event)(&raw const event as *mut _) };
        Ok(Some(element.event(event.event_type)))
    }
}

impl Names {
    /// An event of the module, as libibverbs has it; `None`: it has none.
    fn translate(&mut self, named: Named, kind: EventKind) -> Option<ibv_async_event> {
        let (element, event_type) = match kind {
            EventKind::TgtQpError { error, .. } => (named.element, error.0),
            // A device with XRC keeps it as long as somebody has it open.
            EventKind::TgtQpReclaimed { .. } => (named.element, IBV_EVENT_QP_FATAL),
            EventKind::SrqLimit { .. } => (named.element, IBV_EVENT_SRQ_LIMIT_REACHED),
            EventKind::SrqError { error, .. } => match named.cq {
                // All SRQs that complete into it tell.
                Some(cq) if error == SrqError::Cq && self.failed.insert(cq) => {
                    (cq, IBV_EVENT_CQ_ERR)
                }
                _ => (named.element, IBV_EVENT_SRQ_ERR),
            },
            _ => return None,
        };
        element::taken(element);
        Some(element.event(event_type))
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

/// # Safety
///
/// See ibv_get_async_event(3).
pub(crate) unsafe fn get(verbs: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    // SAFETY: The caller's word.
    let events = unsafe { context::of(verbs) }.and_then(|context| context.events.as_ref());
    let Some(events) = events else {
        // SAFETY: As above.
        return unsafe { (real().get_async_event)(verbs, event) };
    };
    wait::test_cancel();
    loop {
        match wait::uncancelled(|| events.take()) {
            Ok(Some(taken)) => {
                // SAFETY: As above.
                unsafe { event.write(taken) };
                return 0;
            }
            Ok(None) => (),
            Err(errno) => {
                report::set_errno(errno);
                return -1;
            }
        }
        if let Err(errno) = wait::until_readable(&events.epoll) {
            report::set_errno(errno);
            return -1;
        }
    }
}

/// # Safety
///
/// See ibv_ack_async_event(3).
pub(crate) unsafe fn ack(event: *mut ibv_async_event) {
    // SAFETY: The caller's word.
    let element = unsafe { Element::of(&*event) };
    if !element.is_some_and(element::acknowledge) {
        // SAFETY: As above.
        unsafe { (real().ack_async_event)(event) };
    }
}

#[cfg(test)]
mod tests {
    use ibxrc::QpError;

    use super::*;

    #[test]
    fn events_of_the_module_become_those_of_libibverbs() {
        let mut names = Names::default();
        let qp = Named {
            element: Element::Qp(0x7770 as *mut ibv_qp),
            cq: None,
        };
        let mut translate = |named: Named, kind, wanted: Option<(Element, ibv_event_type)>| {
            let event = names.translate(named, kind);
            // SAFETY: An event.
            let got = event.map(|e| (unsafe { Element::of(&e) }.unwrap(), e.event_type));
            assert_eq!(got, wanted);
            if let Some((element, _)) = wanted {
                assert!(element::acknowledge(element));
                assert!(!element::acknowledge(element));
            }
        };
        let kind = EventKind::TgtQpError {
            qp_num: 1,
            error: QpError::ACCESS_ERR,
        };
        translate(qp, kind, Some((qp.element, IBV_EVENT_QP_ACCESS_ERR)));
        translate(qp, EventKind::TgtQpCreated { qp_num: 1 }, None);
        translate(qp, EventKind::PortDown { port: 1 }, None);

        let cq = Element::Cq(0x7780 as *mut ibv_cq);
        let srq = |address: usize| Named {
            element: Element::Srq(address as *mut ibv_srq),
            cq: Some(cq),
        };
        let overflow = EventKind::SrqError {
            srq_num: 1,
            error: SrqError::Cq,
        };
        // A CQ is in error once.
        translate(srq(0x7790), overflow, Some((cq, IBV_EVENT_CQ_ERR)));
        let second = srq(0x77a0);
        translate(second, overflow, Some((second.element, IBV_EVENT_SRQ_ERR)));
        let limit = EventKind::SrqLimit {
            srq_num: 1,
            limit: 1,
        };
        let wanted = Some((second.element, IBV_EVENT_SRQ_LIMIT_REACHED));
        translate(second, limit, wanted);
    }
}
