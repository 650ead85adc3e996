// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What the two ends of a connection tell each other.

use ibxrc::{GlobalRoute, Path, QpAttr, QpState};
use serde::{Deserialize, Serialize};

use crate::gid::Gid;

/// One end of a connection, as the other end needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// QP number.
    pub qp_num: u32,
    /// Number of the first packet that it sends.
    pub psn: u32,
    /// Its port's GID.
    pub gid: Gid,
    /// Its port's LID; 0 on RoCE.
    pub lid: u16,
    /// Its port's MTU: `enum ibv_mtu`.
    pub mtu: u32,
    /// How many RDMA READs and atomics may be outstanding.
    pub rd_atomic: u8,
}

impl Address {
    /// The attributes that connect a TGT QP to the sender at this address, in one
    /// [`ibxrc::TgtQp::connect`]. `port`, `sgid_index` and `mtu` are those of our end.
    pub fn tgt_attr(&self, port: u8, sgid_index: u8, mtu: u32) -> QpAttr {
        QpAttr {
            state: Some(QpState::Rtr),
            // INIT
            port: Some(port),
            pkey_index: Some(0),
            access_flags: Some(0),
            // RTR
            path: Some(self.path(port, sgid_index)),
            path_mtu: Some(self.mtu.min(mtu)),
            dest_qp_num: Some(self.qp_num),
            rq_psn: Some(self.psn),
            max_dest_rd_atomic: Some(self.rd_atomic),
            // 0.64 ms: soon enough, without a storm of retries.
            min_rnr_timer: Some(12),
            ..Default::default()
        }
    }

    pub(crate) fn path(&self, port: u8, sgid_index: u8) -> Path {
        Path {
            grh: Some(GlobalRoute {
                dgid: self.gid.0,
                sgid_index,
                hop_limit: 64,
                ..Default::default()
            }),
            dlid: self.lid,
            port,
            ..Default::default()
        }
    }
}
