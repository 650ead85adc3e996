// SPDX-License-Identifier: GPL-2.0

//! Memory of the calling process that is about to be pinned for long.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use core::ptr;

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

use crate::bindings;

use super::{
    mmap::{
        is_on_fuse,
        is_userfaultfd,
        lock_bounded,
        untagged, //
    },
    sleep::fatal_signal_pending, //
};

/// Pages that are pinned at a time: few enough for the stack.
const BATCH: usize = 16;

/// A range of addresses of the calling process.
#[derive(Clone, Copy)]
pub(crate) struct OwnMemory {
    addr: usize,
    len: usize,
}

impl OwnMemory {
    /// `EFAULT`: there are no such addresses. Any context.
    pub(crate) fn new(addr: u64, len: u64) -> Result<Self> {
        let addr = usize::try_from(addr).map_err(|_| EFAULT)?;
        let len = usize::try_from(len).map_err(|_| EFAULT)?;

        addr.checked_add(len).ok_or(EFAULT)?;
        Ok(Self { addr, len })
    }

    /// Whether page faults in it wait for no process, as things are now. What is not mapped is
    /// not looked at, nor what is behind it.
    ///
    /// `EOPNOTSUPP`: they may. `EBUSY`: the lock of the address space cannot be had within some
    /// 30 ms. Sleeps.
    pub(crate) fn check(&self) -> Result {
        let current = kernel::current!();
        let mm = current.mm().ok_or(EFAULT)?;
        let lock = lock_bounded(mm).ok_or(EBUSY)?;
        let mut addr = untagged(&lock, mm, self.addr);
        let end = addr.checked_add(self.len).ok_or(EFAULT)?;

        while addr < end {
            let Some(vma) = lock.vma_lookup(addr) else {
                break;
            };

            if is_userfaultfd(vma) || is_on_fuse(vma) {
                return Err(EOPNOTSUPP);
            }
            addr = vma.end();
        }
        Ok(())
    }

    /// Has the pages be there, and be where they can be pinned for long; whoever pins them soon
    /// will mostly not wait for them. What cannot be had, and that there are more than the process
    /// may pin, is left for that to find out.
    ///
    /// Also waits until the lock of the address space can be had. `EOPNOTSUPP`: see
    /// [`check`](Self::check). `EINTR`: a fatal signal came. Sleeps, for as long as the memory
    /// takes.
    pub(crate) fn prefault(&self, write: bool) -> Result {
        loop {
            match self.check() {
                Err(error) if error == EBUSY => {}
                result => break result?,
            }
            if fatal_signal_pending() {
                return Err(EINTR);
            }
        }

        let flags = bindings::FOLL_LONGTERM | if write { bindings::FOLL_WRITE } else { 0 };
        let skip = self.addr % PAGE_SIZE;
        let mut addr = self.addr.wrapping_sub(skip);
        let mut left = self.len.saturating_add(skip).div_ceil(PAGE_SIZE);

        // All of it would be made, perhaps more than the machine has, for nothing.
        if !may_pin(left)? {
            return Ok(());
        }

        while left > 0 {
            let mut pages = [ptr::null_mut(); BATCH];

            // SAFETY: There is room for so many pages. Any address will do.
            let count = unsafe {
                bindings::pin_user_pages_fast(
                    addr,
                    left.min(BATCH) as i32,
                    flags,
                    pages.as_mut_ptr(),
                )
            };
            let Some(count) = usize::try_from(count).ok().filter(|&count| count > 0) else {
                break;
            };

            // SAFETY: These were just pinned, and we may sleep.
            unsafe { bindings::unpin_user_pages(pages.as_mut_ptr(), count) };
            if fatal_signal_pending() {
                return Err(EINTR);
            }
            // Neither wraps: so many pages are there, and not more than were asked for.
            addr = addr.wrapping_add(count.wrapping_mul(PAGE_SIZE));
            left = left.saturating_sub(count);
        }

        if fatal_signal_pending() {
            return Err(EINTR);
        }
        Ok(())
    }
}

/// Whether the calling process may have so many more pages pinned, as things are now.
fn may_pin(pages: usize) -> Result<bool> {
    let current = kernel::current!();
    let mm = current.mm().ok_or(EFAULT)?;

    // SAFETY: `mm` is that of the calling process, which is there.
    Ok(unsafe { bindings::ib_xrc_helper_may_pin(mm.as_raw(), pages) })
}
