// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The receiving end of a connection, which belongs to a domain.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    context::ContextInner,
    error::{CloseError, Errno, Error, Result},
    event_file::{EventFileInner, ReportTo},
    framing::Request,
    handle::{Handle, Kind},
    list,
    qp_attr::{QpAttr, QpState},
    time::timeout_millis,
    uapi::*,
    xrcd::XrcdInner,
};

static KIND: Kind = Kind {
    object: IB_XRC_OBJECT_TGT_QP,
    close: IB_XRC_METHOD_TGT_QP_CLOSE,
    close_handle: IB_XRC_ATTR_TGT_QP_CLOSE_HANDLE,
    what: "give back the registration with the TGT QP",
    busy: "another thread is using it",
};

/// What a TGT QP can be created or opened with.
#[derive(Clone, Copy, Debug, Default)]
pub struct TgtQpOptions<'a> {
    /// Where to report its errors and that it is destroyed, until the registration is given
    /// back.
    pub events: Option<ReportTo<'a>>,
}

/// A registration with a TGT QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Tells the registrations of a TGT QP apart; the first one's is 1.
    pub id: u64,
    /// The process that registered, if it is visible in the caller's pid namespace. It may
    /// have passed its descriptor on since.
    pub pid: Option<u32>,
}

impl From<&ib_xrc_holder_info> for Holder {
    fn from(raw: &ib_xrc_holder_info) -> Self {
        Holder {
            id: raw.id,
            pid: (raw.pid != 0).then_some(raw.pid),
        }
    }
}

/// What became of the messages that had arrived when a TGT QP was disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DisconnectInfo {
    /// Messages that waited at SRQs, and were delivered.
    pub delivered_msgs: u64,
    /// Messages that were dropped.
    pub flushed_msgs: u64,
}

impl From<&ib_xrc_disconnect_info> for DisconnectInfo {
    fn from(raw: &ib_xrc_disconnect_info) -> Self {
        DisconnectInfo {
            delivered_msgs: raw.delivered_msgs,
            flushed_msgs: raw.flushed_msgs,
        }
    }
}

/// A TGT QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TgtQpInfo {
    /// Its number, 24 bits.
    pub qp_num: u32,
    /// Its state.
    pub state: QpState,
    /// Registrations with it, in all processes.
    pub refs: u32,
    /// Number of the sender's QP; 0 before RTR.
    pub dest_qp_num: u32,
    /// Messages that were received and handed to an SRQ.
    pub recv_msgs: u64,
    /// Their bytes.
    pub recv_bytes: u64,
    /// Messages that were refused: no such SRQ, too long, ...
    pub refused_msgs: u64,
}

impl TryFrom<&ib_xrc_tgt_qp_info> for TgtQpInfo {
    type Error = Error;

    fn try_from(raw: &ib_xrc_tgt_qp_info) -> Result<Self> {
        Ok(TgtQpInfo {
            qp_num: raw.qp_num,
            state: QpState::of_kernel(raw.state)?,
            refs: raw.refs,
            dest_qp_num: raw.dest_qp_num,
            recv_msgs: raw.recv_msgs,
            recv_bytes: raw.recv_bytes,
            refused_msgs: raw.refused_msgs,
        })
    }
}

/// How a call names a TGT QP.
pub(crate) enum Target<'a> {
    Handle(&'a Handle),
    Number { xrcd: &'a XrcdInner, qp_num: u32 },
}

/// The attributes by which one method names a TGT QP.
struct TargetAttrs {
    handle: u32,
    xrcd: u32,
    qp_num: u32,
}

/// What `disconnect` does with the registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    Keep,
    /// By handle only.
    Release,
}

const NO_SUCH: &str = "the domain has no TGT QP of this number";
const BAD_ATTR: &str = "this transition is not allowed from the state that the TGT QP is in, an \
                        attribute that it needs is missing or wrong, or the domain has no such \
                        TGT QP";

