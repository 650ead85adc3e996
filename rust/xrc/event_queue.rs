// SPDX-License-Identifier: GPL-2.0

//! A bounded queue of events, which counts what it drops.

use core::mem;

use kernel::prelude::*;

use crate::bindings;

/// An event that waits.
#[derive(Clone, Copy)]
struct Record {
    event: bindings::ib_xrc_event,
    /// Who raised it.
    source: u64,
    /// How many events were dropped between the one before and this one.
    dropped: u32,
}

/// The queue. All its memory is there from the start: what was dropped is counted in the gaps
/// between the events.
pub(crate) struct EventQueue {
    /// As long as the queue may become.
    ring: KVVec<Record>,
    /// Where in the ring the first event is.
    start: usize,
    len: usize,
    /// How many events were dropped after the last one.
    dropped: u32,
    /// Counts the events that left the queue at its front, so that a [`Front`] knows its own.
    gone: u64,
}

/// What is to be read next. It stays in the queue until [`EventQueue::remove`].
pub(crate) enum Front {
    /// So many events were dropped here.
    Dropped(u32),
    /// An event, and how many had left the queue before it.
    Event(bindings::ib_xrc_event, u64),
}

impl Front {
    /// As userspace reads it.
    pub(crate) fn event(&self) -> bindings::ib_xrc_event {
        match *self {
            Front::Dropped(dropped) => bindings::ib_xrc_event {
                type_: bindings::IB_XRC_EVENT_OVERFLOW,
                value: dropped,
                ..Default::default()
            },
            Front::Event(event, _) => event,
        }
    }
}

impl EventQueue {
    /// An empty queue for `depth` events. Sleeps.
    pub(crate) fn new(depth: u32) -> Result<Self> {
        let unused = Record {
            event: Default::default(),
            source: 0,
            dropped: 0,
        };

        Ok(Self {
            ring: KVVec::from_elem(unused, depth as usize, GFP_KERNEL_ACCOUNT)?,
            start: 0,
            len: 0,
            dropped: 0,
            gone: 0,
        })
    }

    /// The place of the event that `index` others are before; `index` is not above the depth.
    fn place(&self, index: usize) -> usize {
        let place = self.start.wrapping_add(index);

        place.checked_sub(self.ring.len()).unwrap_or(place)
    }

    /// How many events were dropped before what is to be read next.
    fn dropped_first(&mut self) -> &mut u32 {
        let first = match self.len {
            0 => None,
            _ => self.ring.get_mut(self.start),
        };

        match first {
            Some(record) => &mut record.dropped,
            None => &mut self.dropped,
        }
    }

    /// Puts an event of `source` at the end, or drops it if there is no room.
    pub(crate) fn push(&mut self, source: u64, event: bindings::ib_xrc_event) {
        if self.len == self.ring.len() {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }

        let place = self.place(self.len);

        if let Some(record) = self.ring.get_mut(place) {
            *record = Record {
                event,
                source,
                dropped: mem::take(&mut self.dropped),
            };
            self.len = self.len.saturating_add(1);
        }
    }

    /// What is to be read next.
    pub(crate) fn front(&mut self) -> Option<Front> {
        let dropped = *self.dropped_first();

        if dropped != 0 {
            return Some(Front::Dropped(dropped));
        }
        if self.len == 0 {
            return None;
        }

        let record = self.ring.get(self.start)?;

        Some(Front::Event(record.event, self.gone))
    }

    /// Removes what `front` returned, unless it is gone already. Events may have been pushed and
    /// purged meanwhile.
    pub(crate) fn remove(&mut self, front: Front) {
        match front {
            Front::Dropped(dropped) => {
                // There may be more now, if events that were after it have been purged.
                let first = self.dropped_first();

                *first = first.saturating_sub(dropped);
            }
            Front::Event(_, gone) if gone == self.gone => {
                self.start = self.place(1);
                self.len = self.len.saturating_sub(1);
                self.gone = self.gone.wrapping_add(1);
            }
            Front::Event(..) => (),
        }
    }

    /// Removes all events of `source`. The others keep their order.
    pub(crate) fn purge(&mut self, source: u64) {
        let mut kept: usize = 0;
        // What was dropped before those that go, since the last that stays.
        let mut dropped: u32 = 0;

        for index in 0..self.len {
            let Some(mut record) = self.ring.get(self.place(index)).copied() else {
                break;
            };

            dropped = dropped.saturating_add(record.dropped);
            if record.source == source {
                if kept == 0 {
                    self.gone = self.gone.wrapping_add(1);
                }
                continue;
            }

            record.dropped = mem::take(&mut dropped);

            let place = self.place(kept);

            if let Some(slot) = self.ring.get_mut(place) {
                *slot = record;
            }
            kept = kept.saturating_add(1);
        }
        self.len = kept;
        self.dropped = self.dropped.saturating_add(dropped);
    }
}
