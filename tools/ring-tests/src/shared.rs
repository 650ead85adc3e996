// SPDX-License-Identifier: GPL-2.0

//! The memory of a ring, as a process has it.

use std::{
    ptr::NonNull,
    sync::atomic::{fence, AtomicU32, Ordering},
};

use kernel::{
    mm::virt::{flags, VmaNew},
    page::PAGE_SIZE,
};

use crate::{linux::shared_memory::SharedMemory, ring::Memory};

/// Has the accesses of the library's own mapping, but is at the address which the kernel's side
/// has, too: a sanitizer knows memory by that.
///
/// # Invariants
///
/// It is as long as `len` says, and lives as long as its owner, who has both sides, says.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: It is accessed as memory that others write to.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps all of it.
    ///
    /// # Safety
    ///
    /// It is not used when `memory` is gone.
    pub(crate) unsafe fn map(memory: &SharedMemory) -> Self {
        let at = 1 << 40;
        let vma = VmaNew::new(at, memory.len(), flags::SHARED | flags::MAYEXEC, 0);
        memory.map_into(&vma).unwrap();
        assert_eq!(
            vma.flags(),
            flags::SHARED | flags::DONTEXPAND | flags::DONTCOPY
        );

        let pages = vma.pages();
        let base = pages[0].1;
        let len = pages.len() * PAGE_SIZE;
        for (i, (addr, page)) in pages.into_iter().enumerate() {
            assert_eq!(addr, at + i * PAGE_SIZE);
            assert_eq!(page, base.wrapping_add(i * PAGE_SIZE));
        }
        assert_eq!(len, memory.len());
        // INVARIANT: These are the pages, in order; and the caller's word.
        Shared {
            base: NonNull::new(base).unwrap(),
            len,
        }
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: Inside of it.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        let word = self.at(offset, size_of::<u32>()).cast::<u32>();
        assert!(word.is_aligned());
        // SAFETY: Inside of it and aligned; both sides access it atomically only.
        unsafe { AtomicU32::from_ptr(word) }
    }
}

impl Memory for Shared {
    fn len(&self) -> usize {
        self.len
    }

    fn load(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    fn store(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    fn replace(&self, offset: usize, old: u32, new: u32) {
        let _ = self
            .word(offset)
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.at(offset, bytes.len());
        // SAFETY: Inside of it, and by the protocol not being written.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: Inside of it, and by the protocol not being read.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}
