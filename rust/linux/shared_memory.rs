// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel and a process both write to.
//!
//! C headers: [`include/linux/vmalloc.h`](srctree/include/linux/vmalloc.h),
//! [`include/linux/mm.h`](srctree/include/linux/mm.h)

use core::{
    alloc::Layout,
    mem::MaybeUninit,
    ptr::NonNull, //
};

use kernel::{
    alloc::{
        allocator::Vmalloc,
        flags::__GFP_ZERO,
        Allocator,
        NumaNode, //
    },
    mm::virt::{
        flags,
        VmaNew, //
    },
    page::{
        page_align,
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    transmute::{
        AsBytes,
        FromBytes, //
    }, //
};

/// Zeroed pages, contiguous for the kernel, which userspace can map.
///
/// Userspace may change every byte at any time. So there are no references into the memory: what
/// is in it is copied out once and then looked at, and copied in. An offset that is out of range
/// or not aligned for the type is answered by `EINVAL`.
///
/// The pages are charged to the memory cgroup of the process that creates it.
///
/// # Invariants
///
/// `base` is an allocation of [`Vmalloc`] with the layout [`Self::layout`], all of it initialized.
pub(crate) struct SharedMemory {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: The memory may be freed by any thread.
unsafe impl Send for SharedMemory {}
// SAFETY: The memory is only accessed by atomic and volatile accesses.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Allocates `len` bytes, rounded up to whole pages. Sleeps.
    ///
    /// `EINVAL`: `len` is 0, or too large to be a length. `ENOMEM`.
    pub(crate) fn new(len: usize) -> Result<Self> {
        let len = page_align(len).ok_or(EINVAL)?;
        let layout = Layout::from_size_align(len, PAGE_SIZE).map_err(|_| EINVAL)?;

        if len == 0 {
            return Err(EINVAL);
        }

        let base = Vmalloc::alloc(layout, GFP_KERNEL_ACCOUNT | __GFP_ZERO, NumaNode::NO_NODE)?;

        // INVARIANT: Just allocated, and zeroed.
        Ok(Self {
            base: base.cast(),
            layout,
        })
    }

    /// Length in bytes, a multiple of the page size.
    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    /// Maps the memory from its start into `vma`, from an `mmap` file operation.
    ///
    /// The mapping must be `MAP_SHARED` and not longer than the memory (else `EINVAL`), nor
    /// executable (`EPERM`). It holds its pages by itself, so `self` may be dropped before it goes.
    /// A child of fork(2) does not inherit it; mremap(2) cannot make it longer.
    pub(crate) fn map_into(&self, vma: &VmaNew) -> Result {
        let len = vma.end().checked_sub(vma.start()).ok_or(EINVAL)?;

        if vma.flags() & flags::SHARED == 0 || len > self.len() {
            return Err(EINVAL);
        }
        vma.try_clear_mayexec().map_err(|_| EPERM)?;
        // With the first, madvise(2) cannot undo the second.
        vma.set_dontexpand();
        vma.set_dontcopy();

        let mixedmap = vma.set_mixedmap();

        for offset in (0..len).step_by(PAGE_SIZE) {
            // SAFETY: `offset` is below the length of the allocation.
            let page = unsafe { self.base.add(offset) };
            // SAFETY: By the type invariant this is memory of `Vmalloc`, which lives as long as
            // `self` does.
            let page = unsafe { Vmalloc::to_page(page) };

            // Takes a reference to the page. When this fails `mmap` undoes the others.
            mixedmap.vm_insert_page(vma.start().wrapping_add(offset), &page)?;
        }
        Ok(())
    }

    /// A pointer to the `T` at `offset`, aligned and in range.
    fn at<T>(&self, offset: usize) -> Result<NonNull<T>> {
        let end = offset.checked_add(size_of::<T>()).ok_or(EINVAL)?;

        // The base is aligned to a page.
        if end > self.len()
            || offset.checked_rem(align_of::<T>()) != Some(0)
            || align_of::<T>() > PAGE_SIZE
        {
            return Err(EINVAL);
        }

        // SAFETY: `offset` is in the allocation, or at its end.
        Ok(unsafe { self.base.add(offset) }.cast())
    }

    fn atomic(&self, offset: usize) -> Result<&Atomic<u32>> {
        let ptr = self.at::<u32>(offset)?;

        // SAFETY: The pointer is aligned and valid for as long as `self` is. All accesses of the
        // kernel are atomic or volatile, those of userspace are as those of another CPU.
        Ok(unsafe { Atomic::from_ptr(ptr.as_ptr()) })
    }

    /// Reads the `u32` at `offset` before anything that is read later.
    pub(crate) fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        Ok(self.atomic(offset)?.load(Acquire))
    }

    /// Reads the `u32` at `offset`, in no particular order.
    pub(crate) fn load_relaxed_u32(&self, offset: usize) -> Result<u32> {
        Ok(self.atomic(offset)?.load(Relaxed))
    }

    /// Writes the `u32` at `offset` after all that was written before.
    pub(crate) fn store_release_u32(&self, offset: usize, value: u32) -> Result {
        self.atomic(offset)?.store(value, Release);
        Ok(())
    }

    /// Exchanges the `u32` at `offset` for `value`, with a full barrier before and after.
    pub(crate) fn xchg_u32(&self, offset: usize, value: u32) -> Result<u32> {
        Ok(self.atomic(offset)?.xchg(value, Full))
    }

    /// Copies the `T` at `offset` out, once. If userspace writes at the same time, the value may be
    /// a mixture, but does not change any more.
    pub(crate) fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let ptr = self.at::<T>(offset)?;

        // SAFETY: The pointer is aligned and valid, and all bytes are valid for `T`. A volatile
        // access is a copy that is neither repeated nor left out, which is what a race with
        // userspace needs.
        Ok(unsafe { ptr.as_ptr().read_volatile() })
    }

    /// Copies `value` to `offset`.
    pub(crate) fn write<T: AsBytes>(&self, offset: usize, value: &T) -> Result {
        let ptr = self.at::<MaybeUninit<T>>(offset)?;
        let mut bytes = MaybeUninit::<T>::uninit();

        // SAFETY: Both are valid for a `T` and distinct. As `T: AsBytes` has no uninitialized
        // bytes, and `bytes` is not used as a `T`, this is a copy of bytes.
        unsafe { core::ptr::copy_nonoverlapping(value, bytes.as_mut_ptr(), 1) };

        // SAFETY: The pointer is aligned and valid. For the race with userspace see `read()`.
        unsafe { ptr.as_ptr().write_volatile(bytes) };
        Ok(())
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is an allocation of `Vmalloc` with this layout. Pages
        // which are mapped have references of their own.
        unsafe { Vmalloc::free(self.base, self.layout) };
    }
}

/// The offset which userspace gave to mmap(2), in bytes.
pub(crate) fn mmap_offset(vma: &VmaNew) -> u64 {
    // SAFETY: A `VmaNew` is valid and is not shared yet.
    let pages = unsafe { (*vma.as_ptr()).vm_pgoff };

    (pages as u64) << PAGE_SHIFT
}
