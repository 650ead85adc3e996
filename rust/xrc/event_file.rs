// SPDX-License-Identifier: GPL-2.0

//! Event files: descriptors for asynchronous events.

use kernel::{
    bindings::{
        POLLERR,
        POLLIN,
        POLLRDNORM, //
    },
    iov::IovIterDest,
    new_condvar, new_mutex, new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        Mutex,
        SpinLockIrq, //
    },
    transmute::AsBytes,
};

use crate::{
    bindings,
    linux::anon_file::AnonFile, //
};

use super::{
    device::Services,
    event_queue::{
        EventQueue,
        Front, //
    },
    removal::{
        Listening,
        RemovalListener,
        RemovalListeners, //
    }, //
};

/// The source of the device's own events.
const DEVICE: u64 = 0;

/// An event file, the state behind its descriptor.
#[pin_data]
pub(crate) struct EventFile {
    /// Taken with interrupts off: a driver may tell of an error in any context.
    #[pin]
    state: SpinLockIrq<State>,
    #[pin]
    readers: CondVar,
    /// Gone with the descriptor.
    #[pin]
    listening: Mutex<Option<Listening>>,
    /// Tells which file it belongs to.
    owner: u64,
}

struct State {
    /// Gone with the descriptor.
    queue: Option<EventQueue>,
    removal: Removal,
    /// Somebody copies the next event to userspace: others wait, so that each is read once.
    reading: bool,
    next_source: u64,
}

/// Where the removal of the device stands. It needs no room in the queue, as it comes after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// The device is there.
    None,
    /// `IB_XRC_EVENT_DEVICE_REMOVED` was not read yet.
    Unread,
    /// It was.
    Read,
}

/// What is to be read next.
enum Next {
    Queued(Front),
    Removed,
}

impl Next {
    fn event(&self) -> bindings::ib_xrc_event {
        match self {
            Next::Queued(front) => front.event(),
            Next::Removed => bindings::ib_xrc_event {
                type_: bindings::IB_XRC_EVENT_DEVICE_REMOVED,
                ..Default::default()
            },
        }
    }
}

impl State {
    fn next(&mut self) -> Option<Next> {
        if let Some(front) = self.queue.as_mut().and_then(EventQueue::front) {
            return Some(Next::Queued(front));
        }

        (self.removal == Removal::Unread).then_some(Next::Removed)
    }

    fn remove(&mut self, next: Next) {
        match next {
            Next::Queued(front) => {
                if let Some(queue) = &mut self.queue {
                    queue.remove(front);
                }
            }
            Next::Removed => self.removal = Removal::Read,
        }
    }
}

impl EventFile {
    /// Makes an event file for the objects of the context `owner`, in which `depth` events can
    /// wait. Sleeps.
    pub(crate) fn new(services: &Services, owner: u64, depth: u32) -> Result<Arc<Self>> {
        let queue = EventQueue::new(depth)?;
        let file = Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock_irq!(
                    State {
                        queue: Some(queue),
                        removal: Removal::None,
                        reading: false,
                        next_source: DEVICE + 1,
                    },
                    "EventFile::state"
                ),
                readers <- new_condvar!("EventFile::readers"),
                listening <- new_mutex!(None, "EventFile::listening"),
                owner,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let listening = RemovalListeners::listen(services.removal(), file.clone())?;

        *file.listening.lock() = Some(listening);
        Ok(file)
    }

    /// The context that made the file.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    fn raise(&self, source: u64, event: bindings::ib_xrc_event) {
        let mut state = self.state.lock();

        // Nothing comes after the removal.
        if state.removal != Removal::None {
            return;
        }
        if let Some(queue) = &mut state.queue {
            queue.push(source, event);
        }
        drop(state);
        self.readers.notify_all();
    }
}

