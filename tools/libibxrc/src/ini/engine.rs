// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Which work requests of the RC QP a request of the user becomes, when they are
//! posted, and what their completions mean. Pure: the RC QP is a [`Queue`].
//!
//! A request is posted in one *step* or several, each a work request of the RC QP. Steps
//! have numbers, which are their `wr_id`. RC completes them in order, so that the
//! completion of one tells that all before it are done. Not all are signaled, but often
//! enough that a full send queue always has one that is.

use std::{collections::VecDeque, mem};

use crate::error::Errno;

/// The RC QP.
pub(super) trait Queue<W> {
    /// Posts a step of a request.
    fn post(&mut self, work: &W, step: Step) -> Result<(), Errno>;

    /// A request that was accepted cannot be posted: puts the QP in error, and posts
    /// something of this number, which is flushed after everything else. `false`: that did
    /// not work either.
    fn give_up(&mut self, number: u64) -> bool;
}

/// A work request of the RC QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Which one of its request, from 0.
    pub(super) index: usize,
    /// Its number, by which it completes.
    pub(super) number: u64,
    /// It is to complete even if it succeeds.
    pub(super) signaled: bool,
}

/// A request of the user.
#[derive(Clone, Debug)]
pub(super) struct Request<W> {
    /// What to post.
    pub(super) work: W,
    /// In how many steps, one or more.
    pub(super) steps: usize,
    /// The user wants to know when it is done.
    pub(super) signaled: bool,
    /// It is an RDMA READ or atomic, which has an answer.
    pub(super) fetches: bool,
    /// It is to wait for those before it which have an answer.
    pub(super) fence: bool,
}

/// A request that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done<W> {
    pub(super) work: W,
    /// Why it could not be posted, if that is what became of it.
    pub(super) broken: Option<Errno>,
}

struct Pending<W> {
    request: Request<W>,
    /// How many of its steps are posted.
    posted: usize,
    /// Number of the first, if any is.
    first: u64,
    broken: Option<Errno>,
}

impl<W> Pending<W> {
    fn is_posted(&self) -> bool {
        self.posted == self.request.steps
    }

    /// Number of the step after the last one that is posted.
    fn end(&self) -> u64 {
        self.first + self.posted as u64
    }

    fn done(self) -> Done<W> {
        Done {
            work: self.request.work,
            broken: self.broken,
        }
    }
}

/// # Invariants
///
/// `tail <= head <= tail + depth`. Of the requests that are started all but the last are
/// posted. Something is left to be posted only while a signaled step is outstanding, or
/// after a failure: then one step is enough to have a request flushed.
pub(super) struct Engine<W> {
    /// Of these steps are posted.
    started: VecDeque<Pending<W>>,
    /// Of these none are.
    waiting: VecDeque<Pending<W>>,
    max: usize,
    depth: u64,
    /// Of so many steps in a row one is signaled.
    interval: u64,
    /// The next step has this number.
    head: u64,
    /// The first step that is outstanding, if any is.
    tail: u64,
    /// The step after the last one that is signaled.
    signaled_until: u64,
    /// The QP is in error.
    failed: bool,
    careful: bool,
}

impl<W> Engine<W> {
    /// For `max` requests of the user, and a send queue of `depth`. If `careful`, requests do
    /// their waiting here: those with a fence for what they are to wait for, and RDMA READs and
    /// atomics for all others. ENOMEM.
    pub(super) fn new(max: u32, depth: u32, careful: bool) -> Result<Self, Errno> {
        let max = max as usize;
        let queue = || {
            let mut queue = VecDeque::new();
            match queue.try_reserve_exact(max) {
                Ok(()) => Ok(queue),
                Err(_) => Err(Errno::ENOMEM),
            }
        };
        let depth = u64::from(depth.max(1));
        // INVARIANT: Nothing is posted.
        Ok(Engine {
            started: queue()?,
            waiting: queue()?,
            max,
            depth,
            // What others wait for must complete.
            interval: if careful { 1 } else { (depth / 2).max(1) },
            head: 0,
            tail: 0,
            signaled_until: 0,
            failed: false,
            careful,
        })
    }

    /// There is room for so many more requests.
    pub(super) fn has_room_for(&self, n: usize) -> bool {
        n <= self
            .max
            .saturating_sub(self.started.len() + self.waiting.len())
    }

    /// Takes a request. On error nothing has changed.
    pub(super) fn submit(
        &mut self,
        queue: &mut impl Queue<W>,
        request: Request<W>,
    ) -> Result<(), Errno> {
        if !self.has_room_for(1) {
            return Err(Errno::ENOMEM);
        }
        let mut new = Pending {
            request,
            posted: 0,
            first: self.head,
            broken: None,
        };
        let next = self.waiting.is_empty() && self.started.back().is_none_or(Pending::is_posted);
        if next && self.has_room() && !self.must_wait(&new.request) {
            match self.post_step(queue, &mut new) {
                Err(Errno::ENOMEM) if self.moves() => (),
                result => result?,
            }
        }
        if new.posted == 0 {
            self.waiting.push_back(new);
            return Ok(());
        }
        self.started.push_back(new);
        self.advance(queue);
        Ok(())
    }

