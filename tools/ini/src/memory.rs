// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Registered memory.

use std::{ops::Range, ptr::NonNull};

use ibxrc::verbs::*;

use crate::{device::Device, Error, Result};

/// # Invariants
///
/// `base` is a boxed slice of `len` bytes, registered as `mr`.
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
    mr: NonNull<ibv_mr>,
    // Its PD has the memory.
    _device: Device,
}

impl Memory {
    /// Zeroes.
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        let base: NonNull<u8> = NonNull::from(Box::leak(vec![0u8; len].into_boxed_slice())).cast();
        // SAFETY: The memory stays until the registration is gone.
        let mr = unsafe {
            ibv_reg_mr(
                device.0.pd.as_ptr(),
                base.as_ptr().cast(),
                len,
                IBV_ACCESS_LOCAL_WRITE as i32,
            )
        };
        let Some(mr) = NonNull::new(mr) else {
            let error = Error::last("register memory");
            // SAFETY: Leaked above.
            drop(unsafe { Box::from_raw(slice_of(base, len)) });
            return Err(error);
        };
        // INVARIANT: Just registered.
        Ok(Memory {
            base,
            len,
            mr,
            _device: device.clone(),
        })
    }

    /// Some of it.
    ///
    /// # Panics
    ///
    /// If it has no such bytes.
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: Type invariant.
        unsafe { &(&*slice_of(self.base, self.len))[range] }
    }

    /// The same, to be written to.
    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        // SAFETY: Type invariant.
        unsafe { &mut (&mut *slice_of(self.base, self.len))[range] }
    }

    /// How a work request names these bytes.
    pub(crate) fn sge(&self, range: Range<usize>) -> ibv_sge {
        let slice = self.slice(range);
        ibv_sge {
            addr: slice.as_ptr() as u64,
            length: slice.len() as u32,
            // SAFETY: Type invariant.
            lkey: unsafe { self.mr.as_ref() }.lkey,
        }
    }
}

fn slice_of(base: NonNull<u8>, len: usize) -> *mut [u8] {
    std::ptr::slice_from_raw_parts_mut(base.as_ptr(), len)
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: Type invariant. What cannot be deregistered must not be freed.
        unsafe {
            if ibv_dereg_mr(self.mr.as_ptr()) == 0 {
                drop(Box::from_raw(slice_of(self.base, self.len)));
            }
        }
    }
}
