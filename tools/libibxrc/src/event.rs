// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What an event file tells.

use std::fmt;

use crate::{uapi::*, verbs};

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// What the object that it is reported for was opened or created with; 0 for those
    /// of ports and the device, and for [`EventKind::Overflow`].
    pub user_handle: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The event file was full, and events were dropped here.
    Overflow {
        /// How many.
        dropped: u32,
    },
    /// Reported for a domain: somebody created a TGT QP in it.
    TgtQpCreated {
        /// Its number.
        qp_num: u32,
    },
    /// Reported for a TGT QP: it is in error.
    TgtQpError {
        /// Its number.
        qp_num: u32,
        /// What happened to it.
        error: QpError,
    },
    /// Reported for a domain and for a TGT QP: the TGT QP was destroyed.
    TgtQpReclaimed {
        /// Its number.
        qp_num: u32,
        /// Why.
        reason: ReclaimReason,
    },
    /// Reported for an SRQ: fewer work requests than its limit are posted.
    SrqLimit {
        /// Its number.
        srq_num: u32,
        /// The limit; there is none any more.
        limit: u32,
    },
    /// Reported for an SRQ: so many messages wait for buffers that senders are held back.
    /// It is told again only after all of them were delivered.
    SrqBacklog {
        /// Its number.
        srq_num: u32,
        /// Messages that wait.
        waiting: u32,
    },
    /// A port of the device became active.
    PortActive {
        /// The port, from 1.
        port: u32,
    },
    /// A port of the device ceased to be active.
    PortDown {
        /// The port, from 1.
        port: u32,
    },
    /// The device is gone; no event comes after this.
    DeviceRemoved,
    /// Reported for an SRQ: it takes no more messages.
    SrqError {
        /// Its number.
        srq_num: u32,
        /// Why.
        error: SrqError,
    },
    /// One that this library does not know.
    Other {
        /// `enum ib_xrc_event_type`.
        event_type: u32,
        /// `number` of `struct ib_xrc_event`.
        number: u32,
        /// `value` of it.
        value: u32,
    },
}

impl From<&ib_xrc_event> for Event {
    fn from(raw: &ib_xrc_event) -> Self {
        let (number, value) = (raw.number, raw.value);
        let kind = match raw.type_ {
            IB_XRC_EVENT_OVERFLOW => EventKind::Overflow { dropped: value },
            IB_XRC_EVENT_TGT_QP_CREATED => EventKind::TgtQpCreated { qp_num: number },
            IB_XRC_EVENT_TGT_QP_ERROR => EventKind::TgtQpError {
                qp_num: number,
                error: QpError(value),
            },
            IB_XRC_EVENT_TGT_QP_RECLAIMED => EventKind::TgtQpReclaimed {
                qp_num: number,
                reason: ReclaimReason::from_raw(value),
            },
            IB_XRC_EVENT_SRQ_LIMIT => EventKind::SrqLimit {
                srq_num: number,
                limit: value,
            },
            IB_XRC_EVENT_SRQ_BACKLOG => EventKind::SrqBacklog {
                srq_num: number,
                waiting: value,
            },
            IB_XRC_EVENT_PORT_ACTIVE => EventKind::PortActive { port: number },
            IB_XRC_EVENT_PORT_DOWN => EventKind::PortDown { port: number },
            IB_XRC_EVENT_DEVICE_REMOVED => EventKind::DeviceRemoved,
            IB_XRC_EVENT_SRQ_ERROR => EventKind::SrqError {
                srq_num: number,
                error: SrqError::from_raw(value),
            },
            event_type => EventKind::Other {
                event_type,
                number,
                value,
            },
        };
        Event {
            user_handle: raw.user_handle,
            kind,
        }
    }
}

/// What happened to a TGT QP in error (`enum ibv_event_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QpError(pub u32);

impl QpError {
    /// It failed for a reason that is not known.
    pub const FATAL: Self = QpError(verbs::IBV_EVENT_QP_FATAL);
    /// The sender asked for what cannot be: a message to an SRQ that does not exist or has
    /// another job key, one that makes no sense, or is longer than its buffers.
    pub const REQ_ERR: Self = QpError(verbs::IBV_EVENT_QP_REQ_ERR);
    /// Memory may not be accessed: an RDMA access with a bad key, or a buffer that cannot
    /// be written.
    pub const ACCESS_ERR: Self = QpError(verbs::IBV_EVENT_QP_ACCESS_ERR);
}

