// SPDX-License-Identifier: GPL-2.0

//! What is mapped into the address space of a process.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/mmap_lock.h`](srctree/include/linux/mmap_lock.h),
//! [`include/linux/userfaultfd_k.h`](srctree/include/linux/userfaultfd_k.h)

use kernel::{
    mm::{
        virt::VmaRef,
        MmWithUser,
        MmapReadGuard, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use crate::bindings;

/// How often to wait for the lock of an address space: 1, 2, 4, 8, 16 ms.
const LOCK_TRIES: u32 = 5;

/// `mmap_read_lock()` that gives up. Sleeps.
///
/// A process can hold the lock of its own address space while it waits for another: mmap(2) of a
/// FUSE file is enough.
pub(super) fn lock_bounded(mm: &MmWithUser) -> Option<MmapReadGuard<'_>> {
    for attempt in 0..LOCK_TRIES {
        if let Some(lock) = mm.mmap_read_trylock() {
            return Some(lock);
        }
        fsleep(Delta::from_millis(1 << attempt));
    }
    mm.mmap_read_trylock()
}

/// The address that is meant, without what some CPUs let userspace keep in its upper bits.
pub(super) fn untagged(_lock: &MmapReadGuard<'_>, mm: &MmWithUser, addr: usize) -> usize {
    // SAFETY: `mm` is locked. Any address will do.
    unsafe { bindings::ib_xrc_helper_untagged_addr_remote(mm.as_raw(), addr) }
}

/// Whether it is a file on FUSE, whose page faults are answered by a process.
pub(super) fn is_on_fuse(vma: &VmaRef) -> bool {
    // SAFETY: The mapping does not change while its address space is locked.
    let file = unsafe { (*vma.as_ptr()).vm_file };

    if file.is_null() {
        return false;
    }

    // SAFETY: The mapping holds the file, the file its inode, and that its file system.
    let magic = unsafe { (*(*(*file).f_inode).i_sb).s_magic };

    magic == bindings::FUSE_SUPER_MAGIC as usize
}

/// Whether userfaultfd(2) lets a process answer page faults of it.
pub(super) fn is_userfaultfd(vma: &VmaRef) -> bool {
    // SAFETY: The mapping does not change while its address space is locked.
    unsafe { bindings::ib_xrc_helper_userfaultfd_armed(vma.as_ptr()) }
}
