// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs, and which of them an XRC TGT QP has.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use kernel::prelude::*;

use super::device::Device;
use crate::bindings;

/// States of a QP, `enum ib_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum QpState {
    /// Just created.
    Reset = bindings::IB_QPS_RESET,
    /// Buffers may be posted.
    Init = bindings::IB_QPS_INIT,
    /// Ready to receive.
    Rtr = bindings::IB_QPS_RTR,
    /// Ready to send.
    Rts = bindings::IB_QPS_RTS,
    /// The send queue drains.
    Sqd = bindings::IB_QPS_SQD,
    /// The send queue is in error.
    Sqe = bindings::IB_QPS_SQE,
    /// All work is flushed.
    Err = bindings::IB_QPS_ERR,
}

impl QpState {
    /// `enum ib_qp_state`.
    pub(crate) fn raw(self) -> u32 {
        self as u32
    }
}

impl TryFrom<u32> for QpState {
    type Error = Error;

    fn try_from(state: u32) -> Result<Self> {
        Ok(match state {
            bindings::IB_QPS_RESET => Self::Reset,
            bindings::IB_QPS_INIT => Self::Init,
            bindings::IB_QPS_RTR => Self::Rtr,
            bindings::IB_QPS_RTS => Self::Rts,
            bindings::IB_QPS_SQD => Self::Sqd,
            bindings::IB_QPS_SQE => Self::Sqe,
            bindings::IB_QPS_ERR => Self::Err,
            _ => return Err(EINVAL),
        })
    }
}

/// Which attributes count, `enum ib_qp_attr_mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpAttrMask(u32);

impl QpAttrMask {
    /// No attribute.
    pub(crate) const NONE: Self = Self(0);
    /// The state to go to.
    pub(crate) const STATE: Self = Self(bindings::IB_QP_STATE);
    /// The state that the QP is thought to be in.
    pub(crate) const CUR_STATE: Self = Self(bindings::IB_QP_CUR_STATE);
    /// The number of the peer's QP.
    pub(crate) const DEST_QPN: Self = Self(bindings::IB_QP_DEST_QPN);
    /// What going from RESET to INIT needs.
    pub(crate) const TO_INIT: Self = Self(
        bindings::IB_QP_STATE
            | bindings::IB_QP_PKEY_INDEX
            | bindings::IB_QP_PORT
            | bindings::IB_QP_ACCESS_FLAGS,
    );
    /// All attributes that uverbs knows.
    pub(crate) const STANDARD: Self = Self(bindings::IB_QP_ATTR_STANDARD_BITS);
    /// What an XRC TGT QP, which never requests, does not have. libibverbs' users may pass
    /// them all the same, and uverbs ignores them.
    const NOT_OF_TGT: Self = Self(
        bindings::IB_QP_MAX_QP_RD_ATOMIC | bindings::IB_QP_RETRY_CNT | bindings::IB_QP_RNR_RETRY,
    );

