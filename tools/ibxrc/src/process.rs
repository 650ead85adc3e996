// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Processes, with the words that rdma(8) uses.

use std::{fmt, fs};

use serde::Serialize;

/// A process that is visible to us.
#[derive(Serialize)]
pub struct Process {
    pid: u32,
    /// Its name, unless it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<String>,
}

impl From<u32> for Process {
    fn from(pid: u32) -> Self {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        Process {
            pid,
            comm: comm.map(|comm| comm.trim_end().to_string()),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)?;
        match &self.comm {
            Some(comm) => write!(f, " comm {comm}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_name() {
        let me = Process::from(std::process::id());
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        let expected = format!("pid {} comm {}", std::process::id(), comm.trim_end());
        // The name is the main thread's, and tests run in others.
        assert_eq!(me.to_string(), expected);
    }

    #[test]
    fn one_that_is_gone_has_its_number_only() {
        assert_eq!(
            Process::from(u32::MAX).to_string(),
            format!("pid {}", u32::MAX)
        );
    }
}
