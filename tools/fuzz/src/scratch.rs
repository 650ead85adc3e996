// SPDX-License-Identifier: GPL-2.0

//! Memory that the calls of a thread point to, with holes where nothing is mapped.

use std::ptr::NonNull;

use anyhow::{Context, Result};
use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};

use crate::op::Bad;

const PAGE: usize = 4096;
/// In pages from the start. Behind each of them nothing is mapped.
const MESSAGE: usize = 0;
const INPUT: usize = 2;
const OUTPUT: usize = 5;
const READ_ONLY: usize = 22;
const PAGES: usize = 24;

const INPUT_LEN: usize = 2 * PAGE;
const OUTPUT_LEN: usize = 16 * PAGE;
const HOLES: [usize; 4] = [MESSAGE + 1, INPUT + 2, OUTPUT + 16, READ_ONLY + 1];

/// Where a message is to be.
#[derive(Clone, Copy)]
pub enum Where {
    Start,
    /// So many bytes of it are behind the end.
    End(usize),
}

/// # Invariants
///
/// `start` is that of `PAGES` pages, of which all but the holes may be read, and all but the
/// read-only one written. They are never unmapped.
pub struct Scratch {
    start: NonNull<u8>,
    /// Bytes of inputs, and pages of outputs, in use.
    input: usize,
    output: usize,
    /// Where the message is in its page.
    message: usize,
}

impl Scratch {
    pub fn new() -> Result<Self> {
        // SAFETY: A new mapping.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                PAGES * PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let start = NonNull::new(start.context("no memory")?.cast()).context("mapped at 0")?;
        // INVARIANT: Just mapped, and what follows makes it true.
        let scratch = Scratch {
            start,
            input: 0,
            output: 0,
            message: 0,
        };
        let protect = |page, flags| {
            // SAFETY: A page of that memory, which nobody refers to.
            unsafe { mprotect(scratch.page(page).cast(), PAGE, flags) }.context("mprotect")
        };
        for hole in HOLES {
            protect(hole, MprotectFlags::empty())?;
        }
        protect(READ_ONLY, MprotectFlags::READ)?;
        Ok(scratch)
    }

    fn page(&self, page: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(page * PAGE)
    }

    /// For another call.
    pub fn begin(&mut self) {
        self.input = 0;
        self.output = 0;
    }

    /// Where a pointer that is no good points.
    pub fn bad(&self, bad: Bad) -> u64 {
        let end = self.page(OUTPUT + 16) as u64;
        match bad {
            Bad::Null => 0,
            Bad::Unmapped => end + 8,
            Bad::End(n) => end - u64::from(n),
            Bad::ReadOnly => self.page(READ_ONLY) as u64,
            Bad::Kernel => 0xffff_8880_0000_1000,
            Bad::NotCanonical => 1 << 47,
        }
    }

    /// Puts an input somewhere.
    pub fn input(&mut self, bytes: &[u8]) -> u64 {
        let bytes = &bytes[..bytes.len().min(INPUT_LEN)];
        if self.input + bytes.len() > INPUT_LEN {
            self.input = 0;
        }
        let to = self.page(INPUT).wrapping_add(self.input);
        // SAFETY: Type invariant, and there is room.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // Structures are aligned.
        self.input = (self.input + bytes.len()).next_multiple_of(8);
        to as u64
    }

    /// Room for an output.
    pub fn output(&mut self) -> u64 {
        let page = OUTPUT + self.output % (OUTPUT_LEN / PAGE);
        self.output += 1;
        self.page(page) as u64
    }

    /// What is in room for an output.
    pub fn result<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let offset = address.checked_sub(self.page(OUTPUT) as u64)? as usize;
        if offset.checked_add(N)? > OUTPUT_LEN {
            return None;
        }
        let from = self.page(OUTPUT).wrapping_add(offset);
        // SAFETY: Type invariant; the kernel writes there during this thread's calls only.
        Some(unsafe { from.cast::<[u8; N]>().read_unaligned() })
    }

    /// Puts the message somewhere, as far as there is memory.
    pub fn message(&mut self, bytes: &[u8], place: Where) -> *mut u8 {
        let offset = match place {
            Where::Start => 0,
            Where::End(behind) => PAGE - bytes.len().saturating_sub(behind).min(PAGE),
        };
        let to = self.page(MESSAGE).wrapping_add(offset);
        let len = bytes.len().min(PAGE - offset);
        // SAFETY: Type invariant, and there is room.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
        self.message = offset;
        to
    }

    /// What has become of the message, as far as there is memory.
    pub fn reply(&self, bytes: &mut [u8]) {
        let from = self.page(MESSAGE).wrapping_add(self.message);
        let len = bytes.len().min(PAGE - self.message);
        // SAFETY: Type invariant, and it is in the page.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from, len) };
    }
}
