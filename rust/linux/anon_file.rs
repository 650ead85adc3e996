// SPDX-License-Identifier: GPL-2.0

//! Files without a name which can be read and polled, as event queues are.
//!
//! C header: [`include/linux/anon_inodes.h`](srctree/include/linux/anon_inodes.h)

use core::any::TypeId;

use kernel::{
    error::from_err_ptr,
    fs::{
        file::flags,
        File,
        LocalFile, //
    },
    iov::IovIterDest,
    module::this_module,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        CondVar, //
    }, //
};

use crate::bindings;

/// An object that userspace reads through a descriptor.
///
/// The file holds the object, and as its operations belong to this module, the module.
pub(crate) trait AnonFile: Send + Sync + Sized + 'static {
    /// What `/proc/PID/fd` shows; in brackets by convention.
    const NAME: &'static CStr;

    /// Reads into `iov` and returns the number of bytes. The file is a stream and has no position.
    ///
    /// With `nonblock`, answers `EAGAIN` instead of sleeping.
    fn read(&self, nonblock: bool, iov: &mut IovIterDest<'_>) -> Result<usize>;

    /// What is notified when [`poll`](Self::poll) may return something else: always the same.
    fn readers(&self) -> &CondVar;

    /// The `POLL*` mask. May sleep.
    fn poll(&self) -> u32;

    /// The last descriptor was closed, or the file was never installed. May sleep.
    ///
    /// Other references to the object may outlive this.
    fn release(&self) {}
}

/// [`AnonFile`] as a trait object can have it.
trait Ops: Send + Sync {
    fn read(&self, nonblock: bool, iov: &mut IovIterDest<'_>) -> Result<usize>;
    fn readers(&self) -> &CondVar;
    fn poll(&self) -> u32;
    fn release(&self);
}

impl<T: AnonFile> Ops for T {
    fn read(&self, nonblock: bool, iov: &mut IovIterDest<'_>) -> Result<usize> {
        AnonFile::read(self, nonblock, iov)
    }

    fn readers(&self) -> &CondVar {
        AnonFile::readers(self)
    }

    fn poll(&self) -> u32 {
        AnonFile::poll(self)
    }

