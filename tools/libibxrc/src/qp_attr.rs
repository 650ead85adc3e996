// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The attributes of a QP.

use std::fmt;

use crate::{
    capi::attr::{from_kernel, to_kernel},
    error::{Error, Result},
    uapi::{ib_uverbs_ah_attr, ib_uverbs_global_route, ib_uverbs_qp_attr},
    verbs,
};

/// The state of a QP (`enum ibv_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum QpState {
    /// As created.
    Reset = verbs::IBV_QPS_RESET,
    /// Initialised: has its port and access rights.
    Init = verbs::IBV_QPS_INIT,
    /// Ready to receive: knows its peer.
    Rtr = verbs::IBV_QPS_RTR,
    /// Ready to send.
    Rts = verbs::IBV_QPS_RTS,
    /// Send queue drained.
    Sqd = verbs::IBV_QPS_SQD,
    /// Send queue in error.
    Sqe = verbs::IBV_QPS_SQE,
    /// In error.
    Err = verbs::IBV_QPS_ERR,
}

impl QpState {
    const ALL: [(QpState, &'static str); 7] = [
        (QpState::Reset, "RESET"),
        (QpState::Init, "INIT"),
        (QpState::Rtr, "RTR"),
        (QpState::Rts, "RTS"),
        (QpState::Sqd, "SQD"),
        (QpState::Sqe, "SQE"),
        (QpState::Err, "ERR"),
    ];

    /// Of `enum ib_qp_state`.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .map(|(state, _)| *state)
            .find(|s| *s as u32 == raw)
    }

    pub(crate) fn of_kernel(raw: u32) -> Result<Self> {
        Self::from_raw(raw).ok_or_else(|| Error::Unexpected(format!("QP state {raw}")))
    }

    /// As rdma(8) writes it: `RESET`, `INIT`, ...
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(state, _)| *state == self)
            .map_or("?", |(_, name)| name)
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The path to a peer (`struct ibv_ah_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Where the peer is, across subnets; needed on RoCE.
    pub grh: Option<GlobalRoute>,
    /// The peer's LID; 0 on RoCE.
    pub dlid: u16,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// Low bits of our LID, if the port has several.
    pub src_path_bits: u8,
    /// `enum ibv_rate`; 0 is the port's.
    pub static_rate: u8,
    /// Our port, from 1.
    pub port: u8,
}

/// A path across subnets (`struct ibv_global_route`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The peer's GID, as on the wire.
    pub dgid: [u8; 16],
    /// 20 bits.
    pub flow_label: u32,
    /// Which of our port's GIDs to use.
    pub sgid_index: u8,
    /// As TTL of IP: 1 does not leave the subnet.
    pub hop_limit: u8,
    /// As TOS of IP.
    pub traffic_class: u8,
}

/// The alternative path of a QP, to which it migrates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AltPath {
    /// Where it leads.
    pub path: Path,
    /// Index in the partition key table of its port.
    pub pkey_index: u16,
    /// Its port, from 1.
    pub port: u8,
    /// As [`QpAttr::timeout`].
    pub timeout: u8,
}

/// Attributes of a QP (`struct ibv_qp_attr`): what is `None` is not to be modified.
///
/// ```
/// use ibxrc::{GlobalRoute, Path, QpAttr, QpState};
///
/// // What INIT and RTR need: connects a TGT QP with `TgtQp::connect`.
/// let attr = QpAttr {
///     state: Some(QpState::Rtr),
///     port: Some(1),
///     pkey_index: Some(0),
///     access_flags: Some(0),
///     path: Some(Path {
///         grh: Some(GlobalRoute { sgid_index: 1, hop_limit: 64, ..Default::default() }),
///         port: 1,
///         ..Default::default()
///     }),
///     path_mtu: Some(3),
///     dest_qp_num: Some(17),
///     rq_psn: Some(0),
///     max_dest_rd_atomic: Some(1),
///     min_rnr_timer: Some(1),
///     ..Default::default()
/// };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpAttr {
    /// The state to go to.
    pub state: Option<QpState>,
    /// The state that the QP is supposed to be in.
    pub cur_state: Option<QpState>,
    /// `enum ibv_mtu`: 1 is 256 bytes, 3 is 1024, 5 is 4096.
    pub path_mtu: Option<u32>,
    /// `enum ibv_mig_state`.
    pub path_mig_state: Option<u32>,
    /// Q_Key; not for RC.
    pub qkey: Option<u32>,
    /// First packet number that we expect, 24 bits.
    pub rq_psn: Option<u32>,
    /// First packet number that we send, 24 bits.
    pub sq_psn: Option<u32>,
    /// The peer's QP number, 24 bits.
    pub dest_qp_num: Option<u32>,
    /// What the peer may do to our memory: `enum ibv_access_flags`.
    pub access_flags: Option<u32>,
    /// The path to the peer.
    pub path: Option<Path>,
    /// An alternative path.
    pub alt_path: Option<AltPath>,
    /// Index in the partition key table of our port.
    pub pkey_index: Option<u16>,
    /// RDMA READs and atomics that we may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// RDMA READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// How long the peer waits when we have no buffer: a code, from 1 (0.01 ms)
    /// to 31 (491.52 ms); 0 is 655.36 ms.
    pub min_rnr_timer: Option<u8>,
    /// Our port, from 1.
    pub port: Option<u8>,
    /// How long we wait for an acknowledgement: 4.096 us * 2^timeout; 0 is forever.
    pub timeout: Option<u8>,
    /// How often we try again when none comes, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// How often we try again when the peer has no buffer, 0 to 6; 7 is forever.
    pub rnr_retry: Option<u8>,
    /// Whether an event tells that the send queue is drained.
    pub sqd_async_notify: Option<bool>,
}

