// SPDX-License-Identifier: GPL-2.0

//! Address spaces.

/// Mappings.
pub mod virt {
    use std::cell::{Cell, RefCell};

    use crate::{
        error::{Result, EINVAL},
        page::Page,
    };

    /// What a mapping is.
    pub mod flags {
        /// Changes are seen by others.
        pub const SHARED: usize = 8;
        /// It may become executable.
        pub const MAYEXEC: usize = 0x40;
        /// It is executable.
        pub const EXEC: usize = 4;
        /// mremap(2) does not make it longer.
        pub const DONTEXPAND: usize = 0x40000;
        /// A child does not have it.
        pub const DONTCOPY: usize = 0x20000;
    }

    /// `struct vm_area_struct`
    pub struct VmArea {
        /// Where in the file it begins, in pages.
        pub vm_pgoff: usize,
    }

    /// A mapping that is being made.
    pub struct VmaNew {
        area: VmArea,
        start: usize,
        end: usize,
        flags: Cell<usize>,
        pages: RefCell<Vec<(usize, *mut u8)>>,
    }

    impl VmaNew {
        /// Makes one.
        pub fn new(start: usize, len: usize, flags: usize, vm_pgoff: usize) -> Self {
            VmaNew {
                area: VmArea { vm_pgoff },
                start,
                end: start + len,
                flags: Cell::new(flags),
                pages: RefCell::default(),
            }
        }

        /// What was mapped: where, and which page.
        pub fn pages(&self) -> Vec<(usize, *mut u8)> {
            self.pages.borrow().clone()
        }

        /// Its first address.
        pub fn start(&self) -> usize {
            self.start
        }

        /// The first address behind it.
        pub fn end(&self) -> usize {
            self.end
        }

        /// What it is.
        pub fn flags(&self) -> usize {
            self.flags.get()
        }

        /// The C structure.
        pub fn as_ptr(&self) -> *const VmArea {
            &self.area
        }

        /// Has it never be executable.
        pub fn try_clear_mayexec(&self) -> Result {
            if self.flags() & flags::EXEC != 0 {
                return Err(EINVAL);
            }
            self.flags.set(self.flags() & !flags::MAYEXEC);
            Ok(())
        }

        /// Has it not grow.
        pub fn set_dontexpand(&self) {
            self.flags.set(self.flags() | flags::DONTEXPAND);
        }

        /// Has children be without it.
        pub fn set_dontcopy(&self) {
            self.flags.set(self.flags() | flags::DONTCOPY);
        }

        /// Has it take pages.
        pub fn set_mixedmap(&self) -> &Self {
            self
        }

        /// Maps a page.
        pub fn vm_insert_page(&self, addr: usize, page: &Page) -> Result {
            assert!((self.start..self.end).contains(&addr));
            self.pages.borrow_mut().push((addr, page.0.as_ptr()));
            Ok(())
        }
    }
}
