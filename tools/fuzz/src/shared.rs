// SPDX-License-Identifier: GPL-2.0

//! What all processes of a run have in common: figures, and what each thread is at.

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use anyhow::{Context, Result};
use rustix::mm::{mmap_anonymous, MapFlags, ProtFlags};

use crate::table::Object;

/// More than there are.
pub const MAX_METHODS: usize = 64;
/// Threads of all processes.
pub const MAX_THREADS: usize = 32;
/// Numbers of objects that processes tell each one.
const PUBLISHED: usize = 16;
/// Words of a thread's record.
const RECORD: usize = 4096;
/// Bytes of the module's code that coverage is kept of.
const CODE: usize = 1 << 22;

/// A thread.
pub struct Thread {
    /// Its process, and its own id; 0 if there is none.
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// Things done so far.
    pub done: AtomicU64,
    /// Which operation of the sequence it is at.
    pub at: AtomicU32,
    /// Bytes of the record.
    recorded: AtomicU32,
    record: [AtomicU64; RECORD],
}

impl Thread {
    /// Leaves behind what it is about to do.
    pub fn record(&self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(RECORD * 8)];
        for (word, chunk) in self.record.iter().zip(bytes.chunks(8)) {
            let mut whole = [b' '; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        self.at.store(0, Relaxed);
        self.recorded.store(bytes.len() as u32, Relaxed);
    }

    /// What it left behind last.
    pub fn recorded(&self) -> String {
        let len = self.recorded.load(Relaxed) as usize;
        let words = self.record[..len.div_ceil(8).min(RECORD)].iter();
        let mut bytes: Vec<u8> = words
            .flat_map(|word| word.load(Relaxed).to_ne_bytes())
            .collect();
        bytes.truncate(len);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// How often a method succeeded and failed.
pub struct Tally {
    pub good: AtomicU64,
    pub bad: AtomicU64,
}

/// All of it. Zeroes are a valid value.
pub struct Shared {
    /// Set when all are to end.
    pub stop: AtomicBool,
    pub methods: [Tally; MAX_METHODS],
    /// Calls of what is no method.
    pub strangers: AtomicU64,
    /// By errno; 0 is success.
    pub errnos: [AtomicU64; 256],
    /// Other system calls on files of the module.
    pub others: AtomicU64,
    /// Work requests posted by senders, and completions taken from CQs.
    pub sends: AtomicU64,
    pub completions: AtomicU64,
    pub forks: AtomicU64,
    pub threads: [Thread; MAX_THREADS],
    published: [[AtomicU32; PUBLISHED]; Object::ALL.len()],
    next: AtomicU32,
    /// Sequences that covered something new.
    pub kept: AtomicU64,
    /// Places in the module that were covered.
    pub covered: AtomicU64,
    coverage: [AtomicU64; CODE / 64],
}

impl Shared {
    /// Makes one, for the children of this process too.
    pub fn create() -> Result<&'static Shared> {
        // SAFETY: A new mapping.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        };
        let start = start.context("no memory to be shared")?;
        let shared = NonNull::new(start.cast::<Shared>()).context("mapped at 0")?;
        // SAFETY: It is as long, has zeroes or what others wrote through this type, which is
        // atomics only, and stays mapped for good.
        Ok(unsafe { shared.as_ref() })
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.errnos.iter().map(|n| n.load(Relaxed)).sum()
    }

    /// Tells the others of an object.
    pub fn publish(&self, object: Object, number: u32) {
        let next = self.next.fetch_add(1, Relaxed) as usize;
        self.published[object as usize][next % PUBLISHED].store(number, Relaxed);
    }

    /// An object of anybody's.
    pub fn published(&self, object: Object, which: u8) -> u32 {
        self.published[object as usize][usize::from(which) % PUBLISHED].load(Relaxed)
    }

    /// Offsets in the module's code that were run.
    pub fn coverage(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CODE)
            .filter(|offset| self.coverage[offset / 64].load(Relaxed) & (1 << (offset % 64)) != 0)
    }

    /// Takes note that the code at this offset was run. Whether that is new.
    pub fn cover(&self, offset: usize) -> bool {
        let Some(word) = self.coverage.get(offset / 64) else {
            return false;
        };
        let bit = 1 << (offset % 64);
        if word.load(Relaxed) & bit != 0 || word.fetch_or(bit, Relaxed) & bit != 0 {
            return false;
        }
        self.covered.fetch_add(1, Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let one = Shared::create().unwrap();
        one.threads[3].record("abcdefghijk");
        assert_eq!(one.threads[3].recorded(), "abcdefghijk");
        one.publish(Object::Srq, 7);
        assert_eq!(one.published(Object::Srq, 0), 7);
        assert!(one.cover(100));
        assert!(!one.cover(100));
        assert!(!one.cover(CODE));
        assert_eq!(one.covered.load(Relaxed), 1);
        assert!(one.coverage().eq([100]));
    }
}
