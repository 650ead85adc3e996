// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Has the kernel see the real descriptor for asynchronous events.
//!
//! The program finds one of ours in `async_fd`, see [`crate::events`]. libibverbs passes the
//! same on to the kernel with all that may have events, wherever in it or in a provider that
//! is made, and the kernel takes none but its own.

use std::{
    ffi::{c_int, c_ulong, c_void},
    mem,
    os::fd::RawFd,
    ptr::NonNull,
    slice,
    sync::{OnceLock, PoisonError, RwLock, RwLockWriteGuard},
};

use crate::sys::uverbs::{
    ib_uverbs_attr, ib_uverbs_ioctl_hdr, IBXRC_RDMA_VERBS_IOCTL, UVERBS_ATTR_CREATE_CQ_EVENT_FD,
    UVERBS_ATTR_CREATE_QP_EVENT_FD, UVERBS_ATTR_CREATE_SRQ_EVENT_FD,
    UVERBS_ATTR_CREATE_WQ_EVENT_FD, UVERBS_METHOD_CQ_CREATE, UVERBS_METHOD_QP_CREATE,
    UVERBS_METHOD_SRQ_CREATE, UVERBS_METHOD_WQ_CREATE, UVERBS_OBJECT_CQ, UVERBS_OBJECT_QP,
    UVERBS_OBJECT_SRQ, UVERBS_OBJECT_WQ,
};

/// What makes objects that have events: object, method, and the attribute with the
/// descriptor.
const CREATE: [(u32, u32, u32); 4] = [
    (
        UVERBS_OBJECT_CQ,
        UVERBS_METHOD_CQ_CREATE,
        UVERBS_ATTR_CREATE_CQ_EVENT_FD,
    ),
    (
        UVERBS_OBJECT_QP,
        UVERBS_METHOD_QP_CREATE,
        UVERBS_ATTR_CREATE_QP_EVENT_FD,
    ),
    (
        UVERBS_OBJECT_SRQ,
        UVERBS_METHOD_SRQ_CREATE,
        UVERBS_ATTR_CREATE_SRQ_EVENT_FD,
    ),
    (
        UVERBS_OBJECT_WQ,
        UVERBS_METHOD_WQ_CREATE,
        UVERBS_ATTR_CREATE_WQ_EVENT_FD,
    ),
];

/// Which descriptor of ours stands for which.
static FDS: RwLock<Vec<(RawFd, RawFd)>> = RwLock::new(Vec::new());

pub(crate) type WriteGuard = RwLockWriteGuard<'static, Vec<(RawFd, RawFd)>>;

/// Which descriptors there are does not change as long as the guard is there.
pub(crate) fn write() -> WriteGuard {
    FDS.write().unwrap_or_else(PoisonError::into_inner)
}

/// The program has `ours`, the kernel is to see `real`.
pub(crate) fn stand_for(ours: RawFd, real: RawFd) {
    write().push((ours, real));
}

/// The descriptor is about to be closed.
pub(crate) fn forget(ours: RawFd) {
    write().retain(|&(fd, _)| fd != ours);
}

fn real_fd(fd: i64) -> Option<RawFd> {
    let fds = FDS.read().unwrap_or_else(PoisonError::into_inner);
    fds.iter()
        .find(|&&(ours, _)| i64::from(ours) == fd)
        .map(|&(_, real)| real)
}

type Ioctl = unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int;

fn next() -> Ioctl {
    static NEXT: OnceLock<Ioctl> = OnceLock::new();
    *NEXT.get_or_init(|| {
        // SAFETY: A string.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ioctl".as_ptr()) };
        match NonNull::new(next) {
            // SAFETY: The function has this type; the last argument is passed like any other.
            Some(next) => unsafe { mem::transmute::<NonNull<c_void>, Ioctl>(next) },
            None => syscall,
        }
    })
}