    /// The step of this number completed. Returns the request that this is the completion
    /// of, if it is one of the user's.
    pub(super) fn complete(
        &mut self,
        queue: &mut impl Queue<W>,
        number: u64,
        success: bool,
    ) -> Option<Done<W>> {
        if !(self.tail..self.head).contains(&number) {
            // Of before a reset.
            return None;
        }
        self.tail = number + 1;
        self.failed |= !success;
        // Those before it succeeded, or would have told.
        while self.first_started(|p| p.end() <= number) {
            self.started.pop_front();
        }
        let done = match success {
            true => self.first_started(|p| p.is_posted() && p.end() == number + 1),
            // Otherwise it is of a request that failed before.
            false => self.first_started(|p| p.first <= number),
        };
        let done = done.then(|| self.started.pop_front()).flatten();
        self.advance(queue);
        Some(done.filter(|p| p.request.signaled || !success)?.done())
    }

    /// After an error, the next request that never got to the QP. Each is to be taken
    /// before another completion is handed over.
    pub(super) fn flush(&mut self) -> Option<Done<W>> {
        if !self.failed || self.tail != self.head {
            return None;
        }
        Some(self.waiting.pop_front()?.done())
    }

    /// Something is left to be posted when something has completed.
    pub(super) fn is_behind(&self) -> bool {
        let posted = self.started.back().is_none_or(Pending::is_posted);
        !(self.failed || posted && self.waiting.is_empty())
    }

    /// The QP was reset: nothing is outstanding, and nothing will complete.
    pub(super) fn reset(&mut self) {
        self.started.clear();
        self.waiting.clear();
        self.tail = self.head;
        self.signaled_until = self.head;
        self.failed = false;
    }

    fn first_started(&self, is: impl FnOnce(&Pending<W>) -> bool) -> bool {
        self.started.front().is_some_and(is)
    }

    fn has_room(&self) -> bool {
        self.head - self.tail < self.depth
    }

    /// A step is outstanding that will complete, whatever becomes of it.
    fn moves(&self) -> bool {
        let until = match self.failed {
            true => self.head,
            false => self.signaled_until,
        };
        until > self.tail
    }

    /// Whether something that is posted has to be done before this one can be.
    fn must_wait(&self, request: &Request<W>) -> bool {
        let any = |fetches| self.started.iter().any(|p| p.request.fetches == fetches);
        self.careful && (request.fetches && any(false) || request.fence && any(true))
    }

    /// Posts the next step of a request.
    fn post_step(
        &mut self,
        queue: &mut impl Queue<W>,
        pending: &mut Pending<W>,
    ) -> Result<(), Errno> {
        let last = pending.posted + 1 == pending.request.steps;
        let since = self.head - self.signaled_until;
        let step = Step {
            index: pending.posted,
            number: self.head,
            signaled: (last && pending.request.signaled) || since + 1 >= self.interval,
        };
        queue.post(&pending.request.work, step)?;
        if pending.posted == 0 {
            pending.first = self.head;
        }
        pending.posted += 1;
        self.head += 1;
        if step.signaled {
            self.signaled_until = self.head;
        }
        Ok(())
    }

    /// Posts what there is room for.
    fn advance(&mut self, queue: &mut impl Queue<W>) {
        while !self.failed && self.has_room() {
            let next = match self.started.back().is_none_or(Pending::is_posted) {
                true => self.waiting.pop_front(),
                false => self.started.pop_back(),
            };
            let Some(mut next) = next else {
                return;
            };
            if next.posted == 0 && self.must_wait(&next.request) {
                return self.waiting.push_front(next);
            }
            let result = self.post_step(queue, &mut next);
            match result {
                // There may be room when something has completed.
                Err(errno) if !self.moves() => return self.break_off(queue, next, errno),
                _ if next.posted == 0 => self.waiting.push_front(next),
                _ => self.started.push_back(next),
            }
            if result.is_err() {
                return;
            }
        }
    }

    /// A request that was accepted cannot be posted.
    fn break_off(&mut self, queue: &mut impl Queue<W>, mut next: Pending<W>, errno: Errno) {
        self.failed = true;
        next.broken = Some(errno);
        if !queue.give_up(self.head) {
            // Nothing is sure to complete any more.
            self.tail = self.head;
            self.started.push_back(next);
            self.started.append(&mut self.waiting);
            mem::swap(&mut self.started, &mut self.waiting);
            return;
        }
        if next.posted == 0 {
            next.first = self.head;
        }
        next.posted += 1;
        self.head += 1;
        self.started.push_back(next);
    }
}
