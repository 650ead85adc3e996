// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The receiving end of a connection, which belongs to a domain.

use std::{fmt, sync::Arc};

use crate::{
    context::ContextInner,
    error::{CloseError, Errno, Error, Result},
    framing::Request,
    handle::{Handle, Kind},
    qp_attr::{QpAttr, QpState},
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
    pub(crate) fn connect(&self, attr: &ib_uverbs_qp_attr) -> (Option<QpState>, Result<()>) {
        const RESP_STATE: u32 = IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE;
        let mut state = 0u32;
        let request = self
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
}

pub(crate) fn query(target: &Target<'_>) -> Result<(QpAttr, TgtQpInfo)> {
    let mut attr = ib_uverbs_qp_attr::default();
    let mut info = ib_xrc_tgt_qp_info::default();
    target.query(Some(&mut attr), Some(&mut info))?;
    Ok((QpAttr::from_query(&attr)?, (&info).try_into()?))
}

pub(crate) fn connect(target: &Target<'_>, attr: &QpAttr) -> Result<QpState> {
    let (state, result) = target.connect(&attr.to_raw());
    result?;
    state.ok_or_else(|| Error::Unexpected("no state after connecting a TGT QP".into()))
}

/// A registration with a TGT QP: the TGT QP lives until the last one is dropped or
/// its process gone.
pub struct TgtQp {
    pub(crate) handle: Handle,
    qp_num: u32,
    /// The domain stays open as long as there are registrations made with its handle.
    _xrcd: Arc<XrcdInner>,
}

impl TgtQp {
    pub(crate) fn create(xrcd: &Arc<XrcdInner>) -> Result<Self> {
        let mut qp_num = 0u32;
        let request = Request::new(IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_CREATE)
            .new_handle(IB_XRC_ATTR_TGT_QP_CREATE_HANDLE)
            .handle(IB_XRC_ATTR_TGT_QP_CREATE_XRCD, xrcd.handle.id())
            .output(IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, &mut qp_num);
        let reply = xrcd.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("create a TGT QP", errno))?;
        let id = reply.new_handle(IB_XRC_ATTR_TGT_QP_CREATE_HANDLE);
        Ok(Self::new(xrcd, id, qp_num))
    }

    pub(crate) fn open(xrcd: &Arc<XrcdInner>, qp_num: u32) -> Result<Self> {
        let request = Request::new(IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_OPEN)
            .new_handle(IB_XRC_ATTR_TGT_QP_OPEN_HANDLE)
            .handle(IB_XRC_ATTR_TGT_QP_OPEN_XRCD, xrcd.handle.id())
            .input(IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM, &qp_num);
        let reply = xrcd.context().call(request);
        reply.result().map_err(|errno| {
            Error::explained(
                "register with the TGT QP",
                errno,
                &[(Errno::EINVAL, NO_SUCH)],
            )
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_TGT_QP_OPEN_HANDLE);
        Ok(Self::new(xrcd, id, qp_num))
    }

    fn new(xrcd: &Arc<XrcdInner>, id: u32, qp_num: u32) -> Self {
        TgtQp {
            handle: Handle::new(xrcd.context(), &KIND, id),
            qp_num,
            _xrcd: xrcd.clone(),
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
        connect(&Target::Handle(&self.handle), attr)
    }

    /// Gives the registration back. With the last one the TGT QP is destroyed.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        match self.handle.close() {
            Ok(()) => Ok(()),
            Err(error) => Err(CloseError {
                object: self,
                error,
            }),
        }
    }
}

impl fmt::Debug for TgtQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TgtQp")
            .field("qp_num", &self.qp_num)
            .finish_non_exhaustive()
    }
}
