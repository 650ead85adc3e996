// SPDX-License-Identifier: GPL-2.0

//! Allocations, from the heap, so that a sanitizer knows where they end.

use std::{alloc::Layout, ptr::NonNull};

use crate::{
    error::{Result, ENOMEM},
    page::Page,
};

use self::{allocator::Vmalloc, flags::Flags};

/// Where memory is.
pub struct NumaNode;

impl NumaNode {
    /// Anywhere.
    pub const NO_NODE: Self = Self;
}

/// What an allocation may do.
pub mod flags {
    use std::ops::BitOr;

    /// Some of these.
    #[derive(Clone, Copy, Debug)]
    pub struct Flags;

    impl BitOr for Flags {
        type Output = Self;

        fn bitor(self, _: Self) -> Self {
            self
        }
    }

    /// It is charged to the calling process.
    pub const GFP_KERNEL_ACCOUNT: Flags = Flags;
    /// It is zeroed, which here all are.
    pub const __GFP_ZERO: Flags = Flags;
}

/// Who allocates.
pub mod allocator {
    /// Whole pages.
    pub struct Vmalloc;
}

/// Something that allocates.
///
/// # Safety
///
/// As the kernel's.
pub unsafe trait Allocator {
    /// Allocates.
    fn alloc(layout: Layout, flags: Flags, node: NumaNode) -> Result<NonNull<[u8]>>;

    /// Frees.
    ///
    /// # Safety
    ///
    /// It was allocated here with this layout.
    unsafe fn free(base: NonNull<u8>, layout: Layout);
}

// SAFETY: It is the heap.
unsafe impl Allocator for Vmalloc {
    fn alloc(layout: Layout, _: Flags, _: NumaNode) -> Result<NonNull<[u8]>> {
        assert_ne!(layout.size(), 0);
        // SAFETY: It is not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(ENOMEM)?;
        Ok(NonNull::slice_from_raw_parts(base, layout.size()))
    }

    unsafe fn free(base: NonNull<u8>, layout: Layout) {
        // SAFETY: The caller's word.
        unsafe { std::alloc::dealloc(base.as_ptr(), layout) };
    }
}

impl Vmalloc {
    /// The page at `base`.
    ///
    /// # Safety
    ///
    /// It is one of an allocation that lives.
    pub unsafe fn to_page(base: NonNull<u8>) -> Page {
        Page(base)
    }
}
