// SPDX-License-Identifier: GPL-2.0

//! A mapped ring, which the kernel reads and writes at the same time.

use std::{
    os::fd::{BorrowedFd, RawFd},
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use ibxrc::uapi::{
    ib_uverbs_sge, ib_xrc_cq_ring, ib_xrc_recv_wqe, ib_xrc_ring_info, ib_xrc_srq_ring,
    IB_XRC_RING_ENTRIES_OFFSET,
};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

const PRODUCER: usize = std::mem::offset_of!(ib_xrc_srq_ring, producer);
const CONSUMER: usize = std::mem::offset_of!(ib_xrc_cq_ring, consumer);
const ARM: usize = std::mem::offset_of!(ib_xrc_cq_ring, arm);

/// # Invariants
///
/// `len` bytes from `start` on are mapped, for reading and writing.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    offset: u64,
    entries: u32,
    stride: u32,
}

// SAFETY: It owns the mapping, of which words are accessed atomically.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a ring of an open file. `None`: the kernel does not want to.
    pub fn new(fd: RawFd, ring: &ib_xrc_ring_info) -> Option<Mapping> {
        if fd < 0 || ring.mmap_length == 0 {
            return None;
        }
        let len = ring.mmap_length as usize;
        // SAFETY: If the number is that of another file by now, that is mapped.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        // SAFETY: A new mapping.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                ring.mmap_offset,
            )
        };
        // INVARIANT: Just mapped.
        Some(Mapping {
            start: NonNull::new(start.ok()?.cast())?,
            len,
            offset: ring.mmap_offset,
            entries: ring.entries,
            stride: ring.stride,
        })
    }

    /// Whether it looks as a mapping of that ring would.
    pub fn is_of(&self, ring: &ib_xrc_ring_info) -> bool {
        let shape = (ring.mmap_offset, ring.entries, ring.stride);
        (self.offset, self.entries, self.stride) == shape
    }

    /// A word of it, if it has it.
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if offset % 4 != 0 || offset.checked_add(4)? > self.len {
            return None;
        }
        // SAFETY: Type invariant; it is aligned, since the start is that of a page.
        Some(unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU32>() })
    }

    /// Writes a word, if there is one.
    pub fn put(&self, offset: usize, value: u32) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    fn get(&self, offset: usize) -> u32 {
        self.word(offset)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Posts work requests with one buffer each, as a good program does.
    pub fn post(&self, count: u32, addr: u64, len: u32) {
        let producer = self.get(PRODUCER);
        // The consumer's index is the first word.
        let room = self
            .entries
            .saturating_sub(producer.wrapping_sub(self.get(0)));
        for index in (0..count.min(room)).map(|i| producer.wrapping_add(i)) {
            let at = IB_XRC_RING_ENTRIES_OFFSET as usize
                + (index & self.entries.wrapping_sub(1)) as usize * self.stride as usize;
            let sge = at + std::mem::offset_of!(ib_xrc_recv_wqe, sge);
            self.put(at + std::mem::offset_of!(ib_xrc_recv_wqe, wr_id), index);
            self.put(at + std::mem::offset_of!(ib_xrc_recv_wqe, num_sge), 1);
            let address = sge + std::mem::offset_of!(ib_uverbs_sge, addr);
            self.put(address, addr as u32);
            self.put(address + 4, (addr >> 32) as u32);
            self.put(sge + std::mem::offset_of!(ib_uverbs_sge, length), len);
            self.put(PRODUCER, index.wrapping_add(1));
        }
    }

    /// Takes all completions, and arms the CQ. How many there were.
    pub fn take(&self, arm: u32) -> u32 {
        self.put(ARM, arm);
        // The producer's index is the first word.
        let producer = self.get(0);
        let taken = producer.wrapping_sub(self.get(CONSUMER));
        self.put(CONSUMER, producer);
        // Unless somebody has written there.
        taken.min(self.entries)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Type invariant; nothing refers to it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