impl Target<'_> {
    fn context(&self) -> &ContextInner {
        match self {
            Target::Handle(handle) => handle.context(),
            Target::Number { xrcd, .. } => xrcd.context(),
        }
    }

    fn request(&self, method: u32, attrs: TargetAttrs) -> Request<'_> {
        let request = Request::new(IB_XRC_OBJECT_TGT_QP, method);
        match self {
            Target::Handle(handle) => request.handle(attrs.handle, handle.id()),
            Target::Number { xrcd, qp_num } => request
                .handle(attrs.xrcd, xrcd.handle.id())
                .input(attrs.qp_num, qp_num),
        }
    }

    pub(crate) fn modify(&self, attr: &ib_uverbs_qp_attr) -> Result<()> {
        let request = self
            .request(
                IB_XRC_METHOD_TGT_QP_MODIFY,
                TargetAttrs {
                    handle: IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE,
                    xrcd: IB_XRC_ATTR_TGT_QP_MODIFY_XRCD,
                    qp_num: IB_XRC_ATTR_TGT_QP_MODIFY_QP_NUM,
                },
            )
            .input(IB_XRC_ATTR_TGT_QP_MODIFY_ATTR, attr);
        let reply = self.context().call(request);
        reply.result().map_err(|errno| {
            Error::explained("modify the TGT QP", errno, &[(Errno::EINVAL, BAD_ATTR)])
        })
    }

    pub(crate) fn query(
        &self,
        attr: Option<&mut ib_uverbs_qp_attr>,
        info: Option<&mut ib_xrc_tgt_qp_info>,
    ) -> Result<()> {
        let mut request = self.request(
            IB_XRC_METHOD_TGT_QP_QUERY,
            TargetAttrs {
                handle: IB_XRC_ATTR_TGT_QP_QUERY_HANDLE,
                xrcd: IB_XRC_ATTR_TGT_QP_QUERY_XRCD,
                qp_num: IB_XRC_ATTR_TGT_QP_QUERY_QP_NUM,
            },
        );
        if let Some(attr) = attr {
            request = request.output(IB_XRC_ATTR_TGT_QP_QUERY_RESP_ATTR, attr);
        }
        if let Some(info) = info {
            request = request.output(IB_XRC_ATTR_TGT_QP_QUERY_RESP_INFO, info);
        }
        let reply = self.context().call(request);
        reply.result().map_err(|errno| {
            Error::explained("query the TGT QP", errno, &[(Errno::EINVAL, NO_SUCH)])
        })
    }

    /// The state after the call, if the kernel told it, and whether it worked.
    pub(crate) fn connect(
        &self,
        attr: &ib_uverbs_qp_attr,
        timeout_ms: Option<u32>,
    ) -> (Option<QpState>, Result<()>) {
        const RESP_STATE: u32 = IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE;
        let mut state = 0u32;
        let mut request = self
            .request(
                IB_XRC_METHOD_TGT_QP_CONNECT,
                TargetAttrs {
                    handle: IB_XRC_ATTR_TGT_QP_CONNECT_HANDLE,
                    xrcd: IB_XRC_ATTR_TGT_QP_CONNECT_XRCD,
                    qp_num: IB_XRC_ATTR_TGT_QP_CONNECT_QP_NUM,
                },
            )
            .input(IB_XRC_ATTR_TGT_QP_CONNECT_ATTR, attr)
            .output(RESP_STATE, &mut state);
        if let Some(timeout_ms) = &timeout_ms {
            request = request.input(IB_XRC_ATTR_TGT_QP_CONNECT_TIMEOUT_MS, timeout_ms);
        }
        let reply = self.context().call(request);
        let state = QpState::from_raw(state).filter(|_| reply.written(RESP_STATE));
        let result = reply.result().map_err(|errno| match errno {
            Errno::EIO => Error::DeviceGone {
                what: "connect the TGT QP",
            },
            _ => Error::Connect { state, errno },
        });
        (state, result)
    }

    pub(crate) fn disconnect(
        &self,
        registration: Registration,
        timeout_ms: u32,
    ) -> Result<ib_xrc_disconnect_info> {
        let mut info = ib_xrc_disconnect_info::default();
        let request = self
            .request(
                IB_XRC_METHOD_TGT_QP_DISCONNECT,
                TargetAttrs {
                    handle: match registration {
                        Registration::Keep => IB_XRC_ATTR_TGT_QP_DISCONNECT_HANDLE,
                        Registration::Release => IB_XRC_ATTR_TGT_QP_DISCONNECT_RELEASE,
                    },
                    xrcd: IB_XRC_ATTR_TGT_QP_DISCONNECT_XRCD,
                    qp_num: IB_XRC_ATTR_TGT_QP_DISCONNECT_QP_NUM,
                },
            )
            .input(IB_XRC_ATTR_TGT_QP_DISCONNECT_TIMEOUT_MS, &timeout_ms)
            .output(IB_XRC_ATTR_TGT_QP_DISCONNECT_RESP_INFO, &mut info);
        let reply = self.context().call(request);
        reply.result().map_err(|errno| {
            let meanings = [
                (
                    Errno::EINVAL,
                    "it is in the RESET state, or the domain has no TGT QP of this number",
                ),
                (
                    Errno::ETIMEDOUT,
                    "the device or the memory of a receiver took too long; it may be tried again",
                ),
                (Errno::EBUSY, "another thread is using the registration"),
            ];
            Error::explained("disconnect the TGT QP", errno, &meanings)
        })?;
        if let (Registration::Release, Target::Handle(handle)) = (registration, self) {
            handle.was_closed();
        }
        Ok(info)
    }

    /// Fills `holders` as far as it reaches, with those of greater ids than `after`. Returns
    /// how many there are.
    fn list_holders(&self, after: Option<u64>, holders: &mut [ib_xrc_holder_info]) -> Result<u32> {
        let mut count = 0u32;
        let mut request = self
            .request(
                IB_XRC_METHOD_TGT_QP_LIST_HOLDERS,
                TargetAttrs {
                    handle: IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE,
                    xrcd: IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_XRCD,
                    qp_num: IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_QP_NUM,
                },
            )
            .output(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT, &mut count);
        if let Some(after) = &after {
            request = request.input(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_AFTER, after);
        }
        if !holders.is_empty() {
            request = request.output_slice(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_HOLDERS, holders);
        }
        let reply = self.context().call(request);
        reply.result().map_err(|errno| {
            Error::explained(
                "list the registrations with the TGT QP",
                errno,
                &[(Errno::EINVAL, NO_SUCH)],
            )
        })?;
        Ok(count)
    }

    /// Fills `holders` as far as it reaches, with as many calls as that takes. Returns how
    /// many there are.
    pub(crate) fn holders_into(&self, holders: &mut [ib_xrc_holder_info]) -> Result<u32> {
        list::fill(
            holders,
            |holder| holder.id,
            |after, part| self.list_holders(after, part),
        )
    }
}

