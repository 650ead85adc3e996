// SPDX-License-Identifier: GPL-2.0

//! Who is told of the TGT QPs that come into a domain and go.

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        Arc,
        Mutex, //
    },
};

use super::event_file::EventSource;

/// The subscribers of a domain.
#[pin_data]
pub(crate) struct Subscribers {
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    sources: RBTree<u64, EventSource>,
    next_id: u64,
}

impl Subscribers {
    /// Nobody.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_mutex!(
                    Inner {
                        sources: RBTree::new(),
                        next_id: 0,
                    },
                    "Subscribers::inner"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Has `source` told, until the returned guard is dropped. `ENOMEM`. Sleeps.
    pub(crate) fn subscribe(subscribers: &Arc<Self>, source: EventSource) -> Result<Subscription> {
        let mut inner = subscribers.inner.lock();
        let id = inner.next_id;

        inner
            .sources
            .try_create_and_insert(id, source, GFP_KERNEL_ACCOUNT)?;
        inner.next_id = id.wrapping_add(1);
        drop(inner);

        Ok(Subscription {
            subscribers: subscribers.clone(),
            id,
        })
    }

    /// Tells all. Sleeps.
    pub(crate) fn raise(&self, event_type: u32, number: u32, value: u32) {
        for source in self.inner.lock().sources.values() {
            source.raise(event_type, number, value);
        }
    }
}

/// A subscriber is told while this exists; none of its events is left once it was dropped.
pub(crate) struct Subscription {
    subscribers: Arc<Subscribers>,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let node = self.subscribers.inner.lock().sources.remove_node(&self.id);

        drop(node);
    }
}
