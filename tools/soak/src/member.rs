// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What a process that takes part is told when it is started.

use clap::Args;

use crate::protocol::Plan;

/// What a process that takes part is told when it is started.
#[derive(Args)]
pub struct Member {
    /// The RDMA device.
    #[arg(long)]
    pub device: String,
    /// Which of its side it is.
    #[arg(long)]
    pub index: usize,
    #[command(flatten)]
    pub plan: Plan,
}

impl Member {
    /// To start it, in this role.
    pub fn arguments(&self, role: &str) -> Vec<String> {
        let Plan { mix, patience } = self.plan;
        let mut arguments = [
            role,
            "--device",
            &self.device,
            "--index",
            &self.index.to_string(),
            "--seed",
            &mix.seed.to_string(),
            "--patience",
            &patience.to_string(),
        ]
        .map(str::to_string)
        .to_vec();
        if mix.lossy {
            arguments.push("--lossy".to_string());
        }
        arguments
    }
}
