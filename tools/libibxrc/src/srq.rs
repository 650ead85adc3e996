// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An XRC shared receive queue: where the messages for one process go.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    cq::{Cq, CqInner},
    error::{CloseError, Errno, Error, Result},
    event_file::{EventFile, EventFileInner},
    framing::Request,
    handle::{Handle, Kind},
    ring::{Mapping, SrqRing},
    uapi::*,
    xrcd::XrcdInner,
};

static KIND: Kind = Kind {
    object: IB_XRC_OBJECT_SRQ,
    close: IB_XRC_METHOD_SRQ_DESTROY,
    close_handle: IB_XRC_ATTR_SRQ_DESTROY_HANDLE,
    what: "destroy the SRQ",
    busy: "another thread is using it",
};

/// How to create an SRQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqAttr {
    /// Work requests posted at a time; rounded up to a power of two.
    pub max_wr: u32,
    /// Scatter entries of one.
    pub max_sge: u32,
    /// What its completions carry as [`crate::Wc::srq_user_handle`].
    pub user_handle: u64,
}

/// What else an SRQ can be created with.
#[derive(Clone, Copy, Debug, Default)]
pub struct SrqOptions<'a> {
    /// Where it reports its limit, its backlog and its error, until it is closed: an event file of the
    /// same context. The events carry [`SrqAttr::user_handle`].
    pub events: Option<&'a EventFile>,
}

/// An SRQ of a domain, as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrqInfo {
    /// Its number, 24 bits.
    pub srq_num: u32,
    /// The process whose memory is posted, if it is visible in the caller's pid namespace.
    pub pid: Option<u32>,
    /// It is in error and takes no more messages.
    pub error: bool,
    /// Messages that wait for a buffer, or are being delivered.
    pub waiting_msgs: u32,
    /// Messages delivered.
    pub recv_msgs: u64,
}

impl From<&ib_xrc_srq_info> for SrqInfo {
    fn from(raw: &ib_xrc_srq_info) -> Self {
        SrqInfo {
            srq_num: raw.srq_num,
            pid: (raw.pid != 0).then_some(raw.pid),
            error: raw.flags & IB_XRC_SRQ_RING_ERROR != 0,
            waiting_msgs: raw.waiting_msgs,
            recv_msgs: raw.recv_msgs,
        }
    }
}

/// What an SRQ is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrqState {
    /// Work requests that can be posted at a time, for good.
    pub max_wr: u32,
    /// Scatter entries of one.
    pub max_sge: u32,
    /// See [`Srq::set_limit`]; 0: there is none, or it was told.
    pub limit: u32,
}

/// A piece of memory to receive into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Where it starts.
    pub addr: *mut u8,
    /// Bytes.
    pub length: u32,
}

/// An XRC SRQ.
pub struct Srq {
    handle: Handle,
    ring: Mutex<SrqRing<Mapping>>,
    srq_num: u32,
    /// They stay open as long as there are SRQs made with them.
    _xrcd: Arc<XrcdInner>,
    _cq: Arc<CqInner>,
    _events: Option<Arc<EventFileInner>>,
}

