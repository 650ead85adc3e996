// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC domains: ibv_open_xrcd(3).

use std::{
    mem::{self, MaybeUninit},
    os::fd::BorrowedFd,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use ibxrc::{verbs::*, CloseError, XrcdOptions};

use crate::{
    context::{self, Context},
    report,
    table::Table,
};

static XRCDS: Table<Xrcd> = Table::new();

/// What the program has of a domain.
#[repr(C)]
pub(crate) struct Xrcd {
    shell: ibv_xrcd,
    pub(crate) domain: ibxrc::Xrcd,
    /// SRQs and QPs in it.
    users: AtomicUsize,
}

// SAFETY: The pointer is only passed on.
unsafe impl Send for Xrcd {}
// SAFETY: As above.
unsafe impl Sync for Xrcd {}

/// Something in a domain, which keeps it from being closed.
pub(crate) struct Member(&'static Xrcd);

impl Member {
    /// `None`: NULL, or not of this context.
    ///
    /// # Safety
    ///
    /// It is not being closed.
    pub(crate) unsafe fn new(context: *mut ibv_context, xrcd: *const ibv_xrcd) -> Option<Self> {
        // SAFETY: It is not closed as long as it has members.
        let xrcd: &'static Xrcd = unsafe { of(xrcd)? };
        if xrcd.shell.context != context {
            return None;
        }
        xrcd.users.fetch_add(1, Ordering::Relaxed);
        Some(Member(xrcd))
    }

    pub(crate) fn xrcd(&self) -> &Xrcd {
        self.0
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

/// The domain behind what the program has; `None`: it is not ours.
///
/// # Safety
///
/// It is not closed as long as the reference is used.
pub(crate) unsafe fn of<'a>(xrcd: *const ibv_xrcd) -> Option<&'a Xrcd> {
    // SAFETY: It is removed when it is closed.
    unsafe { XRCDS.get(xrcd) }
}

/// The context is being closed: closes its domains.
pub(crate) fn abandon(context: *mut ibv_context) {
    XRCDS.remove_all(|xrcd| xrcd.shell.context == context);
}

/// The context is being closed in a child: its domains are those of another process.
pub(crate) fn disown(context: *mut ibv_context) {
    mem::forget(XRCDS.remove_all(|xrcd| xrcd.shell.context == context));
}

/// # Safety
///
/// See ibv_open_xrcd(3).
pub(crate) unsafe extern "C" fn open(
    verbs: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    // SAFETY: The caller's word.
    let (context, attr) = unsafe { (context::of(verbs), attr.as_ref()) };
    let (Some(context), Some(attr)) = (context, attr) else {
        return report::null(libc::EINVAL);
    };
    // SAFETY: The caller's word.
    match unsafe { open_domain(context, attr) } {
        Ok(domain) => {
            let shell = ibv_xrcd { context: verbs };
            let users = AtomicUsize::new(0);
            let xrcd = Box::new(Xrcd {
                shell,
                domain,
                users,
            });
            let pointer = ptr::from_ref(&*xrcd).cast_mut().cast();
            XRCDS.insert(pointer, xrcd);
            pointer
        }
        Err(errno) => report::null(errno),
    }
}

/// # Safety
///
/// The file is open, if there is one.
unsafe fn open_domain(context: &Context, attr: &ibv_xrcd_init_attr) -> Result<ibxrc::Xrcd, i32> {
    const BOTH: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if attr.comp_mask & !BOTH != 0 {
        return Err(libc::ENOSYS);
    }
    if attr.comp_mask != BOTH {
        return Err(libc::EINVAL);
    }
    let options = XrcdOptions {
        file: match attr.fd {
            -1 => None,
            // SAFETY: The caller's word. If it is not, the kernel says so.
            fd => Some(unsafe { BorrowedFd::borrow_raw(fd) }),
        },
        create: attr.oflags & libc::O_CREAT != 0,
        exclusive: attr.oflags & libc::O_EXCL != 0,
        ..Default::default()
    };
    context
        .module
        .open_xrcd(options)
        .map_err(|error| match error.errno().raw() {
            // The answers to O_CREAT and O_EXCL.
            errno @ (libc::EAGAIN | libc::EINVAL) => errno,
            _ => report::failed("ibv_open_xrcd", &error),
        })
}

/// # Safety
///
/// See ibv_close_xrcd(3).
pub(crate) unsafe extern "C" fn close(xrcd: *mut ibv_xrcd) -> i32 {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(xrcd) }) else {
        return libc::EINVAL;
    };
    if this.users.load(Ordering::Acquire) > 0 {
        return libc::EBUSY;
    }
    // SAFETY: A context with open domains is open.
    if let Some(context) = unsafe { context::of(this.shell.context) } {
        context.regions.leave(this);
    }
    let Some(known) = XRCDS.remove(xrcd) else {
        return libc::EINVAL;
    };
    // It keeps its address, which is what the program has.
    let place = Box::into_raw(known);
    // SAFETY: Of the table. From here on the domain counts as moved out.
    match unsafe { ptr::read(&raw const (*place).domain) }.close() {
        Ok(()) => {
            // SAFETY: It was a box; of what need not be dropped.
            drop(unsafe { Box::from_raw(place.cast::<MaybeUninit<Xrcd>>()) });
            0
        }
        Err(CloseError { object, error }) => {
            // SAFETY: It goes back to where it was, and is a box again.
            let known = unsafe {
                ptr::write(&raw mut (*place).domain, object);
                Box::from_raw(place)
            };
            XRCDS.insert(xrcd, known);
            error.errno().raw()
        }
    }
}
