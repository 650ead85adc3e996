// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! `struct ibv_qp_attr` of libibverbs and `struct ib_uverbs_qp_attr` of the ABI.

use std::ffi::c_int;

use crate::{
    error::{Errno, Error, Result},
    uapi::{ib_uverbs_ah_attr, ib_uverbs_global_route, ib_uverbs_qp_attr},
    verbs::*,
};

/// All fields and the mask. EOPNOTSUPP: the mask has what the ABI has no field for.
pub(crate) fn to_kernel(attr: &ibv_qp_attr, mask: c_int) -> Result<ib_uverbs_qp_attr> {
    let mask = mask as u32;
    if mask & IBV_QP_RATE_LIMIT != 0 {
        return Err(Error::Call {
            what: "modify the TGT QP",
            errno: Errno::EOPNOTSUPP,
            advice: "a QP that does not send has no rate limit",
        });
    }
    Ok(ib_uverbs_qp_attr {
        qp_attr_mask: mask,
        qp_state: attr.qp_state,
        cur_qp_state: attr.cur_qp_state,
        path_mtu: attr.path_mtu,
        path_mig_state: attr.path_mig_state,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        qp_access_flags: attr.qp_access_flags,
        ah_attr: path_to_kernel(&attr.ah_attr),
        alt_ah_attr: path_to_kernel(&attr.alt_ah_attr),
        max_send_wr: attr.cap.max_send_wr,
        max_recv_wr: attr.cap.max_recv_wr,
        max_send_sge: attr.cap.max_send_sge,
        max_recv_sge: attr.cap.max_recv_sge,
        max_inline_data: attr.cap.max_inline_data,
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        en_sqd_async_notify: attr.en_sqd_async_notify,
        sq_draining: attr.sq_draining,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: attr.alt_port_num,
        alt_timeout: attr.alt_timeout,
        reserved: Default::default(),
    })
}

/// All fields.
pub(crate) fn from_kernel(raw: &ib_uverbs_qp_attr) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: raw.qp_state,
        cur_qp_state: raw.cur_qp_state,
        path_mtu: raw.path_mtu,
        path_mig_state: raw.path_mig_state,
        qkey: raw.qkey,
        rq_psn: raw.rq_psn,
        sq_psn: raw.sq_psn,
        dest_qp_num: raw.dest_qp_num,
        qp_access_flags: raw.qp_access_flags,
        cap: ibv_qp_cap {
            max_send_wr: raw.max_send_wr,
            max_recv_wr: raw.max_recv_wr,
            max_send_sge: raw.max_send_sge,
            max_recv_sge: raw.max_recv_sge,
            max_inline_data: raw.max_inline_data,
        },
        ah_attr: path_from_kernel(&raw.ah_attr),
        alt_ah_attr: path_from_kernel(&raw.alt_ah_attr),
        pkey_index: raw.pkey_index,
        alt_pkey_index: raw.alt_pkey_index,
        en_sqd_async_notify: raw.en_sqd_async_notify,
        sq_draining: raw.sq_draining,
        max_rd_atomic: raw.max_rd_atomic,
        max_dest_rd_atomic: raw.max_dest_rd_atomic,
        min_rnr_timer: raw.min_rnr_timer,
        port_num: raw.port_num,
        timeout: raw.timeout,
        retry_cnt: raw.retry_cnt,
        rnr_retry: raw.rnr_retry,
        alt_port_num: raw.alt_port_num,
        alt_timeout: raw.alt_timeout,
        rate_limit: 0,
    }
}

fn path_to_kernel(path: &ibv_ah_attr) -> ib_uverbs_ah_attr {
    ib_uverbs_ah_attr {
        grh: ib_uverbs_global_route {
            // SAFETY: The bytes of a GID are always valid.
            dgid: unsafe { path.grh.dgid.raw },
            flow_label: path.grh.flow_label,
            sgid_index: path.grh.sgid_index,
            hop_limit: path.grh.hop_limit,
            traffic_class: path.grh.traffic_class,
            reserved: 0,
        },
        dlid: path.dlid,
        sl: path.sl,
        src_path_bits: path.src_path_bits,
        static_rate: path.static_rate,
        is_global: path.is_global,
        port_num: path.port_num,
        reserved: 0,
    }
}

fn path_from_kernel(raw: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: raw.grh.dgid },
            flow_label: raw.grh.flow_label,
            sgid_index: raw.grh.sgid_index,
            hop_limit: raw.grh.hop_limit,
            traffic_class: raw.grh.traffic_class,
        },
        dlid: raw.dlid,
        sl: raw.sl,
        src_path_bits: raw.src_path_bits,
        static_rate: raw.static_rate,
        is_global: raw.is_global,
        port_num: raw.port_num,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        framing::{bytes_of, bytes_of_mut},
        qp_attr::QpAttr,
    };

    proptest! {
        #[test]
        fn both_ways_are_the_same(bytes in prop::collection::vec(any::<u8>(), 144)) {
            let mut raw = ib_uverbs_qp_attr::default();
            bytes_of_mut(&mut raw).copy_from_slice(&bytes);
            // What the kernel does not use or libibverbs has no field for.
            raw.qp_attr_mask &= !IBV_QP_RATE_LIMIT;
            raw.reserved = Default::default();
            for path in [&mut raw.ah_attr, &mut raw.alt_ah_attr] {
                path.reserved = 0;
                path.grh.reserved = 0;
            }
            let there = from_kernel(&raw);
            let back = to_kernel(&there, raw.qp_attr_mask as c_int).unwrap();
            prop_assert_eq!(bytes_of(&back), bytes_of(&raw));
        }
    }

    #[test]
    fn c_and_rust_mean_the_same() {
        let mut c = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: IBV_MTU_1024,
            dest_qp_num: 17,
            rq_psn: 3,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            // Not in the mask.
            port_num: 9,
            ..Default::default()
        };
        c.ah_attr.is_global = 1;
        c.ah_attr.port_num = 1;
        c.ah_attr.grh.sgid_index = 1;
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        let rust = QpAttr {
            state: Some(crate::QpState::Rtr),
            path_mtu: Some(3),
            dest_qp_num: Some(17),
            rq_psn: Some(3),
            max_dest_rd_atomic: Some(1),
            min_rnr_timer: Some(12),
            path: Some(crate::Path {
                grh: Some(crate::GlobalRoute {
                    sgid_index: 1,
                    ..Default::default()
                }),
                port: 1,
                ..Default::default()
            }),
            ..Default::default()
        };
        let raw = to_kernel(&c, mask as c_int).unwrap();
        assert_eq!(QpAttr::from_raw(&raw).unwrap(), rust);
        assert_eq!(rust.to_raw().qp_attr_mask, mask);
    }

    #[test]
    fn a_rate_limit_is_not_supported() {
        let error = to_kernel(&Default::default(), IBV_QP_RATE_LIMIT as c_int).unwrap_err();
        assert_eq!(error.errno(), Errno::EOPNOTSUPP);
    }
}
