// SPDX-License-Identifier: GPL-2.0

//! Completion channels.
//!
//! As uverbs' (`ib_uverbs_comp_event_fops` in `drivers/infiniband/core/uverbs_main.c`), except
//! that the events of a CQ which nobody has read yet count as one. So the queue needs no memory of
//! its own and is never longer than there are CQs.

use core::ptr;

use kernel::{
    bindings::{
        POLLERR,
        POLLIN,
        POLLRDNORM, //
    },
    iov::IovIterDest,
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        List,
        ListArc,
        ListLinks,
        TryNewListArc, //
    },
    new_condvar, new_mutex, new_spinlock,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        Mutex,
        SpinLock, //
    },
    transmute::AsBytes,
};

use crate::{
    bindings,
    linux::anon_file::AnonFile, //
};

use super::{
    device::Services,
    removal::{
        Listening,
        RemovalListener,
        RemovalListeners, //
    }, //
};

/// A completion channel, the state behind its descriptor.
#[pin_data]
pub(crate) struct CompChannel {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    readers: CondVar,
    /// Gone with the descriptor.
    #[pin]
    listening: Mutex<Option<Listening>>,
    /// Tells which file the channel belongs to.
    owner: u64,
}

struct State {
    pending: List<CqEvent>,
    removed: bool,
}

/// The event of a CQ. It is in the channel's list at most once.
#[pin_data]
struct CqEvent {
    user_handle: u64,
    #[pin]
    links: ListLinks,
    #[pin]
    tracker: AtomicTracker,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for CqEvent { tracked_by tracker: AtomicTracker; }
}
impl_list_item! {
    impl ListItem<0> for CqEvent { using ListLinks { self.links }; }
}

impl CompChannel {
    /// Makes a channel for the CQs of the context `owner`. Sleeps.
    pub(crate) fn new(services: &Services, owner: u64) -> Result<Arc<Self>> {
        let channel = Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock!(
                    State {
                        pending: List::new(),
                        removed: false,
                    },
                    "CompChannel::state"
                ),
                readers <- new_condvar!("CompChannel::readers"),
                listening <- new_mutex!(None, "CompChannel::listening"),
                owner,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let listening = RemovalListeners::listen(services.removal(), channel.clone())?;

        *channel.listening.lock() = Some(listening);
        Ok(channel)
    }

    /// The context that made the channel.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Makes a CQ's way to raise events on `channel`. Sleeps.
    pub(crate) fn notifier(channel: Arc<Self>, user_handle: u64) -> Result<CqNotifier> {
        let event = Arc::pin_init(
            pin_init!(CqEvent {
                user_handle,
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;

        Ok(CqNotifier { channel, event })
    }
}

impl RemovalListener for CompChannel {
    fn device_removed(&self) {
        self.state.lock().removed = true;
        self.readers.notify_all();
    }
}

impl AnonFile for CompChannel {
    const NAME: &'static CStr = c"[ib_xrc_comp_channel]";

    fn read(&self, nonblock: bool, iov: &mut IovIterDest<'_>) -> Result<usize> {
        let size = size_of::<bindings::ib_uverbs_comp_event_desc>();

        if iov.len() < size {
            return Err(EINVAL);
        }

        let mut state = self.state.lock();
        let event = loop {
            if let Some(event) = state.pending.pop_front() {
                break event;
            }
            if state.removed {
                return Err(EIO);
            }
            if nonblock {
                return Err(EAGAIN);
            }
            if self.readers.wait_interruptible(&mut state) {
                return Err(ERESTARTSYS);
            }
        };

        // Copying may sleep. If it fails the event is lost, as uverbs' is: its CQ may be gone by
        // then.
        drop(state);

        let desc = bindings::ib_uverbs_comp_event_desc {
            cq_handle: event.user_handle,
        };

        if iov.copy_to_iter(AsBytes::as_bytes(&desc)) != size {
            return Err(EFAULT);
        }

        Ok(size)
    }

    fn readers(&self) -> &CondVar {
        &self.readers
    }

    fn poll(&self) -> u32 {
        let state = self.state.lock();
        let mut events = 0;

        if !state.pending.is_empty() {
            events |= POLLIN | POLLRDNORM;
        }
        if state.removed {
            events |= POLLERR;
        }
        events
    }

    fn release(&self) {
        let listening = self.listening.lock().take();

        drop(listening);
    }
}

/// Raises the events of one CQ on its channel; none is left there once this is dropped.
pub(crate) struct CqNotifier {
    channel: Arc<CompChannel>,
    event: Arc<CqEvent>,
}

impl CqNotifier {
    /// Raises an event. Does not sleep; takes the channel's spinlock.
    pub(crate) fn notify(&self) {
        let mut state = self.channel.state.lock();

        // Fails while the event is in the list: then it is not read yet, and stands for this one.
        if let Ok(event) = ListArc::try_from_arc(self.event.clone()) {
            state.pending.push_back(event);
            drop(state);
            self.channel.readers.notify_all();
        }
    }
}

impl Drop for CqNotifier {
    fn drop(&mut self) {
        let mut state = self.channel.state.lock();
        let mut cursor = state.pending.cursor_front();

        while let Some(next) = cursor.peek_next() {
            if ptr::eq(&*next, &*self.event) {
                drop(next.remove());
                break;
            }
            cursor.move_next();
        }
    }
}