unsafe extern "C" fn syscall(fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int {
    // SAFETY: The caller's word.
    unsafe { libc::syscall(libc::SYS_ioctl, fd, request, arg) as c_int }
}

/// # Safety
///
/// See ioctl(2).
pub(crate) unsafe fn call(fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int {
    let found = match request == IBXRC_RDMA_VERBS_IOCTL {
        // SAFETY: The caller's word: that is what this request has.
        true => unsafe { event_fd(arg.cast()) },
        false => None,
    };
    let Some((attr, real)) = found else {
        // SAFETY: The caller's word.
        return unsafe { next()(fd, request, arg) };
    };
    let ours = attr.__bindgen_anon_1;
    attr.__bindgen_anon_1.data_s64 = real.into();
    // SAFETY: As above.
    let result = unsafe { next()(fd, request, arg) };
    attr.__bindgen_anon_1 = ours;
    result
}

/// The attribute with a descriptor of ours, and the real one, if the call has such.
///
/// # Safety
///
/// A command as the kernel wants it, or NULL.
unsafe fn event_fd<'a>(hdr: *mut ib_uverbs_ioctl_hdr) -> Option<(&'a mut ib_uverbs_attr, RawFd)> {
    let (object, method, count) = {
        // SAFETY: The caller's word.
        let hdr = unsafe { hdr.as_ref() }?;
        (
            hdr.object_id.into(),
            hdr.method_id.into(),
            hdr.num_attrs.into(),
        )
    };
    let &(_, _, id) = CREATE
        .iter()
        .find(|&&(o, m, _)| (o, m) == (object, method))?;
    // SAFETY: As above: so many follow.
    let attrs = unsafe { slice::from_raw_parts_mut(hdr.add(1).cast::<ib_uverbs_attr>(), count) };
    let attr = attrs
        .iter_mut()
        .find(|attr| u32::from(attr.attr_id) == id)?;
    // SAFETY: It is the number of a descriptor.
    let real = real_fd(unsafe { attr.__bindgen_anon_1.data_s64 })?;
    Some((attr, real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Command {
        hdr: ib_uverbs_ioctl_hdr,
        attrs: [ib_uverbs_attr; 2],
    }

    fn command(object: u32, method: u32, id: u32, fd: i64) -> Command {
        let mut command = Command {
            hdr: Default::default(),
            attrs: Default::default(),
        };
        command.hdr.object_id = object as u16;
        command.hdr.method_id = method as u16;
        command.hdr.num_attrs = 2;
        // Another attribute may have the same value.
        command.attrs[0].attr_id = id as u16 + 1;
        command.attrs[0].__bindgen_anon_1.data_s64 = fd;
        command.attrs[1].attr_id = id as u16;
        command.attrs[1].__bindgen_anon_1.data_s64 = fd;
        command
    }

    fn found(command: &mut Command) -> Option<(usize, RawFd)> {
        let base = command.attrs.as_ptr() as usize;
        // SAFETY: It is one.
        let found = unsafe { event_fd((&raw mut *command).cast()) };
        found.map(|(attr, fd)| (&raw const *attr as usize - base, fd))
    }

    #[test]
    fn the_kernel_sees_the_real_descriptor() {
        stand_for(1_000_001, 7);
        for (object, method, id) in CREATE {
            let second = size_of::<ib_uverbs_attr>();
            let mut ours = command(object, method, id, 1_000_001);
            assert_eq!(found(&mut ours), Some((second, 7)));
            assert_eq!(found(&mut command(object, method, id, 1_000_002)), None);
            assert_eq!(found(&mut command(object, method + 1, id, 1_000_001)), None);
        }
        forget(1_000_001);
        let (object, method, id) = CREATE[0];
        assert_eq!(found(&mut command(object, method, id, 1_000_001)), None);
        // SAFETY: NULL is none.
        assert!(unsafe { event_fd(std::ptr::null_mut()) }.is_none());
    }
}
