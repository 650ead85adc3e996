// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! SRQs.

use std::fmt;

use ibxrc::SrqInfo;
use serde::Serialize;

use crate::process::Process;

/// An SRQ.
#[derive(Serialize)]
pub struct Srq {
    pub srqn: u32,
    pub state: &'static str,
    pub waiting_msgs: u32,
    pub recv_msgs: u64,
    #[serde(flatten)]
    pub process: Option<Process>,
}

impl From<&SrqInfo> for Srq {
    fn from(info: &SrqInfo) -> Self {
        Srq {
            srqn: info.srq_num,
            state: if info.error { "ERR" } else { "RDY" },
            waiting_msgs: info.waiting_msgs,
            recv_msgs: info.recv_msgs,
            process: info.pid.map(Process::from),
        }
    }
}

impl fmt::Display for Srq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "srq srqn {} state {} waiting-msgs {} recv-msgs {}",
            self.srqn, self.state, self.waiting_msgs, self.recv_msgs
        )?;
        match &self.process {
            Some(process) => write!(f, " {process}"),
            None => Ok(()),
        }
    }
}
