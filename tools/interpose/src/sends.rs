// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What the RC QPs behind XRC_SEND QPs complete into.
//!
//! They complete into CQs of our own, since a work request of the program may be many of the
//! RC QP, for which its CQ has no room. Their completions become those of the program, which
//! wait here until it polls. They are looked at when it does, and by a thread (see
//! [`crate::progress`]) when it waits for an event, or when a QP has work requests that can
//! only be posted then.

use std::{
    collections::{hash_map::Entry, HashMap, VecDeque},
    ffi::c_int,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ibxrc::verbs::*;

use crate::{
    context::Context,
    cq::Cq,
    element::Element,
    listener::{self, Wanted},
    real::real,
    sender::Sender,
};

/// A CQ of our own.
struct Hidden {
    cq: NonNull<ibv_cq>,
    /// How many completions QPs may have outstanding in it in addition.
    room: u32,
    armed: bool,
}

struct Inner {
    hidden: Vec<Hidden>,
    /// By the number of the RC QP.
    senders: HashMap<u32, Arc<Sender>>,
    /// Completions of the program.
    done: VecDeque<ibv_wc>,
    /// The event that the program waits for. No completion of a sender is solicited, but
    /// those with an error count as such.
    wanted: Wanted,
}

// SAFETY: The pointers are used in calls of libibverbs, which is thread-safe.
unsafe impl Send for Inner {}

/// The sending side of a CQ of the program.
pub(crate) struct Sends {
    context: &'static Context,
    /// The program's CQ, which events of hidden ones name.
    program: NonNull<ibv_cq>,
    inner: Mutex<Inner>,
}

impl Sends {
    pub(crate) fn new(context: &'static Context, program: NonNull<ibv_cq>) -> Self {
        Sends {
            context,
            program,
            inner: Mutex::new(Inner {
                hidden: Vec::new(),
                senders: HashMap::new(),
                done: VecDeque::new(),
                wanted: Wanted::No,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A CQ for an RC QP that may have so many completions there. An errno value.
    pub(crate) fn hidden(&self, room: u32) -> Result<NonNull<ibv_cq>, c_int> {
        const ENTRIES: u32 = 1024;
        let mut inner = self.lock();
        if let Some(hidden) = inner.hidden.iter_mut().find(|h| h.room >= room) {
            hidden.room -= room;
            return Ok(hidden.cq);
        }
        let most = u32::try_from(self.context.limits.max_cqe).unwrap_or(ENTRIES);
        let entries = ENTRIES.min(most).max(room);
        let channel = self.context.progress()?.channel();
        // SAFETY: The context is open as long as there are objects of it.
        let hidden = unsafe {
            (real().create_cq)(
                self.context.verbs(),
                entries as c_int,
                self.program.as_ptr().cast(),
                channel,
                0,
            )
        };
        let hidden = NonNull::new(hidden).ok_or_else(last_errno)?;
        if let Some(events) = &self.context.events {
            let program = Element::Cq(self.program.as_ptr());
            events.substitute(Element::Cq(hidden.as_ptr()), program);
        }
        let first = inner.hidden.is_empty();
        inner.hidden.push(Hidden {
            cq: hidden,
            room: entries - room,
            armed: false,
        });
        // SAFETY: The program's CQ is not destroyed as long as we are there.
        if let (true, Some(listener)) = (first, unsafe { listener::of(self.program.as_ptr()) }) {
            // The program may have asked for an event before.
            inner.wanted = listener.wanted();
        }
        if inner.wanted != Wanted::No {
            inner.arm(self.context);
        }
        Ok(hidden)
    }

    /// Gives back what [`Self::hidden`] gave: the RC QP is gone.
    pub(crate) fn release(&self, cq: NonNull<ibv_cq>, room: u32) {
        let mut inner = self.lock();
        if let Some(hidden) = inner.hidden.iter_mut().find(|h| h.cq == cq) {
            hidden.room += room;
        }
    }

    pub(crate) fn add(&self, cq: &Cq, sender: &Arc<Sender>) {
        let mut inner = self.lock();
        // One that was destroyed may have had its number, and completions.
        inner.drain(self.context, cq);
        inner.senders.insert(sender.qp_num(), sender.clone());
    }

    /// Forgets a QP that was destroyed, and what of it is still in the CQs.
    pub(crate) fn remove(&self, cq: &Cq, sender: &Arc<Sender>) {
        let mut inner = self.lock();
        inner.drain(self.context, cq);
        // Another one may have its number already.
        if let Entry::Occupied(entry) = inner.senders.entry(sender.qp_num()) {
            if Arc::ptr_eq(entry.get(), sender) {
                entry.remove();
            }
        }
    }

    /// # Safety
    ///
    /// There is room for `max`.
    pub(crate) unsafe fn poll(&self, cq: &Cq, max: usize, wc: *mut ibv_wc) -> Result<usize, c_int> {
        let mut inner = self.lock();
        if inner.done.is_empty() {
            inner.drain(self.context, cq);
        }
        let mut n = 0;
        while let Some(done) = (n < max).then(|| inner.done.pop_front()).flatten() {
            // SAFETY: The caller's word.
            unsafe { wc.add(n).write(done) };
            n += 1;
        }
        Ok(n)
    }

    /// The program wants an event. An errno value.
    pub(crate) fn arm(&self, cq: &Cq, wanted: Wanted) -> c_int {
        let mut inner = self.lock();
        if inner.hidden.is_empty() {
            // It is asked for when there are some.
            return 0;
        }
        // What is there already is no reason for one, but for one that was asked for before.
        inner.drain(self.context, cq);
        inner.wanted = inner.wanted.max(wanted);
        inner.arm(self.context)
    }

    /// The program wants no event any more.
    pub(crate) fn disarm(&self) {
        self.lock().wanted = Wanted::No;
    }

    /// A QP has work requests that wait for others to complete: somebody has to see to it,
    /// even if the program does not poll.
    pub(crate) fn behind(&self, cq: &Cq) {
        let mut inner = self.lock();
        inner.arm(self.context);
        // What came before it was armed tells nothing.
        inner.drain(self.context, cq);
    }

    /// A hidden CQ told that it has completions.
    pub(crate) fn progress(&self, cq: &Cq, hidden: *mut ibv_cq) {
        let mut inner = self.lock();
        if let Some(hidden) = inner.hidden.iter_mut().find(|h| h.cq.as_ptr() == hidden) {
            hidden.armed = false;
        }
        inner.drain(self.context, cq);
        if inner.wanted != Wanted::No || inner.is_behind() {
            inner.arm(self.context);
            // What came before it was armed tells nothing.
            inner.drain(self.context, cq);
        }
    }

    /// Destroys the CQs; there is no QP any more.
    pub(crate) fn destroy(&self) {
        let hidden = std::mem::take(&mut self.lock().hidden);
        // Not under the lock: it waits for events to be acknowledged, see `progress`.
        for hidden in hidden {
            // SAFETY: Of `hidden`, and nothing uses it.
            unsafe { (real().destroy_cq)(hidden.cq.as_ptr()) };
            if let Some(events) = &self.context.events {
                events.substitute_gone(Element::Cq(hidden.cq.as_ptr()));
            }
        }
    }
}

impl Inner {
    fn is_behind(&self) -> bool {
        self.senders.values().any(|sender| sender.is_behind())
    }

    fn arm(&mut self, context: &Context) -> c_int {
        let Some(arm) = context.originals.req_notify_cq else {
            return libc::EOPNOTSUPP;
        };
        for hidden in &mut self.hidden {
            if hidden.armed {
                continue;
            }
            // SAFETY: It is there as long as we are.
            match unsafe { arm(hidden.cq.as_ptr(), 0) } {
                0 => hidden.armed = true,
                errno => return errno,
            }
        }
        0
    }

    /// Turns completions of the RC QPs into those of the program.
    fn drain(&mut self, context: &Context, cq: &Cq) {
        const BATCH: usize = 16;
        let Some(poll) = context.originals.poll_cq else {
            return;
        };
        let before = self.done.len();
        for hidden in &self.hidden {
            loop {
                let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
                // SAFETY: There is that much room.
                let n = unsafe {
                    poll(
                        hidden.cq.as_ptr(),
                        BATCH as c_int,
                        batch.as_mut_ptr().cast(),
                    )
                };
                for wc in &batch[..usize::try_from(n).unwrap_or(0)] {
                    // SAFETY: So many were written.
                    let wc = unsafe { wc.assume_init_ref() };
                    if let Some(sender) = self.senders.get(&wc.qp_num) {
                        sender.completed(wc, &mut self.done);
                    }
                }
                if n < BATCH as c_int {
                    break;
                }
            }
        }
        let mut new = self.done.range(before..);
        let tell = match self.wanted {
            Wanted::No => false,
            Wanted::Solicited => new.any(|wc| wc.status != IBV_WC_SUCCESS),
            Wanted::Any => new.next().is_some(),
        };
        if tell {
            self.wanted = Wanted::No;
            cq.notify();
        }
    }
}

fn last_errno() -> c_int {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::ENOMEM)
}
