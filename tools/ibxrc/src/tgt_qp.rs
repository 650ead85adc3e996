// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! TGT QPs, with the words that rdma(8) uses.

use std::fmt;

use ibxrc::TgtQpInfo;
use serde::Serialize;

use crate::process::Process;

/// A TGT QP.
#[derive(Serialize)]
pub struct TgtQp {
    pub lqpn: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rqpn: Option<u32>,
    pub state: &'static str,
    pub refs: u32,
    pub recv_msgs: u64,
    pub recv_bytes: u64,
    pub refused_msgs: u64,
    /// With details only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<Holder>>,
}

/// A registration with a TGT QP.
#[derive(Serialize)]
pub struct Holder {
    pub id: u64,
    #[serde(flatten)]
    pub process: Option<Process>,
}

impl From<&TgtQpInfo> for TgtQp {
    fn from(info: &TgtQpInfo) -> Self {
        TgtQp {
            lqpn: info.qp_num,
            rqpn: (info.dest_qp_num != 0).then_some(info.dest_qp_num),
            state: info.state.name(),
            refs: info.refs,
            recv_msgs: info.recv_msgs,
            recv_bytes: info.recv_bytes,
            refused_msgs: info.refused_msgs,
            holders: None,
        }
    }
}

impl From<&ibxrc::Holder> for Holder {
    fn from(holder: &ibxrc::Holder) -> Self {
        Holder {
            id: holder.id,
            process: holder.pid.map(Process::from),
        }
    }
}

impl fmt::Display for TgtQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tgt-qp lqpn {}", self.lqpn)?;
        if let Some(rqpn) = self.rqpn {
            write!(f, " rqpn {rqpn}")?;
        }
        write!(
            f,
            " state {} refs {} recv-msgs {} recv-bytes {} refused-msgs {}",
            self.state, self.refs, self.recv_msgs, self.recv_bytes, self.refused_msgs
        )?;
        for holder in self.holders.iter().flatten() {
            write!(f, "\n        holder {}", holder.id)?;
            if let Some(process) = &holder.process {
                write!(f, " {process}")?;
            }
        }
        Ok(())
    }
}