/// What a registration has to keep. EINVAL: the event file is of another context.
fn kept(xrcd: &Arc<XrcdInner>, options: &TgtQpOptions<'_>) -> Result<Option<Arc<EventFileInner>>> {
    options
        .events
        .map(|to| to.file.of(xrcd.context()))
        .transpose()
}

pub(crate) fn query(target: &Target<'_>) -> Result<(QpAttr, TgtQpInfo)> {
    let mut attr = ib_uverbs_qp_attr::default();
    let mut info = ib_xrc_tgt_qp_info::default();
    target.query(Some(&mut attr), Some(&mut info))?;
    Ok((QpAttr::from_query(&attr)?, (&info).try_into()?))
}

pub(crate) fn connect(
    target: &Target<'_>,
    attr: &QpAttr,
    timeout: Option<Duration>,
) -> Result<QpState> {
    let (state, result) = target.connect(&attr.to_raw(), timeout.map(timeout_millis));
    result?;
    state.ok_or_else(|| Error::Unexpected("no state after connecting a TGT QP".into()))
}

pub(crate) fn disconnect(target: &Target<'_>, timeout: Duration) -> Result<DisconnectInfo> {
    let info = target.disconnect(Registration::Keep, timeout_millis(timeout))?;
    Ok((&info).into())
}

pub(crate) fn holders(target: &Target<'_>) -> Result<Vec<Holder>> {
    let raw = list::all(|holders| target.holders_into(holders))?;
    Ok(raw.iter().map(Holder::from).collect())
}

/// A registration with a TGT QP: the TGT QP lives at least until the last one is dropped
/// or its process gone, and the domain's [`crate::DomainPolicy`] says until when.
pub struct TgtQp {
    pub(crate) handle: Handle,
    qp_num: u32,
    /// The domain stays open as long as there are registrations made with its handle.
    _xrcd: Arc<XrcdInner>,
    _events: Option<Arc<EventFileInner>>,
}

