// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A descriptor that tells of completions.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};

use crate::{
    context::ContextInner,
    error::{CloseError, Errno, Error, Result},
    event_queue::EventQueue,
    framing::Request,
    uapi::*,
};

const WAIT: &str = "wait for a completion event";

/// An event: an armed CQ has a new completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompEvent {
    /// What the CQ was created with.
    pub user_handle: u64,
}

impl From<ib_uverbs_comp_event_desc> for CompEvent {
    fn from(raw: ib_uverbs_comp_event_desc) -> Self {
        CompEvent {
            user_handle: raw.cq_handle,
        }
    }
}

pub(crate) struct ChannelInner {
    queue: EventQueue,
    context: Arc<ContextInner>,
}

/// A descriptor that tells of the completions of CQs made with it. The descriptor may
/// be polled for readability along with others ([`AsFd`]); it is in non-blocking mode, and
/// should stay so.
pub struct CompChannel {
    pub(crate) inner: Arc<ChannelInner>,
}

impl CompChannel {
    pub(crate) fn create(context: &Arc<ContextInner>) -> Result<Self> {
        const FD: u32 = IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD;
        let request = Request::new(
            IB_XRC_OBJECT_COMP_CHANNEL,
            IB_XRC_METHOD_COMP_CHANNEL_CREATE,
        )
        .new_fd(FD);
        let reply = context.call(request);
        reply
            .result()
            .map_err(|errno| Error::call("create a completion channel", errno))?;
        // SAFETY: Given to `new_fd`, and taken once.
        let fd = unsafe { reply.new_fd(FD) }
            .ok_or_else(|| Error::Unexpected("no descriptor of a completion channel".into()))?;
        Ok(CompChannel {
            inner: Arc::new(ChannelInner {
                queue: EventQueue::new(fd, WAIT)?,
                context: context.clone(),
            }),
        })
    }

    pub(crate) fn queue(&self) -> &EventQueue {
        &self.inner.queue
    }

    /// Waits for an event and takes it. EIO: the device is gone.
    pub fn wait(&self) -> Result<CompEvent> {
        let event: ib_uverbs_comp_event_desc = self.inner.queue.wait()?;
        Ok(event.into())
    }

    /// Waits for an event no longer than `timeout`, and takes it.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<CompEvent>> {
        let event: Option<ib_uverbs_comp_event_desc> = self.inner.queue.wait_timeout(timeout)?;
        Ok(event.map(CompEvent::from))
    }

    /// Takes an event, if there is one.
    pub fn try_read(&self) -> Result<Option<CompEvent>> {
        self.wait_timeout(Duration::ZERO)
    }

    pub(crate) fn is_of(&self, context: &Arc<ContextInner>) -> bool {
        Arc::ptr_eq(&self.inner.context, context)
    }

    /// Closes it. EBUSY: CQs made with it exist.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        match Arc::try_unwrap(self.inner) {
            Ok(_) => Ok(()),
            Err(inner) => Err(CloseError {
                object: CompChannel { inner },
                error: Error::Call {
                    what: "close the completion channel",
                    errno: Errno::EBUSY,
                    advice: "CQs made with it still exist",
                },
            }),
        }
    }
}

impl AsFd for CompChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.queue.as_fd()
    }
}

impl fmt::Debug for CompChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompChannel")
            .field("fd", &self.as_fd())
            .finish_non_exhaustive()
    }
}
