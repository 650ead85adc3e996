// SPDX-License-Identifier: GPL-2.0

//! What waits at an SRQ.
//!
//! A message of several parts takes a work request with its first part, and has it until the last
//! one: it is *open*. Its parts go before all others, as they need no work request: the receiver
//! may post none until it gets one back.

use core::mem;

use kernel::{
    list::{
        List,
        ListArc, //
    },
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

use crate::{
    bindings,
    xrc::event_file::EventSource, //
};

use super::{
    part::{
        MessageId,
        Origin,
        Part, //
    },
    receiver::Receiver,
    recv_ring::{
        RecvRing,
        RecvWr, //
    },
    SRQ_BACKLOG, //
};

/// A message that is being put together in the buffers of a work request.
pub(super) struct Assembly {
    /// Where it goes.
    pub(super) wr: RecvWr,
    /// What is known of its completion.
    pub(super) cqe: bindings::ib_xrc_cqe,
    /// Bytes that are there.
    pub(super) filled: u64,
}

/// A message which has a work request, and of which not all has arrived or is copied.
pub(super) struct Open {
    /// Which one it is.
    pub(super) origin: Origin,
    /// `None` while a part of it is being copied.
    pub(super) assembly: Option<KBox<Assembly>>,
    /// The rest of it does not come, or is not wanted.
    pub(super) aborted: bool,
}

/// A message in one part that was taken to be copied.
struct Copying {
    /// Its receiver's address: a reference might be the last one, which nobody can drop here.
    key: usize,
    id: MessageId,
    /// It is not wanted any more.
    dropped: bool,
}

/// Memory for an open message.
pub(super) struct OpenRoom {
    node: RBTreeNodeReservation<usize, Open>,
    assembly: KBox<Assembly>,
}

impl OpenRoom {
    /// Sleeps.
    pub(super) fn new(assembly: Assembly) -> Result<Self> {
        Ok(Self {
            node: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
            assembly: KBox::new(assembly, GFP_KERNEL_ACCOUNT)?,
        })
    }
}

/// What to do next.
pub(super) enum Step {
    /// There is nothing.
    Idle,
    /// A part whose message is over: to be dropped.
    Drop(ListArc<Part>),
    /// A message whose rest does not come: it ends here.
    Abort(Open, List<Part>),
    /// The next part of an open message.
    Continue(ListArc<Part>, KBox<Assembly>),
    /// A message waits for a work request.
    Begin {
        /// It is in one part.
        whole: bool,
    },
}

/// What waits at an SRQ. All is done with a spinlock held.
pub(super) struct Queue {
    /// Messages that have no work request, in the order in which they came.
    fresh: List<Part>,
    /// Parts of open messages.
    ready: List<Part>,
    /// The open messages, by the address of the receiver: each has one at a time.
    open: RBTree<usize, Open>,
    /// How many of them are aborted.
    aborted: usize,
    /// The message in one part that was taken to be copied.
    copying: Option<Copying>,
    /// Places for parts to come, with a spare buffer each.
    spares: List<Part>,
    /// No more messages are taken.
    closed: bool,
    /// The kernel's own copy: the one in the ring is for userspace to read.
    flags: u32,
    /// Who is told of the limit, the backlog and the error.
    pub(super) events: Option<EventSource>,
    /// The backlog was told of, and is not over.
    backlogged: bool,
}

fn key(receiver: &Receiver) -> usize {
    core::ptr::from_ref(receiver).addr()
}

/// Moves the parts that `goes` picks from one list to the end of another, in their order.
fn extract(from: &mut List<Part>, to: &mut List<Part>, goes: impl Fn(&Origin) -> bool) {
    let mut cursor = from.cursor_front();

    while let Some(next) = cursor.peek_next() {
        if next.origin().is_some_and(&goes) {
            to.push_back(next.remove());
        } else {
            cursor.move_next();
        }
    }
}

impl Queue {
    /// Nothing waits. Sleeps.
    pub(super) fn new(events: Option<EventSource>) -> Result<Self> {
        let mut spares = List::new();

        for _ in 0..SRQ_BACKLOG {
            spares.push_back(Part::new(true)?);
        }

        Ok(Self {
            fresh: List::new(),
            ready: List::new(),
            open: RBTree::new(),
            aborted: 0,
            copying: None,
            spares,
            closed: false,
            flags: 0,
            events,
            backlogged: false,
        })
    }

    /// Takes no more messages.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether no more messages are taken.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// `enum ib_xrc_srq_ring_flags`
    pub(super) fn flags(&self) -> u32 {
        self.flags
    }

    /// Tells userspace these flags.
    pub(super) fn set_flags(&mut self, ring: &RecvRing, flags: u32) {
        if self.flags != flags {
            self.flags = flags;
            ring.set_flags(flags);
        }
    }

    /// Tells the event file, if there is one.
    pub(super) fn raise(&self, num: u32, event_type: u32, value: u32) {
        if let Some(events) = &self.events {
            events.raise(event_type, num, value);
        }
    }

    /// Takes a place for a part. If there is none, also says whether that is news.
    pub(super) fn take_spare(&mut self) -> (Option<ListArc<Part>>, bool) {
        let spare = self.spares.pop_front();
        let news = spare.is_none() && !self.backlogged && !self.closed;

        self.backlogged |= news;
        (spare, news)
    }

    /// Takes a place back.
    pub(super) fn put_spare(&mut self, place: ListArc<Part>) {
        self.spares.push_back(place);
    }

    /// Takes a part. `Err`: it is not wanted.
    pub(super) fn enqueue(&mut self, part: ListArc<Part>) -> Result<(), ListArc<Part>> {
        let Some(origin) = part.origin() else {
            return Err(part);
        };

        if self.closed {
            return Err(part);
        }
        match self.open.get(&key(&origin.receiver)) {
            Some(open) if open.origin.is(origin) => {
                if open.aborted {
                    return Err(part);
                }
                self.ready.push_back(part);
            }
            _ => self.fresh.push_back(part),
        }
        Ok(())
    }

    /// If nothing waits the backlog is over, and userspace need not kick.
    pub(super) fn settle(&mut self, ring: &RecvRing) {
        if !self.closed && self.fresh.is_empty() && self.ready.is_empty() {
            self.backlogged = false;
            self.set_flags(ring, 0);
        }
    }

    /// What to do next.
    pub(super) fn next(&mut self) -> Step {
        self.copying = None;
        if self.closed {
            return Step::Idle;
        }
        if self.aborted != 0 {
            if let Some((open, rest)) = self.pop_aborted() {
                return Step::Abort(open, rest);
            }
        }
        if let Some(part) = self.ready.pop_front() {
            let assembly = part
                .origin()
                .and_then(|origin| self.open.get_mut(&key(&origin.receiver)))
                .and_then(|open| open.assembly.take());

            return match assembly {
                Some(assembly) => Step::Continue(part, assembly),
                None => Step::Drop(part),
            };
        }

        let Some(part) = self.fresh.iter().next() else {
            return Step::Idle;
        };

        if !part.is_first() {
            // Its message was refused.
            return self.fresh.pop_front().map_or(Step::Idle, Step::Drop);
        }
        Step::Begin {
            whole: part.is_last(),
        }
    }

    fn pop_aborted(&mut self) -> Option<(Open, List<Part>)> {
        let (&key, _) = self.open.iter().find(|(_, open)| open.aborted)?;

        self.end(key)
    }

    fn end(&mut self, key: usize) -> Option<(Open, List<Part>)> {
        let open = self.open.remove(&key)?;
        let mut rest = List::new();

        self.aborted = self.aborted.saturating_sub(usize::from(open.aborted));
        extract(&mut self.ready, &mut rest, |origin| origin.is(&open.origin));
        Some((open, rest))
    }

    /// Takes the first message that waits, which is in one part. `None`: there is none any more, or
    /// it is not.
    pub(super) fn pop_whole(&mut self) -> Option<ListArc<Part>> {
        let part = self.fresh.iter().next()?;

        if !(part.is_first() && part.is_last()) {
            return None;
        }
        self.copying = part.origin().map(|origin| Copying {
            key: key(&origin.receiver),
            id: origin.id(),
            dropped: false,
        });
        self.fresh.pop_front()
    }

    /// The message that was taken last was copied, or not. Returns whether it is still wanted.
    pub(super) fn copied(&mut self) -> bool {
        !self.copying.take().is_some_and(|copying| copying.dropped)
    }

    /// That is the first message again, which was taken last. `Err`: it is not wanted.
    pub(super) fn put_back(&mut self, part: ListArc<Part>) -> Result<(), ListArc<Part>> {
        if !self.copied() || self.closed {
            return Err(part);
        }
        self.fresh.push_front(part);
        Ok(())
    }

    /// Gives the first message that waits, which is in parts, a work request. `Err`: there is none
    /// any more, or it is not, or something else is to be done first.
    pub(super) fn open(&mut self, room: OpenRoom) -> Result<(), OpenRoom> {
        let OpenRoom { node, mut assembly } = room;
        // What was aborted since `next` was asked goes first: it may be of the same receiver.
        let takes = !self.closed && self.aborted == 0;
        let first = match self.fresh.iter().next() {
            Some(part) if takes && part.is_first() && !part.is_last() => part
                .origin()
                .map(|origin| (origin.clone(), part.completion())),
            _ => None,
        };
        let Some((origin, cqe)) = first else {
            return Err(OpenRoom { node, assembly });
        };

        // Not before: it may be another message than when the room was made.
        assembly.cqe = bindings::ib_xrc_cqe {
            wr_id: assembly.cqe.wr_id,
            srq_user_handle: assembly.cqe.srq_user_handle,
            ..cqe
        };
        extract(&mut self.fresh, &mut self.ready, |other| origin.is(other));
        // The receiver has no other one: it was aborted before, and ended.
        self.open.insert(node.into_node(
            key(&origin.receiver),
            Open {
                origin,
                assembly: Some(assembly),
                aborted: false,
            },
        ));
        Ok(())
    }

    /// A part of an open message was copied, or is to be copied again. `Err`: nobody waits for it any
    /// more.
    pub(super) fn suspend(
        &mut self,
        origin: &Origin,
        assembly: KBox<Assembly>,
    ) -> Result<(), KBox<Assembly>> {
        match self.open.get_mut(&key(&origin.receiver)) {
            Some(open) if open.origin.is(origin) => {
                open.assembly = Some(assembly);
                Ok(())
            }
            _ => Err(assembly),
        }
    }

    /// The part is the next one of its open message again.
    pub(super) fn put_back_ready(&mut self, part: ListArc<Part>) {
        self.ready.push_front(part);
    }

    /// Ends an open message; it is up to the caller what becomes of it. Parts that came meanwhile
    /// are not needed. `None`: somebody else has ended it.
    pub(super) fn finish(&mut self, origin: &Origin) -> Option<(Open, List<Part>)> {
        let key = key(&origin.receiver);

        if !self.open.get(&key)?.origin.is(origin) {
            return None;
        }
        self.end(key)
    }

    /// Takes out what has come from a receiver and is to go. Returns the parts which had no work
    /// request, those which had, and whether an open message is aborted.
    pub(super) fn discard(
        &mut self,
        receiver: &Receiver,
        goes_by_id: impl Fn(MessageId) -> bool,
    ) -> (List<Part>, List<Part>, bool) {
        let (mut fresh, mut ready) = (List::new(), List::new());
        let goes = |origin: &Origin| origin.is_from(receiver) && goes_by_id(origin.id());

        extract(&mut self.fresh, &mut fresh, goes);
        extract(&mut self.ready, &mut ready, goes);
        if let Some(copying) = &mut self.copying {
            copying.dropped |= copying.key == key(receiver) && goes_by_id(copying.id);
        }

        let abort = match self.open.get_mut(&key(receiver)) {
            Some(open) if !open.aborted && goes(&open.origin) => {
                open.aborted = true;
                true
            }
            _ => false,
        };

        self.aborted = self.aborted.saturating_add(usize::from(abort));
        (fresh, ready, abort)
    }

    /// Takes out everything. Returns the parts which had no work request, those which had, and the
    /// open messages.
    pub(super) fn clear(&mut self) -> (List<Part>, List<Part>, RBTree<usize, Open>) {
        self.aborted = 0;
        self.copying = None;
        (
            mem::replace(&mut self.fresh, List::new()),
            mem::replace(&mut self.ready, List::new()),
            mem::take(&mut self.open),
        )
    }
}
