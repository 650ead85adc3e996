// SPDX-License-Identifier: GPL-2.0

//! Who is registered with a TGT QP, and is told what happens to it.

use kernel::{
    current,
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        aref::ARef,
        Mutex, //
    },
    task::Task, //
};

use crate::bindings;

use super::event_file::EventSource;

/// A registration.
struct Holder {
    process: ARef<Task>,
    source: Option<EventSource>,
}

/// What has happened to the QP: who registers at the same moment is to hear of it too.
#[derive(Clone, Copy)]
struct News {
    event_type: u32,
    value: u32,
}

/// The registrations with a TGT QP, by number, the oldest first.
#[pin_data]
pub(crate) struct Holders {
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    holders: RBTree<u64, Holder>,
    last_id: u64,
    /// The error that the QP is in.
    error: Option<News>,
    /// It was destroyed.
    reclaimed: Option<News>,
}

impl Holders {
    /// Nobody.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(
                Inner {
                    holders: RBTree::new(),
                    last_id: 0,
                    error: None,
                    reclaimed: None,
                },
                "Holders::inner"
            ),
        })
    }

    /// Adds the calling process, to be told through `source` of QP `qp_num`. Returns the number of
    /// the registration. `ENOMEM`. Sleeps.
    pub(crate) fn add(&self, qp_num: u32, source: Option<EventSource>) -> Result<u64> {
        let process = ARef::from(current!().group_leader());
        let mut inner = self.inner.lock();
        let id = inner.last_id.wrapping_add(1);

        if let Some(source) = &source {
            for news in [inner.error, inner.reclaimed].into_iter().flatten() {
                source.raise(news.event_type, qp_num, news.value);
            }
        }
        inner.last_id = id;
        inner
            .holders
            .try_create_and_insert(id, Holder { process, source }, GFP_KERNEL_ACCOUNT)?;
        Ok(id)
    }

    /// Removes a registration; none of its events is left when this returns. Sleeps.
    pub(crate) fn remove(&self, id: u64) {
        let node = self.inner.lock().holders.remove_node(&id);

        drop(node);
    }

    /// Tells all that the QP is in error, with `enum ib_event_type`. Sleeps.
    pub(crate) fn failed(&self, qp_num: u32, error: u32) {
        let news = News {
            event_type: bindings::IB_XRC_EVENT_TGT_QP_ERROR,
            value: error,
        };
        let mut inner = self.inner.lock();

        inner.error = Some(news);
        inner.tell(qp_num, news);
    }

    /// The QP was reset.
    pub(crate) fn recovered(&self) {
        self.inner.lock().error = None;
    }

    /// Tells all that the QP was destroyed, with `enum ib_xrc_reclaim_reason`. Sleeps.
    pub(crate) fn reclaimed(&self, qp_num: u32, reason: u32) {
        let news = News {
            event_type: bindings::IB_XRC_EVENT_TGT_QP_RECLAIMED,
            value: reason,
        };
        let mut inner = self.inner.lock();

        inner.reclaimed = Some(news);
        inner.tell(qp_num, news);
    }

    /// Describes the registrations with a greater number than `after`, up to `capacity` of them, as
    /// the calling process sees them. Returns also how many there are. `ESTALE`: the QP was
    /// reclaimed. Sleeps.
    pub(crate) fn list(
        &self,
        after: u64,
        capacity: usize,
    ) -> Result<(KVVec<bindings::ib_xrc_holder_info>, u32)> {
        if self.inner.lock().reclaimed.is_some() {
            return Err(ESTALE);
        }

        super::list::collect(capacity, |f| {
            let mut inner = self.inner.lock();
            let mut cursor = match after.checked_add(1) {
                Some(from) => inner.holders.cursor_lower_bound_mut(&from),
                None => None,
            };

            while let Some(at) = cursor {
                let (&id, holder) = at.current();

                f(&|| bindings::ib_xrc_holder_info {
                    id,
                    pid: process_id(&holder.process),
                    reserved: 0,
                });
                cursor = at.move_next();
            }
        })
    }
}

impl Inner {
    fn tell(&self, qp_num: u32, news: News) {
        for holder in self.holders.values() {
            if let Some(source) = &holder.source {
                source.raise(news.event_type, qp_num, news.value);
            }
        }
    }
}

/// The number of a process in the calling one's namespace; 0 if it is not visible there, or gone.
pub(crate) fn process_id(process: &Task) -> u32 {
    process.tgid_nr_ns(None).try_into().unwrap_or(0)
}
