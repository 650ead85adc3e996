// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Registered memory of an INI QP: headers, and copies of inline data.

use std::ptr::{self, NonNull};

use super::libibverbs::Libibverbs;
use crate::{
    error::{Errno, Error, Result},
    verbs::*,
    wire::HEADER_LEN,
};

/// # Invariants
///
/// `base` is a boxed slice of `len` bytes, registered as `mr`: `headers` headers, then
/// `copies` areas of `copy_len` bytes.
pub(super) struct Memory {
    base: NonNull<u8>,
    len: usize,
    mr: NonNull<ibv_mr>,
    headers: u64,
    copies: u64,
    copy_len: usize,
    lib: &'static Libibverbs,
}

// SAFETY: It owns everything, and libibverbs is thread-safe.
unsafe impl Send for Memory {}

impl Memory {
    /// EINVAL: that is too much. ENOMEM.
    ///
    /// # Safety
    ///
    /// `pd` is good for as long as the memory is.
    pub(super) unsafe fn new(
        lib: &'static Libibverbs,
        pd: *mut ibv_pd,
        headers: u32,
        copies: u32,
        copy_len: u32,
    ) -> Result<Self> {
        let what = "register memory for an INI QP";
        let no_memory = Error::System {
            what,
            errno: Errno::ENOMEM,
        };
        let (headers, copies, copy_len) = (headers.max(1), u64::from(copies), copy_len as usize);
        let len = (copies as usize)
            .checked_mul(copy_len)
            .and_then(|n| n.checked_add(headers as usize * HEADER_LEN))
            .ok_or_else(|| Error::invalid("so much inline data has no room in memory"))?;
        let mut memory = Vec::new();
        if memory.try_reserve_exact(len).is_err() {
            return Err(no_memory);
        }
        memory.resize(len, 0u8);
        let boxed = Box::into_raw(memory.into_boxed_slice());
        // SAFETY: The memory stays until the registration is gone.
        let mr = unsafe { (lib.reg_mr)(pd, boxed.cast(), len, IBV_ACCESS_LOCAL_WRITE as i32) };
        let (Some(mr), Some(base)) = (NonNull::new(mr), NonNull::new(boxed.cast())) else {
            let errno = std::io::Error::last_os_error().raw_os_error();
            // SAFETY: Of the box.
            drop(unsafe { Box::from_raw(boxed) });
            return Err(Error::System {
                what,
                errno: errno.map_or(Errno::ENOMEM, Errno::from_raw),
            });
        };
        // INVARIANT: Just registered.
        Ok(Memory {
            base,
            len,
            mr,
            headers: headers.into(),
            copies,
            copy_len,
            lib,
        })
    }

    fn sge(&self, start: usize, length: usize) -> ibv_sge {
        ibv_sge {
            addr: self.base.as_ptr() as u64 + start as u64,
            length: length as u32,
            // SAFETY: Type invariant.
            lkey: unsafe { self.mr.as_ref() }.lkey,
        }
    }

    /// Stores the header of the step of this number; so many steps are outstanding at most
    /// as there are headers.
    pub(super) fn store_header(&mut self, number: u64, header: [u8; HEADER_LEN]) -> ibv_sge {
        let start = (number % self.headers) as usize * HEADER_LEN;
        // SAFETY: Inside of the memory. The step that had it before is done.
        unsafe {
            ptr::copy_nonoverlapping(header.as_ptr(), self.base.as_ptr().add(start), HEADER_LEN);
        }
        self.sge(start, HEADER_LEN)
    }

    /// EINVAL: so much inline data is too long.
    pub(super) fn has_area_for(&self, sges: &[ibv_sge]) -> Result<()> {
        let len: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        match len <= self.copy_len as u64 {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "{len} bytes of inline data, where the INI QP was made for {}",
                self.copy_len
            ))),
        }
    }

    /// Copies inline data, for which there is an area, of the request of this number. As many
    /// are outstanding at most as there are areas.
    ///
    /// # Safety
    ///
    /// The memory that `sges` names may be read.
    pub(super) unsafe fn copy(&mut self, number: u64, sges: &[ibv_sge]) -> ibv_sge {
        let area = (number % self.copies.max(1)) as usize;
        let start = self.headers as usize * HEADER_LEN + area * self.copy_len;
        let mut at = start;
        for sge in sges {
            // SAFETY: The caller's word; and inside of the area, whose last request is done.
            unsafe {
                ptr::copy(
                    sge.addr as *const u8,
                    self.base.as_ptr().add(at),
                    sge.length as usize,
                );
            }
            at += sge.length as usize;
        }
        self.sge(start, at - start)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: Type invariant. What cannot be deregistered must not be freed.
        unsafe {
            if (self.lib.dereg_mr)(self.mr.as_ptr()) == 0 {
                let slice = ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len);
                drop(Box::from_raw(slice));
            }
        }
    }
}
