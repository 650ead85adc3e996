// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What is sent follows from this.

use clap::Args;
use ibxrc::wire::PART_SIZE;
use serde::{Deserialize, Serialize};

use crate::tally::Kind;

/// What is sent follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct Mix {
    #[arg(long)]
    pub seed: u64,
    /// Only what Soft-RoCE can do where packets are lost, repeated and overtaken.
    ///
    /// There an RDMA READ or atomic may be done without the answer being in memory, a work request
    /// of several packets may arrive empty, and an RDMA READ that arrives once more after an RDMA
    /// READ or WRITE of nothing fails. So there are no atomics, work requests are of one packet
    /// (with a path MTU of 4096), RDMA READs and WRITEs are of something, and the memory of RDMA
    /// READs has the answer already.
    #[arg(long)]
    pub lossy: bool,
}

impl Mix {
    /// The length of an RDMA READ or WRITE for which this one was drawn.
    pub fn one_sided(self, len: usize) -> usize {
        if self.lossy {
            len.clamp(1, PART_SIZE)
        } else {
            len
        }
    }

    /// There are none of these.
    pub fn leaves_out(self, kind: Kind) -> bool {
        self.lossy && matches!(kind, Kind::FetchAdd | Kind::CompareSwap)
    }
}
