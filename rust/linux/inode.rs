// SPDX-License-Identifier: GPL-2.0

//! The identity of open files.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h)

use core::ptr::NonNull;

use kernel::{
    fs::{
        file::flags,
        LocalFile, //
    },
    prelude::*, //
};

use crate::bindings;

/// Names an inode for as long as an [`InodeRef`] on it is held.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InodeKey(usize);

/// A counted reference to the inode of a file that was open when it was made.
///
/// It holds the mount and the dentry as well, as an open file does: an inode that is still in use
/// when its file system is unmounted is freed under its user. (in-tree uverbs holds the inode only,
/// and has that bug.) So the file system cannot be unmounted (`EBUSY`) but by `MNT_DETACH`. It is
/// not the file itself that is held, since closing it has effects of its own, such as on locks.
///
/// # Invariants
///
/// `inode` and `path` are valid, with a reference of their own each.
pub(crate) struct InodeRef {
    inode: NonNull<bindings::inode>,
    path: bindings::path,
    open_mode: u32,
    is_owner: bool,
}

// SAFETY: References to inodes and paths may be dropped by any thread.
unsafe impl Send for InodeRef {}
// SAFETY: The methods only read what does not change while the inode is referenced.
unsafe impl Sync for InodeRef {}

impl InodeRef {
    /// The inode of the caller's descriptor `fd`.
    ///
    /// `EBADF`: not an open descriptor, or one opened with `O_PATH`.
    pub(crate) fn of_fd(fd: i32) -> Result<Self> {
        // CAST: A negative number becomes a large one, which is never open.
        let file = LocalFile::fget(fd as u32)?;

        // SAFETY: We hold the file. Its inode and its path do not change.
        let (inode, path) = unsafe {
            (
                (*file.as_ptr()).f_inode,
                (*file.as_ptr()).__bindgen_anon_1.f_path,
            )
        };
        let inode = NonNull::new(inode).ok_or(EBADF)?;

        // SAFETY: The file holds a reference to its inode, so the count is not zero.
        unsafe { bindings::ihold(inode.as_ptr()) };
        // SAFETY: The file holds its path.
        unsafe { bindings::path_get(&path) };

        // INVARIANT: We just took the references.
        Ok(Self {
            inode,
            path,
            open_mode: file.flags() & flags::O_ACCMODE,
            // SAFETY: We hold the file.
            is_owner: unsafe { bindings::ib_xrc_helper_file_owner_or_capable(file.as_ptr()) },
        })
    }

    /// Whether the file was opened for reading.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.open_mode, flags::O_RDONLY | flags::O_RDWR)
    }

    /// Whether the caller owned the file then, or may do what its owner may.
    pub(crate) fn is_owner(&self) -> bool {
        self.is_owner
    }

    /// Whether the file was opened for writing.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.open_mode, flags::O_WRONLY | flags::O_RDWR)
    }

    /// The identity of the inode, until `self` and all other references to it are dropped.
    pub(crate) fn key(&self) -> InodeKey {
        InodeKey(self.inode.as_ptr().addr())
    }

    /// The number of the inode in its file system.
    pub(crate) fn ino(&self) -> u64 {
        // SAFETY: By the type invariant the inode is valid. The number does not change.
        unsafe { (*self.inode.as_ptr()).i_ino }
    }

    /// The device number of its file system as stat(2) returns it (`new_encode_dev()`).
    pub(crate) fn dev(&self) -> u32 {
        // SAFETY: By the type invariants the inode is valid and its file system is mounted. The
        // number does not change.
        let dev = unsafe { (*(*self.inode.as_ptr()).i_sb).s_dev };

        // SAFETY: Takes any number.
        unsafe { bindings::ib_xrc_helper_new_encode_dev(dev) }
    }
}

impl Drop for InodeRef {
    /// May sleep.
    fn drop(&mut self) {
        // SAFETY: By the type invariants the references are ours. The inode goes first: it must not
        // outlive the mount.
        unsafe {
            bindings::iput(self.inode.as_ptr());
            bindings::path_put(&self.path);
        }
    }
}
