// SPDX-License-Identifier: GPL-2.0

//! Pages.

use std::ptr::NonNull;

/// Bits of an address in a page.
pub const PAGE_SHIFT: usize = 12;
/// Bytes of a page.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// A page, by where the kernel has it.
pub struct Page(pub NonNull<u8>);

/// Rounds up.
pub fn page_align(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(PAGE_SIZE)
}
