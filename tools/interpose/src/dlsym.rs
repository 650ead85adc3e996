// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! dlsym(3) and dlvsym(3), for programs that load libibverbs themselves: what they ask its
//! handle for is not ours, as it is for those that are linked with it.
//!
//! `RTLD_NEXT` and `RTLD_DEFAULT` mean something else for each caller, which dlsym(3) tells
//! by the address that it returns to. So ours does not call it then, but jumps to it. It may
//! run before anything else of this library, and in any thread.

use std::{
    ffi::{c_char, c_void, CStr},
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::{exports, next, real};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// In the registers for results: what was found, or else where to go on.
#[repr(C)]
pub(crate) struct Answer {
    found: *mut c_void,
    jump: *mut c_void,
}

/// A function that was looked up.
struct Original {
    name: &'static CStr,
    place: AtomicPtr<c_void>,
}

static DLSYM: Original = Original::new(c"dlsym");
static DLVSYM: Original = Original::new(c"dlvsym");

impl Original {
    const fn new(name: &'static CStr) -> Self {
        Original {
            name,
            place: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn get(&self) -> *mut c_void {
        let known = self.place.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = next::find(self.name);
        if found.is_null() {
            // Without the C library there is no program.
            std::process::abort();
        }
        self.place.store(found, Ordering::Relaxed);
        found
    }
}

/// dlsym(3) of the C library.
///
/// # Safety
///
/// A handle of dlopen(3) and a string.
pub(crate) unsafe fn dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: The function has this type.
    let dlsym = unsafe { mem::transmute::<*mut c_void, Dlsym>(DLSYM.get()) };
    // SAFETY: The caller's word.
    unsafe { dlsym(handle, name.as_ptr()) }
}

fn depends_on_caller(handle: *mut c_void) -> bool {
    handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT
}

/// # Safety
///
/// See dlsym(3).
unsafe extern "C" fn ibxrc_dlsym(handle: *mut c_void, name: *const c_char) -> Answer {
    let jump = DLSYM.get();
    if depends_on_caller(handle) {
        return Answer {
            found: ptr::null_mut(),
            jump,
        };
    }
    // SAFETY: The function has this type, and the caller's word.
    let found = unsafe { mem::transmute::<*mut c_void, Dlsym>(jump)(handle, name) };
    // SAFETY: The caller's word.
    unsafe { answer(name, found) }
}

/// # Safety
///
/// See dlvsym(3).
unsafe extern "C" fn ibxrc_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> Answer {
    let jump = DLVSYM.get();
    // SAFETY: The function has this type.
    let dlvsym = unsafe { mem::transmute::<*mut c_void, Dlvsym>(jump) };
    // SAFETY: The caller's word.
    if handle == libc::RTLD_DEFAULT && unsafe { is_ours(name) } {
        // Ours have no versions, and this asks for what has one.
        // SAFETY: As above.
        let found = unsafe { dlvsym(real::library(), name, version) };
        // SAFETY: As above.
        return unsafe { answer(name, found) };
    }
    if depends_on_caller(handle) {
        return Answer {
            found: ptr::null_mut(),
            jump,
        };
    }
    // SAFETY: As above.
    let found = unsafe { dlvsym(handle, name, version) };
    // SAFETY: As above.
    unsafe { answer(name, found) }
}

/// # Safety
///
/// A string.
unsafe fn is_ours(name: *const c_char) -> bool {
    // SAFETY: The caller's word.
    exports::find(unsafe { CStr::from_ptr(name) }).is_some()
}

/// What to tell when `found` is what there is: ours in place of that of libibverbs.
///
/// # Safety
///
/// `name` is a string, if something was found.
unsafe fn answer(name: *const c_char, found: *mut c_void) -> Answer {
    let ours = || {
        // SAFETY: The caller's word.
        let name = unsafe { CStr::from_ptr(name) };
        // Of nearly all others that is told by their names.
        let ours = exports::find(name)?;
        // Another version of it, or that of another library, is none of our business.
        (real::address(name) == found).then_some(ours)
    };
    Answer {
        found: match found.is_null() {
            true => found,
            false => ours().unwrap_or(found),
        },
        jump: ptr::null_mut(),
    }
}

// Each calls the function above with its own arguments, and returns what was found, or
// jumps to where it is told, with its own arguments and stack.
#[cfg(all(not(test), target_arch = "x86_64"))]
std::arch::global_asm!(
    ".macro ibxrc_dlsym_entry name, function",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    "endbr64",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "call \\function",
    "mov rcx, rdx",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "test rcx, rcx",
    "jz 1f",
    "jmp rcx",
    "1:",
    "ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "ibxrc_dlsym_entry dlsym, {dlsym}",
    "ibxrc_dlsym_entry dlvsym, {dlvsym}",
    dlsym = sym ibxrc_dlsym,
    dlvsym = sym ibxrc_dlvsym,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_caller_is_passed_on() {
        for handle in [libc::RTLD_NEXT, libc::RTLD_DEFAULT] {
            // SAFETY: Strings.
            let (by_name, by_version) = unsafe {
                (
                    ibxrc_dlsym(handle, c"getpid".as_ptr()),
                    ibxrc_dlvsym(handle, c"getpid".as_ptr(), c"GLIBC_2.2.5".as_ptr()),
                )
            };
            assert!(by_name.found.is_null() && by_version.found.is_null());
            assert_eq!(by_name.jump, libc::dlsym as *mut c_void);
            assert_eq!(by_version.jump, next::find(c"dlvsym"));
        }
    }

    #[test]
    fn what_is_not_of_libibverbs_is_as_ever() {
        // SAFETY: Strings, and a handle of the program itself.
        unsafe {
            let program = libc::dlopen(ptr::null(), libc::RTLD_NOW);
            for name in [c"getpid", c"there_is_no_such_function"] {
                let answer = ibxrc_dlsym(program, name.as_ptr());
                assert_eq!(answer.found, libc::dlsym(program, name.as_ptr()));
                assert!(answer.jump.is_null());
            }
        }
    }
}
