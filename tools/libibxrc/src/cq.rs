// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A completion queue.

use std::{
    fmt,
    os::fd::AsRawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    comp_channel::{ChannelInner, CompChannel},
    context::ContextInner,
    error::{CloseError, Errno, Error, Result},
    framing::Request,
    handle::{Handle, Kind},
    ring::{CqRing, CqState, Mapping},
    uapi::*,
    verbs,
};

static KIND: Kind = Kind {
    object: IB_XRC_OBJECT_CQ,
    close: IB_XRC_METHOD_CQ_DESTROY,
    close_handle: IB_XRC_ATTR_CQ_DESTROY_HANDLE,
    what: "destroy the CQ",
    busy: "an SRQ completes into it",
};

/// How a receive work request ended (`enum ibv_wc_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WcStatus(pub u32);

impl WcStatus {
    /// A message was received.
    pub const SUCCESS: Self = WcStatus(verbs::IBV_WC_SUCCESS);
    /// The message is longer than its buffers.
    pub const LOC_LEN_ERR: Self = WcStatus(verbs::IBV_WC_LOC_LEN_ERR);
    /// A buffer cannot be written.
    pub const LOC_PROT_ERR: Self = WcStatus(verbs::IBV_WC_LOC_PROT_ERR);
    /// Flushed: the SRQ or the device has gone.
    pub const WR_FLUSH_ERR: Self = WcStatus(verbs::IBV_WC_WR_FLUSH_ERR);

    /// Whether a message was received.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SUCCESS => f.write_str("success"),
            Self::LOC_LEN_ERR => f.write_str("local length error"),
            Self::LOC_PROT_ERR => f.write_str("local protection error"),
            Self::WR_FLUSH_ERR => f.write_str("work request flushed"),
            WcStatus(other) => write!(f, "completion status {other}"),
        }
    }
}

/// What completed (`enum ibv_wc_opcode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WcOpcode(pub u32);

impl WcOpcode {
    /// A SEND or SEND_WITH_IMM, which is in the buffers.
    pub const RECV: Self = WcOpcode(verbs::IBV_WC_RECV);
    /// An RDMA_WRITE_WITH_IMM, which is in memory that was registered.
    pub const RECV_RDMA_WITH_IMM: Self = WcOpcode(verbs::IBV_WC_RECV_RDMA_WITH_IMM);
}

/// A completion of a receive work request.
///
/// If `status` is no success, `opcode`, `byte_len`, `imm`, `solicited` and `src_qp` mean
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wc {
    /// Of the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What was received.
    pub opcode: WcOpcode,
    /// Bytes received, or written.
    pub byte_len: u32,
    /// Immediate data, in host byte order, if the message has it.
    pub imm: Option<u32>,
    /// The sender asked for a solicited event.
    pub solicited: bool,
    /// Number of the SRQ.
    pub srq_num: u32,
    /// What the SRQ was created with.
    pub srq_user_handle: u64,
    /// Number of the TGT QP that received the message.
    pub qp_num: u32,
    /// Number of the QP that sent it.
    pub src_qp: u32,
}

impl From<&ib_xrc_cqe> for Wc {
    fn from(cqe: &ib_xrc_cqe) -> Self {
        Wc {
            wr_id: cqe.wr_id,
            status: WcStatus(cqe.status),
            opcode: WcOpcode(cqe.opcode),
            byte_len: cqe.byte_len,
            imm: (cqe.wc_flags & IB_XRC_WC_WITH_IMM != 0).then(|| u32::from_be(cqe.imm_data)),
            solicited: cqe.wc_flags & IB_XRC_WC_SOLICITED != 0,
            srq_num: cqe.srq_num,
            srq_user_handle: cqe.srq_user_handle,
            qp_num: cqe.qp_num,
            src_qp: cqe.src_qp,
        }
    }
}

pub(crate) struct CqInner {
    pub(crate) handle: Handle,
    ring: Mutex<CqRing<Mapping>>,
    _channel: Option<Arc<ChannelInner>>,
}

/// A completion queue. It stays until the SRQs that complete into it are dropped.
pub struct Cq {
    pub(crate) inner: Arc<CqInner>,
}

