// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory that others write to.

use std::{
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicU64, AtomicU8, Ordering},
};

use anyhow::{Context, Result};
use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

/// Whole pages, of zeroes at first.
///
/// # Invariants
///
/// `base` is a private mapping of `len` bytes, ours alone to unmap.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
}

impl Region {
    pub fn new(len: usize) -> Result<Self> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: A new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }
            .with_context(|| format!("cannot get {len} bytes of memory"))?;
        let base = NonNull::new(base.cast()).context("memory at address 0")?;
        // INVARIANT: Just mapped.
        Ok(Region { base, len })
    }

    /// Where these bytes are.
    ///
    /// # Panics
    ///
    /// If there are no such bytes.
    pub fn at(&self, range: &Range<usize>) -> *mut u8 {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: Inside of the mapping.
        unsafe { self.base.as_ptr().add(range.start) }
    }

    /// These bytes.
    ///
    /// # Safety
    ///
    /// Nobody writes them as long as they are borrowed.
    pub unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: The caller's word.
        unsafe { std::slice::from_raw_parts(self.at(&range), range.len()) }
    }

    /// Fills these bytes.
    ///
    /// # Safety
    ///
    /// Nobody reads or writes them meanwhile.
    pub unsafe fn fill(&self, range: Range<usize>, value: u8) {
        // SAFETY: The caller's word.
        unsafe { self.at(&range).write_bytes(value, range.len()) }
    }

    /// A byte that others may read at the same time.
    pub fn byte(&self, at: usize) -> &AtomicU8 {
        // SAFETY: Inside of the mapping, and only ever accessed atomically by us.
        unsafe { AtomicU8::from_ptr(self.at(&(at..at + 1))) }
    }

    /// A word that others may change at the same time.
    ///
    /// # Panics
    ///
    /// If it is not aligned.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        let word = self.at(&(at..at + size_of::<u64>())).cast::<u64>();
        assert!(word.is_aligned());
        // SAFETY: Inside of the mapping, aligned, and only ever accessed atomically by us.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Sets a word, before others can change it.
    pub fn set_word(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: Type invariant; references do not outlive `self`. It cannot fail for a whole
        // mapping.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