impl QpAttr {
    /// The same as the ABI has it.
    pub fn to_raw(&self) -> ib_uverbs_qp_attr {
        let mut raw = ib_uverbs_qp_attr::default();
        macro_rules! put {
            ($($option:ident: $mask:ident => $field:ident = $convert:expr;)*) => {
                $(if let Some(value) = self.$option {
                    raw.qp_attr_mask |= verbs::$mask;
                    raw.$field = $convert(value);
                })*
            };
        }
        fn same<T>(value: T) -> T {
            value
        }
        put! {
            state: IBV_QP_STATE => qp_state = |s| s as u32;
            cur_state: IBV_QP_CUR_STATE => cur_qp_state = |s| s as u32;
            path_mtu: IBV_QP_PATH_MTU => path_mtu = same;
            path_mig_state: IBV_QP_PATH_MIG_STATE => path_mig_state = same;
            qkey: IBV_QP_QKEY => qkey = same;
            rq_psn: IBV_QP_RQ_PSN => rq_psn = same;
            sq_psn: IBV_QP_SQ_PSN => sq_psn = same;
            dest_qp_num: IBV_QP_DEST_QPN => dest_qp_num = same;
            access_flags: IBV_QP_ACCESS_FLAGS => qp_access_flags = same;
            path: IBV_QP_AV => ah_attr = |p: Path| p.to_raw();
            pkey_index: IBV_QP_PKEY_INDEX => pkey_index = same;
            max_rd_atomic: IBV_QP_MAX_QP_RD_ATOMIC => max_rd_atomic = same;
            max_dest_rd_atomic: IBV_QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic = same;
            min_rnr_timer: IBV_QP_MIN_RNR_TIMER => min_rnr_timer = same;
            port: IBV_QP_PORT => port_num = same;
            timeout: IBV_QP_TIMEOUT => timeout = same;
            retry_cnt: IBV_QP_RETRY_CNT => retry_cnt = same;
            rnr_retry: IBV_QP_RNR_RETRY => rnr_retry = same;
            sqd_async_notify: IBV_QP_EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify = u8::from;
        }
        if let Some(alt) = self.alt_path {
            raw.qp_attr_mask |= verbs::IBV_QP_ALT_PATH;
            raw.alt_ah_attr = alt.path.to_raw();
            raw.alt_pkey_index = alt.pkey_index;
            raw.alt_port_num = alt.port;
            raw.alt_timeout = alt.timeout;
        }
        raw
    }

