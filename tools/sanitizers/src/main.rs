// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Makes the mistake that it is asked for. Built with a sanitizer it must not get away with it:
//! that shows that the sanitizer is there when it says nothing of the other programs.

use std::{cell::UnsafeCell, env, hint::black_box, process::ExitCode, sync::Barrier, thread};

fn use_after_free() {
    let gone = Box::into_raw(Box::new(1u8));
    // SAFETY: It is from a box.
    drop(unsafe { Box::from_raw(gone) });
    // SAFETY: None, it is gone.
    black_box(unsafe { gone.read_volatile() });
}

fn overflow() {
    let bytes = black_box(vec![0u8; 16]);
    // SAFETY: None, it is behind the end.
    black_box(unsafe { bytes.as_ptr().add(bytes.len()).read_volatile() });
}

fn leak() {
    black_box(Box::into_raw(Box::new([0u8; 1000])));
}

struct Shared(UnsafeCell<u32>);

// SAFETY: None, it is not.
unsafe impl Sync for Shared {}

impl Shared {
    fn add(&self) {
        // SAFETY: None, another thread does the same.
        unsafe { *self.0.get() += 1 };
    }
}

fn race() {
    let shared = Shared(UnsafeCell::new(0));
    // The one must be there when the other begins, or may pass for the same thread.
    let both = Barrier::new(2);
    let add = || {
        both.wait();
        shared.add();
    };
    thread::scope(|scope| {
        scope.spawn(add);
        scope.spawn(add);
    });
}

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("none") => (),
        Some("use-after-free") => use_after_free(),
        Some("overflow") => overflow(),
        Some("leak") => leak(),
        Some("race") => race(),
        _ => {
            eprintln!("usage: sanitizers none|use-after-free|overflow|leak|race");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
