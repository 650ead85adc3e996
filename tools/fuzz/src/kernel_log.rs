// SPDX-License-Identifier: GPL-2.0

//! What the kernel says, so that it is known at once what was done when it complained.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
};

use anyhow::{Context, Result};

/// What it says when something is wrong. selftests/run looks for more.
const COMPLAINTS: &[&str] = &[
    "BUG:",
    "WARNING:",
    "KASAN",
    "KFENCE",
    "UBSAN",
    "Oops",
    "general protection",
    "refcount_t",
    "blocked for more than",
    "sleeping function called",
    "scheduling while atomic",
    "unreferenced object",
    "rust_kernel: panicked",
    "corruption",
];

/// A warning of Soft-RoCE's own: see selftests/run.
const NOT_OURS: &str = "drivers/infiniband/sw/rxe/rxe_task.c";

pub struct KernelLog(File);

impl KernelLog {
    /// From now on.
    pub fn open() -> Result<Self> {
        let mut file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("cannot open /dev/kmsg")?;
        file.seek(SeekFrom::End(0))
            .context("cannot seek in /dev/kmsg")?;
        Ok(KernelLog(file))
    }

    /// The next complaint.
    pub fn complaint(&mut self) -> Option<String> {
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(n) => {
                    let text = String::from_utf8_lossy(&record[..n]);
                    let text = text.split_once(';').map_or("", |(_, text)| text);
                    if is_complaint(text) {
                        return Some(text.trim().to_string());
                    }
                }
                // Some were overwritten.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => (),
                Err(_) => return None,
            }
        }
    }
}

fn is_complaint(text: &str) -> bool {
    COMPLAINTS.iter().any(|known| text.contains(known)) && !text.contains(NOT_OURS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_told_from_the_rest() {
        assert!(is_complaint("BUG: KASAN: slab-use-after-free in foo+0x1"));
        assert!(is_complaint("WARNING: lib/refcount.c:28 at x, CPU#1"));
        assert!(!is_complaint(
            "WARNING: drivers/infiniband/sw/rxe/rxe_task.c:247 at"
        ));
        assert!(!is_complaint("rxe1: set down"));
    }
}