impl fmt::Display for QpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FATAL => f.write_str("fatal error"),
            Self::REQ_ERR => f.write_str("invalid request"),
            Self::ACCESS_ERR => f.write_str("access violation"),
            QpError(other) => write!(f, "event {other}"),
        }
    }
}

/// Why a TGT QP was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReclaimReason {
    /// Its last registration was given back.
    LastRef,
    /// An error hit it.
    Error,
    /// It was without registrations for as long as the domain's policy lets it.
    Linger,
    /// It was without registrations, and the domain without SRQs.
    LastSrq,
    /// One that this library does not know.
    Other(u32),
}

impl ReclaimReason {
    fn from_raw(raw: u32) -> Self {
        match raw {
            IB_XRC_RECLAIM_LAST_REF => ReclaimReason::LastRef,
            IB_XRC_RECLAIM_ERROR => ReclaimReason::Error,
            IB_XRC_RECLAIM_LINGER => ReclaimReason::Linger,
            IB_XRC_RECLAIM_LAST_SRQ => ReclaimReason::LastSrq,
            other => ReclaimReason::Other(other),
        }
    }
}

impl fmt::Display for ReclaimReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReclaimReason::LastRef => f.write_str("last registration"),
            ReclaimReason::Error => f.write_str("error"),
            ReclaimReason::Linger => f.write_str("linger time"),
            ReclaimReason::LastSrq => f.write_str("last SRQ"),
            ReclaimReason::Other(other) => write!(f, "reason {other}"),
        }
    }
}

/// Why an SRQ is in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SrqError {
    /// What was posted made no sense.
    Ring,
    /// Its CQ was full.
    Cq,
    /// One that this library does not know.
    Other(u32),
}

impl SrqError {
    fn from_raw(raw: u32) -> Self {
        match raw {
            IB_XRC_SRQ_ERROR_RING => SrqError::Ring,
            IB_XRC_SRQ_ERROR_CQ => SrqError::Cq,
            other => SrqError::Other(other),
        }
    }
}

impl fmt::Display for SrqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SrqError::Ring => f.write_str("bad work request"),
            SrqError::Cq => f.write_str("CQ full"),
            SrqError::Other(other) => write!(f, "error {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(type_: u32, number: u32, value: u32) -> EventKind {
        let raw = ib_xrc_event {
            user_handle: 7,
            type_,
            number,
            value,
            ..Default::default()
        };
        let event = Event::from(&raw);
        assert_eq!(event.user_handle, 7);
        event.kind
    }

    #[test]
    fn each_type_has_its_meaning() {
        use EventKind::*;

        let (number, value) = (5, IB_XRC_RECLAIM_LINGER);
        let kinds = [
            Overflow { dropped: value },
            TgtQpCreated { qp_num: number },
            TgtQpError {
                qp_num: number,
                error: QpError::ACCESS_ERR,
            },
            TgtQpReclaimed {
                qp_num: number,
                reason: ReclaimReason::Linger,
            },
            SrqLimit {
                srq_num: number,
                limit: value,
            },
            SrqBacklog {
                srq_num: number,
                waiting: value,
            },
            PortActive { port: number },
            PortDown { port: number },
            DeviceRemoved,
            SrqError {
                srq_num: number,
                error: super::SrqError::Other(value),
            },
        ];
        for (type_, kind) in (0..).zip(kinds) {
            assert_eq!(event(type_, number, value), kind);
        }
    }

    #[test]
    fn what_is_not_known_is_kept() {
        assert_eq!(
            event(99, 1, 2),
            EventKind::Other {
                event_type: 99,
                number: 1,
                value: 2
            }
        );
        assert_eq!(ReclaimReason::from_raw(9).to_string(), "reason 9");
        assert_eq!(QpError(9).to_string(), "event 9");
        assert_eq!(SrqError::from_raw(9).to_string(), "error 9");
    }
}