impl RemovalListener for EventFile {
    fn port_event(&self, port: u32, active: bool) {
        let event = bindings::ib_xrc_event {
            type_: if active {
                bindings::IB_XRC_EVENT_PORT_ACTIVE
            } else {
                bindings::IB_XRC_EVENT_PORT_DOWN
            },
            number: port,
            ..Default::default()
        };

        self.raise(DEVICE, event);
    }

    fn device_removed(&self) {
        self.state.lock().removal = Removal::Unread;
        self.readers.notify_all();
    }
}

impl AnonFile for EventFile {
    const NAME: &'static CStr = c"[ib_xrc_event_file]";

    fn read(&self, nonblock: bool, iov: &mut IovIterDest<'_>) -> Result<usize> {
        let size = size_of::<bindings::ib_xrc_event>();
        let mut copied: usize = 0;

        if iov.len() < size {
            return Err(EINVAL);
        }

        let (reading, mut next) = Reading::begin(self, nonblock)?;

        // An event leaves the queue when it was copied: if that fails it is read the next time.
        while iov.copy_to_iter(AsBytes::as_bytes(&next.event())) == size {
            copied = copied.saturating_add(size);
            match reading.advance(next) {
                Some(following) if iov.len() >= size => next = following,
                _ => return Ok(copied),
            }
        }

        if copied == 0 {
            return Err(EFAULT);
        }
        Ok(copied)
    }

    fn readers(&self) -> &CondVar {
        &self.readers
    }

    fn poll(&self) -> u32 {
        let mut state = self.state.lock();
        let mut events = 0;

        if state.next().is_some() {
            events |= POLLIN | POLLRDNORM;
        }
        if state.removal != Removal::None {
            events |= POLLERR;
        }
        events
    }

    fn release(&self) {
        let listening = self.listening.lock().take();
        // Sources may hold the file for longer; they need no queue.
        let queue = self.state.lock().queue.take();

        drop((listening, queue));
    }
}

/// The caller is the one who reads, until this is dropped.
struct Reading<'a>(&'a EventFile);

impl<'a> Reading<'a> {
    /// Waits for an event, and for others who read.
    fn begin(file: &'a EventFile, nonblock: bool) -> Result<(Self, Next)> {
        let mut state = file.state.lock();

        loop {
            if !state.reading {
                if let Some(next) = state.next() {
                    state.reading = true;
                    return Ok((Self(file), next));
                }
                if state.removal == Removal::Read {
                    return Err(EIO);
                }
            }
            if nonblock {
                return Err(EAGAIN);
            }
            if file.readers.wait_interruptible(&mut state) {
                return Err(ERESTARTSYS);
            }
        }
    }

    /// Removes what was read; returns what comes after it, if that waits already.
    fn advance(&self, read: Next) -> Option<Next> {
        let mut state = self.0.state.lock();

        state.remove(read);
        state.next()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.state.lock().reading = false;
        self.0.readers.notify_all();
    }
}

/// Reports the events of one object to an event file; none waits there once this is dropped.
/// Dropping it may free the file, and sleeps then.
pub(crate) struct EventSource {
    file: Arc<EventFile>,
    id: u64,
    user_handle: u64,
}

impl EventSource {
    /// Makes a source whose events carry `user_handle`. `EIO`: the device is gone.
    pub(crate) fn new(file: Arc<EventFile>, user_handle: u64) -> Result<Self> {
        let mut state = file.state.lock();

        if state.removal != Removal::None {
            return Err(EIO);
        }

        let id = state.next_source;

        state.next_source = id.wrapping_add(1);
        drop(state);

        Ok(Self {
            file,
            id,
            user_handle,
        })
    }

    /// Raises an event. Any context; takes the file's spinlock.
    pub(crate) fn raise(&self, event_type: u32, number: u32, value: u32) {
        let event = bindings::ib_xrc_event {
            user_handle: self.user_handle,
            type_: event_type,
            number,
            value,
            reserved: 0,
        };

        self.file.raise(self.id, event);
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        if let Some(queue) = &mut self.file.state.lock().queue {
            queue.purge(self.id);
        }
    }
}
