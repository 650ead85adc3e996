// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A descriptor that tells of asynchronous events.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};

use crate::{
    context::ContextInner,
    error::{CloseError, Errno, Error, Result},
    event::Event,
    event_queue::EventQueue,
    framing::Request,
    uapi::*,
};

const WAIT: &str = "wait for an event";

pub(crate) struct EventFileInner {
    queue: EventQueue,
    context: Arc<ContextInner>,
}

/// A descriptor that tells of asynchronous events: of the domains, TGT QPs and SRQs that
/// were opened or created with it, and of the ports and the removal of the device. The
/// descriptor may be polled for readability along with others ([`AsFd`]); it is in
/// non-blocking mode, and should stay so.
///
/// It holds a number of events; those that find it full are dropped, and
/// [`crate::EventKind::Overflow`] tells how many. That the device was removed is never
/// dropped, and comes last. Events of an object that was closed do not come any more.
///
/// ```no_run
/// # fn main() -> ibxrc::Result<()> {
/// use ibxrc::{Context, EventKind, ReportTo, XrcdOptions};
///
/// let context = Context::open("rxe0")?;
/// let events = context.create_event_file(None)?;
/// let xrcd = context.open_xrcd(XrcdOptions {
///     events: Some(ReportTo { file: &events, user_handle: 42 }),
///     ..Default::default()
/// })?;
/// loop {
///     let event = events.wait()?;
///     match event.kind {
///         EventKind::TgtQpCreated { qp_num } => {
///             println!("domain {} has a new TGT QP {qp_num}", event.user_handle);
///         }
///         EventKind::DeviceRemoved => break,
///         _ => (),
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct EventFile {
    pub(crate) inner: Arc<EventFileInner>,
}

/// Where an object reports to.
#[derive(Clone, Copy, Debug)]
pub struct ReportTo<'a> {
    /// The event file, of the same context.
    pub file: &'a EventFile,
    /// What the events carry as [`Event::user_handle`].
    pub user_handle: u64,
}

impl ReportTo<'_> {
    /// Adds it to a call, with these ids of its attributes.
    pub(crate) fn add_to<'a>(
        &'a self,
        request: Request<'a>,
        event_file: u32,
        user_handle: u32,
    ) -> Request<'a> {
        request
            .raw_fd(event_file, self.file.as_fd().as_raw_fd())
            .input(user_handle, &self.user_handle)
    }
}

impl EventFile {
    pub(crate) fn create(context: &Arc<ContextInner>, depth: Option<u32>) -> Result<Self> {
        const FD: u32 = IB_XRC_ATTR_EVENT_FILE_CREATE_FD;
        let mut request =
            Request::new(IB_XRC_OBJECT_EVENT_FILE, IB_XRC_METHOD_EVENT_FILE_CREATE).new_fd(FD);
        if let Some(depth) = &depth {
            request = request.input(IB_XRC_ATTR_EVENT_FILE_CREATE_DEPTH, depth);
        }
        let reply = context.call(request);
        reply.result().map_err(|errno| {
            let meanings = [(Errno::EINVAL, "it must have room for 1 to 4096 events")];
            Error::explained("create an event file", errno, &meanings)
        })?;
        // SAFETY: Given to `new_fd`, and taken once.
        let fd = unsafe { reply.new_fd(FD) }
            .ok_or_else(|| Error::Unexpected("no descriptor of an event file".into()))?;
        Ok(EventFile {
            inner: Arc::new(EventFileInner {
                queue: EventQueue::new(fd, WAIT)?,
                context: context.clone(),
            }),
        })
    }

    /// Waits for an event and takes it. EIO: the device is gone, and
    /// [`crate::EventKind::DeviceRemoved`] was taken.
    pub fn wait(&self) -> Result<Event> {
        let event: ib_xrc_event = self.inner.queue.wait()?;
        Ok((&event).into())
    }

    /// Waits for an event no longer than `timeout`, and takes it.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<Event>> {
        let event: Option<ib_xrc_event> = self.inner.queue.wait_timeout(timeout)?;
        Ok(event.as_ref().map(Event::from))
    }

    /// Takes an event, if there is one.
    pub fn try_read(&self) -> Result<Option<Event>> {
        self.wait_timeout(Duration::ZERO)
    }

    pub(crate) fn queue(&self) -> &EventQueue {
        &self.inner.queue
    }

    /// What an object of `context` that reports to it has to keep. EINVAL: it is of
    /// another context.
    pub(crate) fn of(&self, context: &Arc<ContextInner>) -> Result<Arc<EventFileInner>> {
        if !Arc::ptr_eq(&self.inner.context, context) {
            return Err(Error::invalid(
                "the event file was made with another context",
            ));
        }
        Ok(self.inner.clone())
    }

    /// Closes it. EBUSY: what reports to it still exists.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        match Arc::try_unwrap(self.inner) {
            Ok(_) => Ok(()),
            Err(inner) => Err(CloseError {
                object: EventFile { inner },
                error: Error::Call {
                    what: "close the event file",
                    errno: Errno::EBUSY,
                    advice: "domains, TGT QPs or SRQs that report to it still exist",
                },
            }),
        }
    }
}

impl AsFd for EventFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.queue.as_fd()
    }
}

impl fmt::Debug for EventFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFile")
            .field("fd", &self.as_fd())
            .finish_non_exhaustive()
    }
}
