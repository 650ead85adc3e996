// SPDX-License-Identifier: GPL-2.0

//! Which code of the module a thread's calls run: Documentation/dev-tools/kcov.rst.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use anyhow::{Context, Result};
use rustix::mm::{mmap, MapFlags, ProtFlags};

use crate::shared::Shared;

const PATH: &str = "/sys/kernel/debug/kcov";
const KCOV_INIT_TRACE: libc::Ioctl = 0x8008_6301u32 as libc::Ioctl;
const KCOV_ENABLE: libc::Ioctl = 0x6364;
const KCOV_TRACE_PC: libc::c_ulong = 0;
/// Words of the buffer: the number of those that follow, and these.
const WORDS: usize = 1 << 15;

/// # Invariants
///
/// `words` is that of `WORDS` words, mapped for good.
pub struct Kcov {
    words: NonNull<AtomicU64>,
    /// Where the module's code begins.
    code: u64,
}

impl Kcov {
    /// Whether the kernel can tell.
    pub fn is_there() -> bool {
        fs::exists(PATH).unwrap_or(false)
    }

    /// For the thread that calls this, from now on.
    pub fn start() -> Result<Kcov> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(PATH)
            .with_context(|| format!("cannot open {PATH}"))?;
        let text = fs::read_to_string("/sys/module/ib_xrc/sections/.text")
            .context("cannot see where the module is")?;
        let code = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16)
            .context("odd address of the module")?;
        let failed = |what| move || format!("{what}: {}", std::io::Error::last_os_error());
        // SAFETY: It takes a number.
        let rc = unsafe { libc::ioctl(file.as_raw_fd(), KCOV_INIT_TRACE, WORDS) };
        anyhow::ensure!(rc == 0, failed("KCOV_INIT_TRACE")());
        // SAFETY: A new mapping.
        let words = unsafe {
            mmap(
                std::ptr::null_mut(),
                WORDS * 8,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let words = NonNull::new(words.context("cannot map kcov's buffer")?.cast());
        // SAFETY: It takes a number.
        let rc = unsafe { libc::ioctl(file.as_raw_fd(), KCOV_ENABLE, KCOV_TRACE_PC) };
        anyhow::ensure!(rc == 0, failed("KCOV_ENABLE")());
        // It goes with the thread.
        std::mem::forget(file);
        // INVARIANT: Just mapped.
        Ok(Kcov {
            words: words.context("mapped at 0")?,
            code,
        })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: Type invariant.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), WORDS) }
    }

    /// What comes now counts.
    pub fn begin(&self) {
        self.words()[0].store(0, Relaxed);
    }

    /// Whether there was code that nobody has run before.
    pub fn end(&self, shared: &Shared) -> bool {
        let words = self.words();
        let n = words[0].load(Relaxed) as usize;
        let mut new = false;
        for word in &words[1..=n.min(WORDS - 1)] {
            let offset = word.load(Relaxed).wrapping_sub(self.code);
            if let Ok(offset) = usize::try_from(offset) {
                new |= shared.cover(offset);
            }
        }
        new
    }
}