    /// Of what the ABI has, where the mask says so. EPROTO: an unknown state.
    pub fn from_raw(raw: &ib_uverbs_qp_attr) -> Result<Self> {
        let has = |mask: u32| raw.qp_attr_mask & mask != 0;
        let state = |mask, value| has(mask).then(|| QpState::of_kernel(value)).transpose();
        macro_rules! get {
            ($mask:ident, $field:ident) => {
                has(verbs::$mask).then_some(raw.$field)
            };
        }
        Ok(QpAttr {
            state: state(verbs::IBV_QP_STATE, raw.qp_state)?,
            cur_state: state(verbs::IBV_QP_CUR_STATE, raw.cur_qp_state)?,
            path_mtu: get!(IBV_QP_PATH_MTU, path_mtu),
            path_mig_state: get!(IBV_QP_PATH_MIG_STATE, path_mig_state),
            qkey: get!(IBV_QP_QKEY, qkey),
            rq_psn: get!(IBV_QP_RQ_PSN, rq_psn),
            sq_psn: get!(IBV_QP_SQ_PSN, sq_psn),
            dest_qp_num: get!(IBV_QP_DEST_QPN, dest_qp_num),
            access_flags: get!(IBV_QP_ACCESS_FLAGS, qp_access_flags),
            path: has(verbs::IBV_QP_AV).then(|| Path::from_raw(&raw.ah_attr)),
            alt_path: has(verbs::IBV_QP_ALT_PATH).then(|| AltPath {
                path: Path::from_raw(&raw.alt_ah_attr),
                pkey_index: raw.alt_pkey_index,
                port: raw.alt_port_num,
                timeout: raw.alt_timeout,
            }),
            pkey_index: get!(IBV_QP_PKEY_INDEX, pkey_index),
            max_rd_atomic: get!(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
            max_dest_rd_atomic: get!(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
            min_rnr_timer: get!(IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
            port: get!(IBV_QP_PORT, port_num),
            timeout: get!(IBV_QP_TIMEOUT, timeout),
            retry_cnt: get!(IBV_QP_RETRY_CNT, retry_cnt),
            rnr_retry: get!(IBV_QP_RNR_RETRY, rnr_retry),
            sqd_async_notify: has(verbs::IBV_QP_EN_SQD_ASYNC_NOTIFY)
                .then_some(raw.en_sqd_async_notify != 0),
        })
    }

    /// Of what libibverbs has, where the mask says so. EOPNOTSUPP: a rate limit, which a QP
    /// that does not send has not. EPROTO: an unknown state.
    pub fn from_verbs(attr: &verbs::ibv_qp_attr, mask: u32) -> Result<Self> {
        QpAttr::from_raw(&to_kernel(attr, mask as i32)?)
    }

    /// The same as libibverbs has it; what is not there is 0.
    pub fn to_verbs(&self) -> verbs::ibv_qp_attr {
        from_kernel(&self.to_raw())
    }

    /// Of a queried QP: all attributes are there, whatever the mask says.
    pub(crate) fn from_query(raw: &ib_uverbs_qp_attr) -> Result<Self> {
        QpAttr::from_raw(&ib_uverbs_qp_attr {
            qp_attr_mask: u32::MAX,
            ..*raw
        })
    }
}

impl Path {
    fn to_raw(self) -> ib_uverbs_ah_attr {
        ib_uverbs_ah_attr {
            grh: self
                .grh
                .map_or_else(Default::default, |g| ib_uverbs_global_route {
                    dgid: g.dgid,
                    flow_label: g.flow_label,
                    sgid_index: g.sgid_index,
                    hop_limit: g.hop_limit,
                    traffic_class: g.traffic_class,
                    reserved: 0,
                }),
            dlid: self.dlid,
            sl: self.sl,
            src_path_bits: self.src_path_bits,
            static_rate: self.static_rate,
            is_global: u8::from(self.grh.is_some()),
            port_num: self.port,
            reserved: 0,
        }
    }

    fn from_raw(raw: &ib_uverbs_ah_attr) -> Self {
        Path {
            grh: (raw.is_global != 0).then_some(GlobalRoute {
                dgid: raw.grh.dgid,
                flow_label: raw.grh.flow_label,
                sgid_index: raw.grh.sgid_index,
                hop_limit: raw.grh.hop_limit,
                traffic_class: raw.grh.traffic_class,
            }),
            dlid: raw.dlid,
            sl: raw.sl,
            src_path_bits: raw.src_path_bits,
            static_rate: raw.static_rate,
            port: raw.port_num,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*};

    use super::*;

    fn state() -> impl Strategy<Value = QpState> {
        (0u32..7).prop_map(|raw| QpState::from_raw(raw).unwrap())
    }

    fn path() -> impl Strategy<Value = Path> {
        let route = (
            any::<[u8; 16]>(),
            0u32..1 << 20,
            any::<u8>(),
            any::<u8>(),
            any::<u8>(),
        )
            .prop_map(|(dgid, flow_label, sgid_index, hop_limit, traffic_class)| {
                GlobalRoute {
                    dgid,
                    flow_label,
                    sgid_index,
                    hop_limit,
                    traffic_class,
                }
            });
        (
            option::of(route),
            any::<u16>(),
            0u8..16,
            any::<u8>(),
            any::<u8>(),
            any::<u8>(),
        )
            .prop_map(|(grh, dlid, sl, src_path_bits, static_rate, port)| Path {
                grh,
                dlid,
                sl,
                src_path_bits,
                static_rate,
                port,
            })
    }

    prop_compose! {
        fn attr()(
            states in (option::of(state()), option::of(state())),
            path in option::of(path()),
            alt in option::of((path(), any::<u16>(), any::<u8>(), any::<u8>())),
            words in prop::array::uniform7(option::of(any::<u32>())),
            bytes in prop::array::uniform7(option::of(any::<u8>())),
            pkey_index in option::of(any::<u16>()),
            sqd_async_notify in option::of(any::<bool>()),
        ) -> QpAttr {
            QpAttr {
                state: states.0,
                cur_state: states.1,
                path,
                alt_path: alt.map(|(path, pkey_index, port, timeout)| AltPath {
                    path, pkey_index, port, timeout,
                }),
                path_mtu: words[0],
                path_mig_state: words[1],
                qkey: words[2],
                rq_psn: words[3],
                sq_psn: words[4],
                dest_qp_num: words[5],
                access_flags: words[6],
                pkey_index,
                max_rd_atomic: bytes[0],
                max_dest_rd_atomic: bytes[1],
                min_rnr_timer: bytes[2],
                port: bytes[3],
                timeout: bytes[4],
                retry_cnt: bytes[5],
                rnr_retry: bytes[6],
                sqd_async_notify,
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_on_the_way(attr in attr()) {
            prop_assert_eq!(QpAttr::from_raw(&attr.to_raw()).unwrap(), attr);
        }

        #[test]
        fn the_mask_says_what_counts(attr in attr()) {
            let raw = attr.to_raw();
            let none = ib_uverbs_qp_attr { qp_attr_mask: 0, ..raw };
            prop_assert_eq!(QpAttr::from_raw(&none).unwrap(), QpAttr::default());
        }
    }

    #[test]
    fn no_attribute_is_no_bit() {
        assert_eq!(QpAttr::default().to_raw(), ib_uverbs_qp_attr::default());
    }

    #[test]
    fn states_have_the_names_that_rdma_uses() {
        assert_eq!(QpState::from_raw(2), Some(QpState::Rtr));
        assert_eq!(QpState::Rtr.to_string(), "RTR");
        assert_eq!(QpState::from_raw(7), None);
        let raw = ib_uverbs_qp_attr {
            qp_attr_mask: verbs::IBV_QP_STATE,
            qp_state: 9,
            ..Default::default()
        };
        assert!(QpAttr::from_raw(&raw).is_err());
    }
}
