// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A descriptor that tells of completions.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    io::read,
};

use crate::{
    context::ContextInner,
    error::{CloseError, Errno, Error, Result},
    framing::{bytes_of_mut, Request},
    uapi::*,
};

const WAIT: &str = "wait for a completion event";

/// An event: an armed CQ has a new completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompEvent {
    /// What the CQ was created with.
    pub user_handle: u64,
}

pub(crate) struct ChannelInner {
    fd: OwnedFd,
    /// Held from when poll(2) says that there is an event until it is read, so that
    /// reading never blocks, whether the descriptor is in non-blocking mode or not.
    reading: Mutex<()>,
    context: Arc<ContextInner>,
}

/// A descriptor that tells of the completions of CQs made with it. The descriptor may
/// be polled for readability along with others ([`AsFd`]).
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
                fd,
                reading: Mutex::new(()),
                context: context.clone(),
            }),
        })
    }

    /// Whether there is something to read, waiting for it no longer than `timeout`.
    fn readable(&self, timeout: Option<Duration>) -> Result<bool> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&self.inner.fd, PollFlags::IN)];
        poll(&mut fds, timeout.as_ref())
            .map(|n| n > 0)
            .map_err(|e| Error::call(WAIT, e.into()))
    }

    /// As [`CompChannel::wait_timeout`], but EINTR if a signal comes.
    pub(crate) fn next(&self, timeout: Option<Duration>) -> Result<Option<CompEvent>> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if !self.readable(left)? {
                return Ok(None);
            }
            let _reading = self
                .inner
                .reading
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // Another thread may have been faster.
            if !self.readable(Some(Duration::ZERO))? {
                continue;
            }
            let mut event = ib_uverbs_comp_event_desc::default();
            return match read(&self.inner.fd, bytes_of_mut(&mut event)) {
                Ok(n) if n == size_of_val(&event) => Ok(Some(CompEvent {
                    user_handle: event.cq_handle,
                })),
                Ok(n) => Err(Error::Unexpected(format!(
                    "a completion event of {n} bytes"
                ))),
                // Another process that has the descriptor was.
                Err(rustix::io::Errno::AGAIN) => continue,
                Err(e) => Err(Error::call(WAIT, e.into())),
            };
        }
    }

    /// Waits for an event and takes it. EIO: the device is gone.
    pub fn wait(&self) -> Result<CompEvent> {
        loop {
            match self.next(None) {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => (),
                Err(e) if e.errno() == Errno::EINTR => (),
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits for an event no longer than `timeout`, and takes it.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<CompEvent>> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            match self.next(left) {
                Err(e) if e.errno() == Errno::EINTR => (),
                other => return other,
            }
        }
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
        self.inner.fd.as_fd()
    }
}

impl fmt::Debug for CompChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompChannel")
            .field("fd", &self.inner.fd)
            .finish_non_exhaustive()
    }
}