impl Srq {
    pub(crate) fn create(
        xrcd: &Arc<XrcdInner>,
        cq: &Cq,
        attr: SrqAttr,
        options: SrqOptions<'_>,
    ) -> Result<Self> {
        let context = xrcd.context();
        if !Arc::ptr_eq(context, cq.inner.handle.context()) {
            return Err(Error::invalid(
                "the CQ was made with another context than the domain",
            ));
        }
        let events = options.events.map(|file| file.of(context)).transpose()?;
        let mut srq_num = 0u32;
        let mut info = ib_xrc_ring_info::default();
        let mut request = Request::new(IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_CREATE)
            .new_handle(IB_XRC_ATTR_SRQ_CREATE_HANDLE)
            .handle(IB_XRC_ATTR_SRQ_CREATE_XRCD, xrcd.handle.id())
            .handle(IB_XRC_ATTR_SRQ_CREATE_CQ, cq.inner.handle.id())
            .input(IB_XRC_ATTR_SRQ_CREATE_MAX_WR, &attr.max_wr)
            .input(IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, &attr.max_sge)
            .input(IB_XRC_ATTR_SRQ_CREATE_USER_HANDLE, &attr.user_handle)
            .output(IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM, &mut srq_num)
            .output(IB_XRC_ATTR_SRQ_CREATE_RESP_RING, &mut info);
        if let Some(file) = options.events {
            let fd = file.as_fd().as_raw_fd();
            request = request.raw_fd(IB_XRC_ATTR_SRQ_CREATE_EVENT_FILE, fd);
        }
        let reply = context.call(request);
        reply.result().map_err(|errno| {
            let meanings = [(
                Errno::EINVAL,
                "work requests and scatter entries must be at least one, and at most what the \
                 device's limits say",
            )];
            Error::explained("create an SRQ", errno, &meanings)
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_SRQ_CREATE_HANDLE);
        let handle = Handle::new(context, &KIND, id);
        let mapping = Mapping::new(context.file(), &info, "map the ring of an SRQ")?;
        let ring = SrqRing::new(mapping, &info, attr.max_sge)?;
        Ok(Srq {
            handle,
            ring: Mutex::new(ring),
            srq_num,
            _xrcd: xrcd.clone(),
            _cq: cq.inner.clone(),
            _events: events,
        })
    }

    fn ring(&self) -> MutexGuard<'_, SrqRing<Mapping>> {
        // The ring is consistent whenever something in it could panic.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the SRQ, 24 bits, which senders address.
    pub fn num(&self) -> u32 {
        self.srq_num
    }

    /// How many work requests may be posted at a time.
    pub fn entries(&self) -> u32 {
        self.ring().entries()
    }

    /// Asks for an [`crate::EventKind::SrqLimit`] when fewer work requests than this are
    /// posted, at once if that is so already, as ibv_modify_srq(3) with `IBV_SRQ_LIMIT`. It
    /// comes once; then there is no limit any more. 0: no limit.
    ///
    /// EINVAL: more than [`Srq::entries`].
    pub fn set_limit(&self, limit: u32) -> Result<()> {
        let request = Request::new(IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_MODIFY)
            .handle(IB_XRC_ATTR_SRQ_MODIFY_HANDLE, self.handle.id())
            .input(IB_XRC_ATTR_SRQ_MODIFY_LIMIT, &limit);
        let reply = self.handle.context().call(request);
        reply.result().map_err(|errno| {
            let meanings = [(Errno::EINVAL, "it has fewer entries than the limit")];
            Error::explained("set the limit of the SRQ", errno, &meanings)
        })
    }

    /// What the kernel says of it, as ibv_query_srq(3).
    pub fn query(&self) -> Result<SrqState> {
        let mut attr = ib_xrc_srq_attr::default();
        let request = Request::new(IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_QUERY)
            .handle(IB_XRC_ATTR_SRQ_QUERY_HANDLE, self.handle.id())
            .output(IB_XRC_ATTR_SRQ_QUERY_RESP_ATTR, &mut attr);
        let reply = self.handle.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("query the SRQ", errno))?;
        Ok(SrqState {
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            limit: attr.limit,
        })
    }

    /// Posts work requests until one fails, each an id and scatter entries as (address,
    /// bytes), and tells the kernel if it waits for them. Returns how many were posted.
    pub(crate) fn post_raw<S>(&self, wrs: impl IntoIterator<Item = (u64, S)>) -> (usize, Result<()>)
    where
        S: ExactSizeIterator<Item = (u64, u32)>,
    {
        let mut ring = self.ring();
        let mut posted = 0;
        let mut result = Ok(());
        for (wr_id, sges) in wrs {
            result = ring.post(wr_id, sges);
            if result.is_err() {
                break;
            }
            posted += 1;
        }
        let kick = posted > 0 && ring.need_kick();
        drop(ring);
        if kick {
            result = result.and(self.kick());
        }
        (posted, result)
    }

    fn kick(&self) -> Result<()> {
        loop {
            let request = Request::new(IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_KICK)
                .handle(IB_XRC_ATTR_SRQ_KICK_HANDLE, self.handle.id());
            match self.handle.context().call(request).result() {
                Err(Errno::EINTR) => (),
                // Nothing more will come; the CQ says so when it is polled.
                Ok(()) | Err(Errno::EIO) => return Ok(()),
                Err(errno) => return Err(Error::call("tell the kernel of posted buffers", errno)),
            }
        }
    }

    /// Posts a receive work request of up to `max_sge` pieces of memory. Messages that
    /// have been waiting for a buffer may complete during the call.
    ///
    /// ENOMEM: the SRQ is full. EINVAL: too many pieces. EIO: the SRQ is in error.
    ///
    /// [`crate::Receiver`] does this, safely, with buffers of its own.
    ///
    /// # Safety
    ///
    /// The kernel writes to this memory. It must stay valid, and must not be accessed
    /// otherwise, until the completion with this `wr_id` was polled or the SRQ closed.
    pub unsafe fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        let sges = sges.iter().map(|sge| (sge.addr as u64, sge.length));
        self.post_raw([(wr_id, sges)]).1
    }

    /// Destroys it. Posted buffers come back without completion, messages that wait
    /// for a buffer are dropped.
    #[allow(clippy::result_large_err, reason = "it is what was given")]
    pub fn close(self) -> Result<(), CloseError<Self>> {
        let closed = self.handle.close();
        CloseError::unless(closed, self)
    }

    /// The same without giving it away.
    pub(crate) fn destroy(&self) -> Result<()> {
        self.handle.close()
    }
}

impl fmt::Debug for Srq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Srq")
            .field("srq_num", &self.srq_num)
            .finish_non_exhaustive()
    }
}
