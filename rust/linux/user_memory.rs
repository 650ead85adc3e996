// SPDX-License-Identifier: GPL-2.0

//! Writing to the memory of another process, and at its expense.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h),
//! [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use core::ptr;

use kernel::{
    mm::{
        Mm,
        MmWithUser,
        MmapReadGuard, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef, //
};

use crate::bindings;

use super::mmap::{
    is_on_fuse,
    lock_bounded,
    untagged, //
};

/// Pages that are pinned at a time: few enough for the stack, and for nobody to miss them.
const BATCH: usize = 16;

/// The address space of the process that created it, whether or not that still runs.
///
/// Holds the `struct mm_struct` but not the memory in it, which goes with the process.
pub(crate) struct UserMemory {
    mm: ARef<Mm>,
}

impl UserMemory {
    /// The memory of the calling process.
    ///
    /// `EINVAL`: the caller is a kernel thread.
    pub(crate) fn of_current() -> Result<Self> {
        let current = kernel::current!();
        let mm: &Mm = current.mm().ok_or(EINVAL)?;

        Ok(Self { mm: mm.into() })
    }

    /// Whether it is the memory of the calling process.
    pub(crate) fn is_current(&self) -> bool {
        let current = kernel::current!();

        current
            .mm()
            .is_some_and(|mm| ptr::eq(mm.as_raw(), self.mm.as_raw()))
    }

    /// Runs `f` with what it allocates (`__GFP_ACCOUNT`) charged to the memory cgroup of the process,
    /// as its pages are, and not to that of the caller. Process context.
    pub(crate) fn charged<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: `self` holds the `struct mm_struct`. What is returned is a reference, or null.
        let memcg = unsafe { bindings::ib_xrc_helper_get_mem_cgroup_from_mm(self.mm.as_raw()) };
        // SAFETY: The reference is held until the scope has ended, below.
        let outer = unsafe { bindings::ib_xrc_helper_set_active_memcg(memcg) };
        let result = f();

        // SAFETY: Ends the scope. That of the caller, if there is one, has its own reference.
        unsafe { bindings::ib_xrc_helper_set_active_memcg(outer) };
        // SAFETY: It is ours, and not used any more.
        unsafe { bindings::ib_xrc_helper_mem_cgroup_put(memcg) };
        result
    }

    /// Copies `data` to `addr` in the process, from any process context.
    ///
    /// It is as if the process wrote to the memory: pages are faulted in, copied on write and
    /// marked dirty; what it may not write to, and device memory, is refused. `EFAULT` says that
    /// some part could not be written, and parts before may have been, or that the process has
    /// exited. `EBUSY`: the process holds the lock of its address space, as a fork(2) does; to be
    /// tried again.
    ///
    /// Sleeps, but never for userspace, neither for the process nor for another:
    ///
    /// * A fault that userfaultfd(2) would handle fails: `pin_user_pages_remote()` is not allowed to
    ///   drop the lock of the address space, without which userfaultfd does not wait.
    /// * Files on FUSE are refused, whose faults are answered by a process.
    /// * The lock of the address space is waited for with a limit.
    /// * The memory of a process that exits meanwhile is not torn down in here (`mmput_async()`).
    ///
    /// What remains are memory reclaim and the block devices and servers behind file systems and
    /// swap, as for any page fault.
    pub(crate) fn write(&self, addr: u64, data: &[u8]) -> Result {
        let mut addr = usize::try_from(addr).map_err(|_| EFAULT)?;
        let mut data = data;

        addr.checked_add(data.len()).ok_or(EFAULT)?;
        if data.is_empty() {
            return Ok(());
        }

        let mm = self.mm.mmget_not_zero().ok_or(EFAULT)?;
        let mm = MmWithUser::into_mmput_async(mm);

        while !data.is_empty() {
            let lock = lock_bounded(&mm).ok_or(EBUSY)?;
            let pages = Pinned::pin(&lock, &mm, addr, data.len())?;

            // Others may want the lock, and copying does not need it.
            drop(lock);

            let (now, later) = data
                .split_at_checked(pages.len().min(data.len()))
                .ok_or(EFAULT)?;

            pages.copy_from(now);
            // Does not wrap at the end of the data, see above.
            addr = addr.wrapping_add(now.len());
            data = later;
        }
        Ok(())
    }
}

/// How many bytes from `addr` on, at least one and at most `len`, are in one mapping whose faults
/// wait for no process.
fn reachable(lock: &MmapReadGuard<'_>, addr: usize, len: usize) -> Result<usize> {
    let vma = lock.vma_lookup(addr).ok_or(EFAULT)?;

    if is_on_fuse(vma) {
        return Err(EFAULT);
    }

    // `addr` is in the mapping.
    Ok(len.min(vma.end().saturating_sub(addr)))
}

/// Pages of a process which are pinned for writing.
///
/// # Invariants
///
/// The first `count` of `pages` are pinned for writing, and `count` is not 0.
struct Pinned {
    pages: [*mut bindings::page; BATCH],
    count: usize,
    /// Where in the first page to start.
    offset: usize,
}

impl Pinned {
    /// Pins the page at `addr` and those after it that hold `len` bytes, as far as they go in one
    /// step. `lock` is the lock of `mm`.
    fn pin(lock: &MmapReadGuard<'_>, mm: &MmWithUser, addr: usize, len: usize) -> Result<Self> {
        let addr = untagged(lock, mm, addr);
        let offset = addr % PAGE_SIZE;
        let len = reachable(lock, addr, len)?;
        let wanted = offset
            .saturating_add(len)
            .div_ceil(PAGE_SIZE)
            .clamp(1, BATCH);
        let mut pages = [ptr::null_mut(); BATCH];

        // SAFETY: `mm` has a user and is locked for reading. There is room for `wanted` pages.
        // Without `locked` the lock is neither dropped nor taken.
        let count = unsafe {
            bindings::pin_user_pages_remote(
                mm.as_raw(),
                addr.wrapping_sub(offset),
                wanted,
                bindings::FOLL_WRITE,
                pages.as_mut_ptr(),
                ptr::null_mut(),
            )
        };

        match usize::try_from(count) {
            // INVARIANT: So many pages were pinned.
            Ok(count) if count > 0 && count <= BATCH => Ok(Self {
                pages,
                count,
                offset,
            }),
            // Nothing is there, it may not be written to, or there is no memory for it.
            _ => Err(EFAULT),
        }
    }

    /// Number of bytes in the pages.
    fn len(&self) -> usize {
        self.count.wrapping_mul(PAGE_SIZE).wrapping_sub(self.offset)
    }

    /// Copies `data`, which is not longer than the pages are, to the start of them.
    fn copy_from(&self, data: &[u8]) {
        let mut offset = self.offset;
        let mut data = data;

        for page in self.pages.iter().take(self.count) {
            let (now, later) = data.split_at(data.len().min(PAGE_SIZE.saturating_sub(offset)));

            // SAFETY: The page is pinned for writing, and `offset + now.len()` is not above its
            // size. The process may access it at the same time, as it may when it is a device
            // that writes there.
            unsafe {
                bindings::ib_xrc_helper_memcpy_to_page(
                    *page,
                    offset,
                    now.as_ptr().cast(),
                    now.len(),
                )
            };
            data = later;
            offset = 0;
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: By the type invariant these are pinned, by us, and we may sleep.
        unsafe { bindings::unpin_user_pages_dirty_lock(self.pages.as_mut_ptr(), self.count, true) };
    }
}