impl Cq {
    pub(crate) fn create(
        context: &Arc<ContextInner>,
        entries: u32,
        channel: Option<&CompChannel>,
        user_handle: u64,
    ) -> Result<Self> {
        if channel.is_some_and(|channel| !channel.is_of(context)) {
            return Err(Error::invalid(
                "the completion channel was made with another context",
            ));
        }
        let mut info = ib_xrc_ring_info::default();
        let mut request = Request::new(IB_XRC_OBJECT_CQ, IB_XRC_METHOD_CQ_CREATE)
            .new_handle(IB_XRC_ATTR_CQ_CREATE_HANDLE)
            .input(IB_XRC_ATTR_CQ_CREATE_CQE, &entries)
            .input(IB_XRC_ATTR_CQ_CREATE_USER_HANDLE, &user_handle)
            .output(IB_XRC_ATTR_CQ_CREATE_RESP_RING, &mut info);
        let channel = channel.map(|channel| {
            use std::os::fd::AsFd;
            (channel.as_fd().as_raw_fd(), channel.inner.clone())
        });
        if let Some((fd, _)) = channel {
            request = request.raw_fd(IB_XRC_ATTR_CQ_CREATE_COMP_CHANNEL, fd);
        }
        let reply = context.call(request);
        reply.result().map_err(|errno| {
            let meanings = [(
                Errno::EINVAL,
                "it needs at least one entry, and at most as many as the device's limits say",
            )];
            Error::explained("create a CQ", errno, &meanings)
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_CQ_CREATE_HANDLE);
        let handle = Handle::new(context, &KIND, id);
        let mapping = Mapping::new(context.file(), &info, "map the ring of a CQ")?;
        let ring = CqRing::new(mapping, &info)?;
        Ok(Cq {
            inner: Arc::new(CqInner {
                handle,
                ring: Mutex::new(ring),
                _channel: channel.map(|(_, channel)| channel),
            }),
        })
    }

    fn ring(&self) -> MutexGuard<'_, CqRing<Mapping>> {
        // The ring is consistent whenever something in it could panic.
        self.inner
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How many completions it holds.
    pub fn entries(&self) -> u32 {
        self.ring().entries()
    }

    pub(crate) fn poll_raw(&self, max: usize, each: impl FnMut(ib_xrc_cqe)) -> Result<usize> {
        let mut ring = self.ring();
        let state = ring.state();
        let n = ring.poll(max, each);
        match state {
            _ if n > 0 || max == 0 => Ok(n),
            CqState::Alive => Ok(0),
            CqState::Overflow => Err(Error::CqOverflow),
            CqState::Dead => Err(Error::DeviceGone {
                what: "poll the CQ",
            }),
        }
    }

    /// Takes completions, as many as `wcs` has room for. Returns how many there were,
    /// perhaps none; it does not wait.
    ///
    /// After the last completion: EIO if the device is gone, EOVERFLOW if completions
    /// were lost since the CQ was full.
    pub fn poll(&self, wcs: &mut [Wc]) -> Result<usize> {
        let max = wcs.len();
        let mut slots = wcs.iter_mut();
        self.poll_raw(max, |cqe| {
            if let Some(slot) = slots.next() {
                *slot = Wc::from(&cqe);
            }
        })
    }

    /// Asks for one event on the channel at the next completion or, with
    /// `solicited_only`, at the next one for which the sender asked for it or which failed.
    ///
    /// Completions that came before raise none: if it returns true, there are some,
    /// and whoever waits for the event without polling them may wait forever.
    #[must_use = "completions that are there already raise no event"]
    pub fn arm(&self, solicited_only: bool) -> bool {
        self.ring().arm(solicited_only)
    }

    /// Takes back what [`Cq::arm`] asked for. An event that was raised already stays.
    pub fn disarm(&self) {
        self.ring().disarm();
    }

    /// Destroys it. EBUSY: an SRQ completes into it.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        let closed = self.inner.handle.close();
        CloseError::unless(closed, self)
    }
}

impl fmt::Debug for Cq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq")
            .field("entries", &self.entries())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_in_host_byte_order() {
        let mut cqe = ib_xrc_cqe {
            wr_id: 7,
            opcode: IB_XRC_WC_RECV_RDMA_WITH_IMM,
            byte_len: 100,
            imm_data: 0x0102_0304u32.to_be(),
            srq_num: 5,
            ..Default::default()
        };
        let wc = Wc::from(&cqe);
        assert!(wc.status.is_success());
        assert_eq!(wc.opcode, WcOpcode::RECV_RDMA_WITH_IMM);
        assert_eq!(
            (wc.wr_id, wc.byte_len, wc.imm, wc.srq_num),
            (7, 100, None, 5)
        );
        cqe.wc_flags = IB_XRC_WC_WITH_IMM | IB_XRC_WC_SOLICITED;
        cqe.status = 1;
        let wc = Wc::from(&cqe);
        assert_eq!(wc.imm, Some(0x0102_0304));
        assert!(wc.solicited);
        assert_eq!(wc.status, WcStatus::LOC_LEN_ERR);
        assert_eq!(wc.status.to_string(), "local length error");
    }
}
