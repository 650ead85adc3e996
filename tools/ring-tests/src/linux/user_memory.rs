// SPDX-License-Identifier: GPL-2.0

//! The memory of a process: a few bytes from some address on.

use std::cell::RefCell;

use kernel::prelude::*;

/// As the module's, with one range that can be written to.
pub(crate) struct UserMemory {
    pub(crate) start: u64,
    pub(crate) bytes: RefCell<Vec<u8>>,
}

impl UserMemory {
    /// Copies `data` to `addr`.
    pub(crate) fn write(&self, addr: u64, data: &[u8]) -> Result {
        let mut bytes = self.bytes.borrow_mut();
        let to = addr
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| bytes.get_mut(at..)?.get_mut(..data.len()));

        // Nothing can be written to anywhere.
        if !data.is_empty() {
            to.ok_or(EFAULT)?.copy_from_slice(data);
        }
        Ok(())
    }
}