    fn release(&self) {
        AnonFile::release(self);
    }
}

/// The private data of a file.
///
/// All files have the same operations, whatever the type of their object: the address of a generic
/// constant identifies nothing, since the compiler may merge equal ones and duplicate others.
///
/// # Invariants
///
/// `object` is an `Arc<T>` where `type_id` is that of `T`.
struct Private {
    type_id: TypeId,
    object: Arc<dyn Ops>,
}

// The kernel crate lets nobody at the `wait_queue_head` of a `CondVar`. As there is nothing else in it,
// that is where the `CondVar` is.
const _: () = assert!(
    size_of::<CondVar>() == size_of::<bindings::wait_queue_head>(),
    "CondVar is more than its wait_queue_head"
);

/// Lets the operations be in a `static`.
#[repr(transparent)]
struct Operations(bindings::file_operations);

// SAFETY: Nobody writes to it.
unsafe impl Sync for Operations {}

static OPERATIONS: Operations = Operations(bindings::file_operations {
    owner: this_module::<crate::LocalModule>().as_ptr(),
    read_iter: Some(read_iter),
    poll: Some(poll),
    release: Some(release),
    ..pin_init::zeroed()
});

/// A file that no descriptor refers to yet. Dropping it releases the object, from task work or a
/// workqueue.
///
/// # Invariants
///
/// The operations of the file are [`OPERATIONS`].
pub(crate) struct NewFile(ARef<File>);

impl NewFile {
    /// The file, for `FileDescriptorReservation::fd_install()`.
    pub(crate) fn into_file(self) -> ARef<File> {
        self.0
    }
}

/// Makes a file for `object`. Sleeps.
///
/// Fails with `ENFILE` if there are too many files in the system, `ENOMEM`.
pub(crate) fn create<T: AnonFile>(object: Arc<T>) -> Result<NewFile> {
    // INVARIANT: `object` is an `Arc<T>`.
    let private = KBox::new(
        Private {
            type_id: TypeId::of::<T>(),
            object,
        },
        GFP_KERNEL_ACCOUNT,
    )?;
    let private = KBox::into_raw(private);

    // SAFETY: The name is a C string and the operations are static. The private data is what
    // they expect.
    let file = from_err_ptr(unsafe {
        bindings::anon_inode_getfile(
            T::NAME.as_char_ptr(),
            &OPERATIONS.0,
            private.cast(),
            // CAST: 0.
            flags::O_RDONLY as i32,
        )
    })
    .inspect_err(|_| {
        // SAFETY: There is no file, so the box is still ours.
        drop(unsafe { KBox::from_raw(private) });
    })?;

    // SAFETY: Nobody else knows the file yet, and `stream_open()` changes nothing but `f_mode`. It
    // always returns 0.
    unsafe { bindings::stream_open((*file).f_inode, file) };

    // SAFETY: `file` is not null, and we own the reference that `anon_inode_getfile()` returned.
    // As no descriptor refers to it, nobody is inside `fdget_pos()`.
    let file = unsafe { ARef::from_raw(core::ptr::NonNull::new_unchecked(file.cast::<File>())) };

    // INVARIANT: That is what the file was made with.
    Ok(NewFile(file))
}

/// The object of the file which the caller's descriptor `fd` refers to.
///
/// `EBADF`: not an open descriptor, or one of something other than a `T` (as uverbs answers).
pub(crate) fn from_fd<T: AnonFile>(fd: i32) -> Result<Arc<T>> {
    // CAST: A negative number becomes a large one, which is never open.
    let file = LocalFile::fget(fd as u32)?;

    // SAFETY: We hold the file. Its operations are set for good when a descriptor refers to it.
    if unsafe { (*file.as_ptr()).f_op } != &raw const OPERATIONS.0 {
        return Err(EBADF);
    }

    // SAFETY: These are our operations, so the private data is a `Private`, which lives until
    // `release()`. That does not run while we hold the file.
    let private = unsafe { &*(*file.as_ptr()).private_data.cast::<Private>() };

    if private.type_id != TypeId::of::<T>() {
        return Err(EBADF);
    }

    let object = Arc::into_raw(private.object.clone()).cast::<T>();

    // SAFETY: By the type invariant of `Private` this is an `Arc<T>`, and comes from `into_raw()`.
    Ok(unsafe { Arc::from_raw(object) })
}

/// # Safety
///
/// `file` is a file whose operations are [`OPERATIONS`], and is not released during `'a`.
unsafe fn private<'a>(file: *mut bindings::file) -> &'a Private {
    // SAFETY: `create()` has set it, and by the requirement of this function it is not freed yet.
    unsafe { &*(*file).private_data.cast::<Private>() }
}

/// # Safety
///
/// `kiocb` is a valid kiocb of a file with [`OPERATIONS`], `iter` a valid iterator to read into. Both
/// are the caller's during the call.
unsafe extern "C" fn read_iter(
    kiocb: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
) -> isize {
    // SAFETY: The VFS calls this with a valid kiocb.
    let file = unsafe { (*kiocb).ki_filp };
    // SAFETY: The VFS calls this for one of our files, and holds it during the call.
    let private = unsafe { private(file) };
    // SAFETY: The VFS calls this with a valid iterator to read into, which nobody else uses.
    let iov = unsafe { IovIterDest::from_raw(iter) };
    // SAFETY: As above. Reading needs no position, so that `fdget_pos()` does not matter.
    let file = unsafe { LocalFile::from_raw_file(file) };
    // `IOCB_NOWAIT` is only for files with `FMODE_NOWAIT`.
    let nonblock = file.flags() & flags::O_NONBLOCK != 0;

    match private.object.read(nonblock, iov) {
        // CAST: The object wrote that many bytes, so it is below `isize::MAX`.
        Ok(len) => len as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// # Safety
///
/// `file` is a valid file with [`OPERATIONS`], `table` is null or valid, during the call.
unsafe extern "C" fn poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: The VFS calls this for one of our files, and holds it during the call.
    let private = unsafe { private(file) };
    // CAST: That is all that there is in it, see above.
    let readers: *const CondVar = private.object.readers();

    // Whoever polls has an entry in the queue afterwards, and takes it out before he lets go of the
    // file; epoll, which holds no file, when the last one else has: `eventpoll_release()` does that in
    // `__fput()`, before `release()`. So there is no entry when the object goes, and its memory need
    // not stay for a grace period, which `PollCondVar` waits for each time.
    //
    // SAFETY: The VFS passes null or a table that is valid during the call, and the file. The queue is
    // in the object, or lives for longer: `readers()` returns a reference for as long as that is
    // borrowed. The file has a reference to the object until `release()`, and by then nobody has an
    // entry in the queue any more.
    unsafe { bindings::poll_wait(file, readers.cast_mut().cast(), table) };
    private.object.poll()
}

/// # Safety
///
/// `file` is a valid file with [`OPERATIONS`]. This is called once, and nothing after it.
unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: `create()` has set the private data to a box, and this is called once, at the end.
    let private = unsafe { KBox::from_raw((*file).private_data.cast::<Private>()) };

    private.object.release();
    0
}