impl TgtQp {
    pub(crate) fn create(xrcd: &Arc<XrcdInner>, options: TgtQpOptions<'_>) -> Result<Self> {
        let events = kept(xrcd, &options)?;
        let mut qp_num = 0u32;
        let mut request = Request::new(IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_CREATE)
            .new_handle(IB_XRC_ATTR_TGT_QP_CREATE_HANDLE)
            .handle(IB_XRC_ATTR_TGT_QP_CREATE_XRCD, xrcd.handle.id())
            .output(IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, &mut qp_num);
        if let Some(to) = &options.events {
            request = to.add_to(
                request,
                IB_XRC_ATTR_TGT_QP_CREATE_EVENT_FILE,
                IB_XRC_ATTR_TGT_QP_CREATE_USER_HANDLE,
            );
        }
        let reply = xrcd.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("create a TGT QP", errno))?;
        let id = reply.new_handle(IB_XRC_ATTR_TGT_QP_CREATE_HANDLE);
        Ok(Self::new(xrcd, id, qp_num, events))
    }

    pub(crate) fn open(
        xrcd: &Arc<XrcdInner>,
        qp_num: u32,
        options: TgtQpOptions<'_>,
    ) -> Result<Self> {
        let events = kept(xrcd, &options)?;
        let mut request = Request::new(IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_OPEN)
            .new_handle(IB_XRC_ATTR_TGT_QP_OPEN_HANDLE)
            .handle(IB_XRC_ATTR_TGT_QP_OPEN_XRCD, xrcd.handle.id())
            .input(IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM, &qp_num);
        if let Some(to) = &options.events {
            request = to.add_to(
                request,
                IB_XRC_ATTR_TGT_QP_OPEN_EVENT_FILE,
                IB_XRC_ATTR_TGT_QP_OPEN_USER_HANDLE,
            );
        }
        let reply = xrcd.context().call(request);
        reply.result().map_err(|errno| {
            Error::explained(
                "register with the TGT QP",
                errno,
                &[(Errno::EINVAL, NO_SUCH)],
            )
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_TGT_QP_OPEN_HANDLE);
        Ok(Self::new(xrcd, id, qp_num, events))
    }

    fn new(
        xrcd: &Arc<XrcdInner>,
        id: u32,
        qp_num: u32,
        events: Option<Arc<EventFileInner>>,
    ) -> Self {
        TgtQp {
            handle: Handle::new(xrcd.context(), &KIND, id),
            qp_num,
            _xrcd: xrcd.clone(),
            _events: events,
        }
    }

    /// The number of the TGT QP, 24 bits: senders connect to it, other processes of
    /// the domain open it by it.
    pub fn qp_num(&self) -> u32 {
        self.qp_num
    }

    /// Modifies it, as ibv_modify_qp(3) on a QP of type `IBV_QPT_XRC_RECV`.
    ///
    /// EINVAL: the transition is not allowed, or attributes are missing or wrong.
    pub fn modify(&self, attr: &QpAttr) -> Result<()> {
        Target::Handle(&self.handle).modify(&attr.to_raw())
    }

    /// Its attributes as the device has them (all are there), its state,
    /// registrations and counters.
    pub fn query(&self) -> Result<(QpAttr, TgtQpInfo)> {
        query(&Target::Handle(&self.handle))
    }

    /// Takes it through INIT, RTR and RTS, up to `attr.state`, in one call. Returns the
    /// state that it is in.
    ///
    /// Each transition takes from `attr` what it needs; see [`QpAttr`] for an example.
    /// A TGT QP receives from RTR on. When a transition fails, those before it stand, and
    /// [`Error::Connect`] has the state.
    ///
    /// EINVAL: `attr.state` is missing or not beyond the present state, or attributes are
    /// missing or wrong.
    pub fn connect(&self, attr: &QpAttr) -> Result<QpState> {
        connect(&Target::Handle(&self.handle), attr, None)
    }

    /// [`TgtQp::connect`], which begins no transition any more when `timeout` has passed:
    /// then it fails with ETIMEDOUT. One that has begun takes as long as the device takes.
    pub fn connect_timeout(&self, attr: &QpAttr, timeout: Duration) -> Result<QpState> {
        connect(&Target::Handle(&self.handle), attr, Some(timeout))
    }

    /// Takes it to the ERR state, and waits for the messages that have arrived: each is
    /// delivered or, if no buffer for it is posted before `timeout` has passed, dropped and
    /// counted.
    ///
    /// EINVAL: it is in the RESET state, and there is nothing to disconnect. ETIMEDOUT: the device or the memory of a receiver took too long, some seconds more than
    /// `timeout`. The TGT QP is in the ERR state or on its way there then, and it may be
    /// tried again.
    pub fn disconnect(&self, timeout: Duration) -> Result<DisconnectInfo> {
        disconnect(&Target::Handle(&self.handle), timeout)
    }

    /// [`TgtQp::disconnect`], and gives the registration back if that works.
    pub fn disconnect_and_close(
        self,
        timeout: Duration,
    ) -> Result<DisconnectInfo, CloseError<Self>> {
        let target = Target::Handle(&self.handle);
        let closed = target.disconnect(Registration::Release, timeout_millis(timeout));
        CloseError::unless(closed, self).map(|info| (&info).into())
    }

    /// Lists the registrations with it, in all processes, oldest first.
    pub fn holders(&self) -> Result<Vec<Holder>> {
        holders(&Target::Handle(&self.handle))
    }

    /// Gives the registration back. With the last one the TGT QP is destroyed, unless the
    /// domain has [`crate::Policy::Domain`].
    pub fn close(self) -> Result<(), CloseError<Self>> {
        let closed = self.handle.close();
        CloseError::unless(closed, self)
    }
}

impl fmt::Debug for TgtQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TgtQp")
            .field("qp_num", &self.qp_num)
            .finish_non_exhaustive()
    }
}