    /// From `enum ib_qp_attr_mask`.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// `enum ib_qp_attr_mask`.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` are in it.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The attributes of both.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The attributes which are in both.
    pub(crate) const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Without those of `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// Attributes of a QP, `struct ib_qp_attr`.
///
/// # Invariants
///
/// No pointer in it counts: the core sets them before it uses them.
pub(crate) struct QpAttr(bindings::ib_qp_attr);

// SAFETY: By the type invariants there are only integers in it that count.
unsafe impl Send for QpAttr {}
// SAFETY: As above.
unsafe impl Sync for QpAttr {}

impl Clone for QpAttr {
    fn clone(&self) -> Self {
        // SAFETY: A C structure without ownership may be copied.
        Self(unsafe { core::ptr::read(&self.0) })
    }
}

impl QpAttr {
    pub(super) fn from_raw(attr: bindings::ib_qp_attr) -> Self {
        Self(attr)
    }

    pub(super) fn into_raw(self) -> bindings::ib_qp_attr {
        self.0
    }

    /// To go to a state which needs nothing else: RESET or ERR.
    pub(crate) fn to_state(state: QpState) -> (Self, QpAttrMask) {
        let attr = bindings::ib_qp_attr {
            qp_state: state.raw(),
            ..Default::default()
        };
        (Self(attr), QpAttrMask::STATE)
    }

    /// The state to go to; of a query, the state.
    pub(crate) fn state(&self) -> Result<QpState> {
        self.0.qp_state.try_into()
    }

    /// The number of the peer's QP.
    pub(crate) fn dest_qp_num(&self) -> u32 {
        self.0.dest_qp_num
    }

    /// Takes attributes from userspace, of which `qp_attr_mask` says which count, and makes
    /// the checks that uverbs makes of a modify (`modify_qp()` in
    /// `drivers/infiniband/core/uverbs_cmd.c`), with the same errnos. The mask returned may
    /// have more in it. `port` is what the QP uses: [`Qp::port`](super::qp::Qp::port). Process
    /// context.
    ///
    /// `EOPNOTSUPP`: an unknown attribute. `EINVAL`: no such port, not the QP's, or no such
    /// state. `EPERM`: a Q_Key for the privileged only.
    pub(crate) fn from_uapi(
        device: &Device,
        src: &bindings::ib_uverbs_qp_attr,
        port: u32,
    ) -> Result<(Self, QpAttrMask)> {
        let mut mask = QpAttrMask(src.qp_attr_mask);
        let mut port_num = src.port_num;

        if !QpAttrMask::STANDARD.contains(mask) {
            return Err(EOPNOTSUPP);
        }
        if mask.has(bindings::IB_QP_PORT) && !device.is_port_valid(port_num.into()) {
            return Err(EINVAL);
        }
        if mask.has(bindings::IB_QP_AV) {
            let av_port = src.ah_attr.port_num;

            if !device.is_port_valid(av_port.into()) {
                return Err(EINVAL);
            }
            if mask.has(bindings::IB_QP_STATE) && src.qp_state == bindings::IB_QPS_RTR {
                // The port was chosen in INIT.
                if u32::from(av_port) != port {
                    return Err(EINVAL);
                }
            } else if mask.has(bindings::IB_QP_PORT) {
                if port_num != av_port {
                    return Err(EINVAL);
                }
            } else {
                // In SQD the port changes with the path.
                mask.0 |= bindings::IB_QP_PORT;
                port_num = av_port;
            }
        }
        if mask.has(bindings::IB_QP_ALT_PATH)
            && (!device.is_port_valid(src.alt_port_num.into())
                || !device.is_port_valid(src.alt_ah_attr.port_num.into())
                || src.alt_port_num != src.alt_ah_attr.port_num)
        {
            return Err(EINVAL);
        }
        // uverbs lets it through, and drivers believe it.
        if mask.has(bindings::IB_QP_PATH_MTU)
            && !(bindings::IB_MTU_256..=bindings::IB_MTU_4096).contains(&src.path_mtu)
        {
            return Err(EINVAL);
        }
        if (mask.has(bindings::IB_QP_CUR_STATE) && src.cur_qp_state > bindings::IB_QPS_ERR)
            || (mask.has(bindings::IB_QP_STATE) && src.qp_state > bindings::IB_QPS_ERR)
        {
            return Err(EINVAL);
        }
        // The administrator's setting that allows it to all is not exported by a header. A TGT
        // QP has no Q_Key anyway.
        if mask.has(bindings::IB_QP_QKEY)
            && src.qkey & bindings::IB_QP_SET_QKEY != 0
            && !device.current_has_raw_cap()
        {
            return Err(EPERM);
        }

        let mut attr = bindings::ib_qp_attr::default();
        macro_rules! take {
            ($($bit:ident: $($field:ident = $value:expr),+;)*) => {
                $(if mask.has(bindings::$bit) {
                    $(attr.$field = $value;)+
                })*
            };
        }
        take!(
            IB_QP_STATE: qp_state = src.qp_state;
            IB_QP_CUR_STATE: cur_qp_state = src.cur_qp_state;
            IB_QP_PATH_MTU: path_mtu = src.path_mtu;
            IB_QP_PATH_MIG_STATE: path_mig_state = src.path_mig_state;
            IB_QP_QKEY: qkey = src.qkey;
            // The core would do so too, and log it.
            IB_QP_RQ_PSN: rq_psn = src.rq_psn & 0xff_ffff;
            IB_QP_SQ_PSN: sq_psn = src.sq_psn & 0xff_ffff;
            IB_QP_DEST_QPN: dest_qp_num = src.dest_qp_num;
            IB_QP_ACCESS_FLAGS: qp_access_flags = src.qp_access_flags as i32;
            IB_QP_PKEY_INDEX: pkey_index = src.pkey_index;
            IB_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify = src.en_sqd_async_notify;
            IB_QP_MAX_QP_RD_ATOMIC: max_rd_atomic = src.max_rd_atomic;
            IB_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = src.max_dest_rd_atomic;
            IB_QP_MIN_RNR_TIMER: min_rnr_timer = src.min_rnr_timer;
            IB_QP_PORT: port_num = port_num.into();
            IB_QP_TIMEOUT: timeout = src.timeout;
            IB_QP_RETRY_CNT: retry_cnt = src.retry_cnt;
            IB_QP_RNR_RETRY: rnr_retry = src.rnr_retry;
            IB_QP_ALT_PATH: alt_port_num = src.alt_port_num.into(),
                            alt_timeout = src.alt_timeout,
                            alt_pkey_index = src.alt_pkey_index;
        );
        if mask.has(bindings::IB_QP_AV) {
            // SAFETY: All are valid.
            unsafe {
                bindings::ib_xrc_helper_ah_attr_from_uapi(
                    device.as_raw(),
                    &mut attr.ah_attr,
                    &src.ah_attr,
                )
            }
        }
        if mask.has(bindings::IB_QP_ALT_PATH) {
            // SAFETY: All are valid.
            unsafe {
                bindings::ib_xrc_helper_ah_attr_from_uapi(
                    device.as_raw(),
                    &mut attr.alt_ah_attr,
                    &src.alt_ah_attr,
                )
            }
        }
        Ok((Self(attr), mask))
    }

    /// For userspace, as `ib_copy_qp_attr_to_user()` has it. The mask is 0.
    pub(crate) fn to_uapi(&self) -> bindings::ib_uverbs_qp_attr {
        let src = &self.0;
        let mut dst = bindings::ib_uverbs_qp_attr {
            qp_state: src.qp_state,
            cur_qp_state: src.cur_qp_state,
            path_mtu: src.path_mtu,
            path_mig_state: src.path_mig_state,
            qkey: src.qkey,
            rq_psn: src.rq_psn,
            sq_psn: src.sq_psn,
            dest_qp_num: src.dest_qp_num,
            qp_access_flags: src.qp_access_flags as u32,
            max_send_wr: src.cap.max_send_wr,
            max_recv_wr: src.cap.max_recv_wr,
            max_send_sge: src.cap.max_send_sge,
            max_recv_sge: src.cap.max_recv_sge,
            max_inline_data: src.cap.max_inline_data,
            pkey_index: src.pkey_index,
            alt_pkey_index: src.alt_pkey_index,
            en_sqd_async_notify: src.en_sqd_async_notify,
            sq_draining: src.sq_draining,
            max_rd_atomic: src.max_rd_atomic,
            max_dest_rd_atomic: src.max_dest_rd_atomic,
            min_rnr_timer: src.min_rnr_timer,
            port_num: src.port_num as u8,
            timeout: src.timeout,
            retry_cnt: src.retry_cnt,
            rnr_retry: src.rnr_retry,
            alt_port_num: src.alt_port_num as u8,
            alt_timeout: src.alt_timeout,
            ..Default::default()
        };

        // SAFETY: All are valid.
        unsafe {
            bindings::ib_xrc_helper_ah_attr_to_uapi(&mut dst.ah_attr, &src.ah_attr);
            bindings::ib_xrc_helper_ah_attr_to_uapi(&mut dst.alt_ah_attr, &src.alt_ah_attr);
        }
        dst
    }

    /// Of a query: for userspace to go from RESET to INIT with.
    pub(crate) fn to_init(&self) -> bindings::ib_uverbs_qp_attr {
        bindings::ib_uverbs_qp_attr {
            qp_attr_mask: QpAttrMask::TO_INIT.bits(),
            qp_state: QpState::Init.raw(),
            ..self.to_uapi()
        }
    }

    /// Adds to an XRC TGT QP's transition what the RC QP that carries it needs, and returns
    /// the mask for that.
    ///
    /// It concerns requests, of which there are none.
    pub(crate) fn complete_for_rc(
        &mut self,
        cur: QpState,
        next: QpState,
        mask: QpAttrMask,
    ) -> QpAttrMask {
        let mut mask = mask;

        if (cur, next) != (QpState::Rtr, QpState::Rts) {
            return mask;
        }
        let mut fill = |bit: u32, set: fn(&mut bindings::ib_qp_attr)| {
            if !mask.has(bit) {
                mask.0 |= bit;
                set(&mut self.0);
            }
        };
        fill(bindings::IB_QP_MAX_QP_RD_ATOMIC, |attr| {
            attr.max_rd_atomic = 1
        });
        fill(bindings::IB_QP_RETRY_CNT, |attr| attr.retry_cnt = 7);
        fill(bindings::IB_QP_RNR_RETRY, |attr| attr.rnr_retry = 7);
        // 4.096 us * 2^14 = 67 ms
        fill(bindings::IB_QP_TIMEOUT, |attr| attr.timeout = 14);
        fill(bindings::IB_QP_SQ_PSN, |attr| attr.sq_psn = 0);
        mask
    }
}

/// What the caller's mask of an XRC TGT QP's modify amounts to: uverbs ignores some.
pub(crate) fn tgt_mask(mask: QpAttrMask) -> QpAttrMask {
    mask.without(QpAttrMask::NOT_OF_TGT)
}

/// Whether an XRC TGT QP may go from `cur` to `next` (the same, if the state is not
/// modified) with these attributes: it must have those that are required and may have those
/// that are optional. `mask` is one of [`tgt_mask`]. Any context.
pub(crate) fn tgt_may_modify(cur: QpState, next: QpState, mask: QpAttrMask) -> bool {
    // SAFETY: It looks at its arguments.
    unsafe { bindings::ib_modify_qp_is_ok(cur.raw(), next.raw(), bindings::IB_QPT_XRC_TGT, mask.0) }
}

/// Which attributes an XRC TGT QP must have for a step of a connect: the first is required,
/// the second optional. `None` if it is not one of RESET to INIT, to RTR, to RTS.
pub(crate) fn tgt_step(cur: QpState, next: QpState) -> Option<(QpAttrMask, QpAttrMask)> {
    let required = match (cur, next) {
        (QpState::Reset, QpState::Init) => QpAttrMask::TO_INIT,
        (QpState::Init, QpState::Rtr) => QpAttrMask(
            bindings::IB_QP_STATE
                | bindings::IB_QP_AV
                | bindings::IB_QP_PATH_MTU
                | bindings::IB_QP_DEST_QPN
                | bindings::IB_QP_RQ_PSN
                | bindings::IB_QP_MAX_DEST_RD_ATOMIC
                | bindings::IB_QP_MIN_RNR_TIMER,
        ),
        (QpState::Rtr, QpState::Rts) => {
            QpAttrMask(bindings::IB_QP_STATE | bindings::IB_QP_TIMEOUT | bindings::IB_QP_SQ_PSN)
        }
        _ => return None,
    };

    // The core knows which are optional, but only answers whether a mask is right.
    let optional = (0..u32::BITS)
        .map(|bit| QpAttrMask(1 << bit))
        .filter(|bit| bindings::IB_QP_ATTR_STANDARD_BITS & bit.0 != 0)
        .filter(|bit| !required.contains(*bit))
        .filter(|bit| tgt_may_modify(cur, next, required.union(*bit)))
        .fold(QpAttrMask::NONE, QpAttrMask::union);

    Some((required, optional))
}
