// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! QPs of the types XRC_SEND and XRC_RECV, as the program has them.

use std::{
    cell::UnsafeCell,
    ffi::c_int,
    mem::{self, MaybeUninit},
    ptr::{self, NonNull},
};

use ibxrc::verbs::*;

use crate::{
    context,
    element::{self, Element},
    real::real,
    recv_qp::RecvQp,
    report,
    send_qp::SendQp,
    srq,
    table::Table,
};

static QPS: Table<Qp> = Table::new();

/// What is behind a QP of the program.
pub(crate) enum Kind {
    Send(SendQp),
    Recv(RecvQp),
}

/// A QP that only we know.
#[repr(C)]
pub(crate) struct Qp {
    /// What the program has, and `libibverbs` when it acknowledges events.
    shell: UnsafeCell<ibv_qp_ex>,
    kind: Kind,
}

// SAFETY: What it consists of is; the shell is the program's.
unsafe impl Send for Qp {}
// SAFETY: As above.
unsafe impl Sync for Qp {}

/// What is behind a QP; `None`: it is one of libibverbs.
///
/// # Safety
///
/// NULL or a good QP, which is not destroyed as long as the reference is used.
pub(crate) unsafe fn of<'a>(qp: *const ibv_qp) -> Option<&'a Qp> {
    // SAFETY: It is removed when it is destroyed.
    unsafe { QPS.get(qp) }
}

impl Qp {
    /// Makes it known. `shell` says what the program sees of it.
    fn publish(mut place: Box<MaybeUninit<Qp>>, shell: ibv_qp_ex, kind: Kind) -> *mut ibv_qp {
        place.write(Qp {
            shell: UnsafeCell::new(shell),
            kind,
        });
        // SAFETY: Just written.
        let qp = unsafe { place.assume_init() };
        let pointer: *mut ibv_qp = qp.shell.get().cast();
        QPS.insert(pointer, qp);
        pointer
    }

    fn is_of(&self, context: *mut ibv_context) -> bool {
        // SAFETY: The program has the shell, and the context is the same all the time.
        unsafe { (*self.shell.get()).qp_base.context == context }
    }

    /// The XRC_SEND QP, if it is one.
    pub(crate) fn send(&self) -> Option<&SendQp> {
        match &self.kind {
            Kind::Send(send) => Some(send),
            Kind::Recv(_) => None,
        }
    }
}

/// Where a QP is going to be: its events may come before it is there.
fn place() -> (Box<MaybeUninit<Qp>>, Element) {
    let mut place = Box::<Qp>::new_uninit();
    let element = Element::Qp(place.as_mut_ptr().cast());
    (place, element)
}

/// # Safety
///
/// See ibv_create_qp_ex(3).
pub(crate) unsafe extern "C" fn create_ex(
    verbs: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: The caller's word.
    let (context, given) = unsafe { (context::of(verbs), attr.as_mut()) };
    let (Some(context), Some(given)) = (context, given) else {
        return report::null(libc::EINVAL);
    };
    let mut shell = ibv_qp_ex::default();
    shell.qp_base.context = verbs;
    shell.qp_base.qp_context = given.qp_context;
    shell.qp_base.qp_type = given.qp_type;
    let (place, element) = place();
    let made = match given.qp_type {
        IBV_QPT_XRC_SEND => {
            // SAFETY: The caller's word.
            unsafe { SendQp::create(context, given, element, &mut shell) }.map(Kind::Send)
        }
        IBV_QPT_XRC_RECV => {
            // SAFETY: As above.
            unsafe { RecvQp::create(context, given, element, &mut shell) }.map(Kind::Recv)
        }
        // SAFETY: As above.
        _ if unsafe { srq::of(given.srq) }.is_some() => Err(libc::EINVAL),
        _ => {
            return match context.originals.create_qp_ex {
                // SAFETY: As above.
                Some(create) => unsafe { create(verbs, attr) },
                None => report::null(libc::EOPNOTSUPP),
            };
        }
    };
    match made {
        Ok(kind) => {
            context.hook_data_path();
            Qp::publish(place, shell, kind)
        }
        Err(errno) => report::null(errno),
    }
}

/// # Safety
///
/// See ibv_create_qp(3).
pub(crate) unsafe fn create(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: The caller's word.
    let (context, given) = unsafe { ((*pd).context, &mut *attr) };
    // SAFETY: As above.
    let ours = unsafe { context::of(context) }.is_some();
    let xrc = given.qp_type == IBV_QPT_XRC_SEND || given.qp_type == IBV_QPT_XRC_RECV;
    // SAFETY: As above.
    if !xrc && unsafe { srq::of(given.srq) }.is_some() {
        return report::null(libc::EINVAL);
    }
    if !ours || !xrc {
        // SAFETY: As above.
        return unsafe { (real().create_qp)(pd, attr) };
    }
    let mut extended = ibv_qp_init_attr_ex {
        qp_context: given.qp_context,
        send_cq: given.send_cq,
        recv_cq: given.recv_cq,
        srq: given.srq,
        cap: given.cap,
        qp_type: given.qp_type,
        sq_sig_all: given.sq_sig_all,
        comp_mask: IBV_QP_INIT_ATTR_PD,
        pd,
        ..Default::default()
    };
    // SAFETY: As above.
    let qp = unsafe { create_ex(context, &mut extended) };
    given.cap = extended.cap;
    qp
}

/// # Safety
///
/// See ibv_open_qp(3).
pub(crate) unsafe extern "C" fn open(
    verbs: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    // SAFETY: The caller's word.
    let (context, attr) = unsafe { (context::of(verbs), attr.as_ref()) };
    let (Some(context), Some(attr)) = (context, attr) else {
        return report::null(libc::EINVAL);
    };
    let mut shell = ibv_qp_ex::default();
    shell.qp_base.context = verbs;
    let (place, element) = place();
    // SAFETY: As above.
    match unsafe { RecvQp::open(context, attr, element, &mut shell) } {
        Ok(kind) => {
            context.hook_data_path();
            Qp::publish(place, shell, Kind::Recv(kind))
        }
        Err(errno) => report::null(errno),
    }
}

/// # Safety
///
/// See ibv_modify_qp(3).
pub(crate) unsafe fn modify(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(qp) }) else {
        // SAFETY: As above.
        return unsafe { (real().modify_qp)(qp, attr, mask) };
    };
    // SAFETY: As above.
    let attr = unsafe { &*attr };
    let errno = match &this.kind {
        Kind::Send(send) => send.modify(attr, mask),
        Kind::Recv(recv) => recv.modify(attr, mask),
    };
    if errno == 0 && mask as u32 & IBV_QP_STATE != 0 {
        // SAFETY: As above.
        unsafe { (*qp).state = attr.qp_state };
    }
    errno
}

/// # Safety
///
/// See ibv_query_qp(3).
pub(crate) unsafe fn query(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(qp) }) else {
        // SAFETY: As above.
        return unsafe { (real().query_qp)(qp, attr, mask, init) };
    };
    // SAFETY: As above. They may be uninitialised, and are written before they are used.
    unsafe {
        attr.write(ibv_qp_attr::default());
        init.write(ibv_qp_init_attr {
            qp_context: (*qp).qp_context,
            send_cq: (*qp).send_cq,
            qp_type: (*qp).qp_type,
            ..Default::default()
        });
    }
    // SAFETY: As above.
    let (attr, init) = unsafe { (&mut *attr, &mut *init) };
    let errno = match &this.kind {
        Kind::Send(send) => send.query(attr, mask, init),
        Kind::Recv(recv) => recv.query(attr, init),
    };
    if errno == 0 && mask as u32 & IBV_QP_STATE != 0 {
        // SAFETY: As above.
        unsafe { (*qp).state = attr.qp_state };
    }
    errno
}

/// # Safety
///
/// See ibv_destroy_qp(3).
pub(crate) unsafe fn destroy(qp: *mut ibv_qp) -> c_int {
    // SAFETY: The caller's word.
    let Some(this) = (unsafe { of(qp) }) else {
        // SAFETY: As above.
        return unsafe { (real().destroy_qp)(qp) };
    };
    let errno = match &this.kind {
        Kind::Send(send) => send.destroy(),
        Kind::Recv(_) => 0,
    };
    if errno != 0 {
        return errno;
    }
    if let Some(known) = QPS.remove(qp) {
        let place = Box::into_raw(known);
        // It gives back what it holds, but for its place: who has an event of it may look at
        // what the program has of it until he acknowledges that.
        // SAFETY: Of the table. From here on this counts as moved out.
        unsafe { ptr::drop_in_place(&raw mut (*place).kind) };
        element::wait_acknowledged(Element::Qp(qp));
        // SAFETY: It was a box; of what need not be dropped.
        drop(unsafe { Box::from_raw(place.cast::<MaybeUninit<Qp>>()) });
    }
    0
}

/// The context is being closed: gives back what its QPs have of the kernel module. What they
/// have of the device goes with the real context.
pub(crate) fn abandon(context: *mut ibv_context) {
    for qp in QPS.remove_all(|qp| qp.is_of(context)) {
        if qp.send().is_some() {
            mem::forget(qp);
        }
    }
}

/// The context is being closed in a child: its QPs are those of another process.
pub(crate) fn disown(context: *mut ibv_context) {
    mem::forget(QPS.remove_all(|qp| qp.is_of(context)));
}

/// # Safety
///
/// See ibv_qp_to_qp_ex(3).
pub(crate) unsafe fn to_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: The caller's word.
    match unsafe { of(qp) } {
        // SAFETY: As above.
        None => unsafe { (real().qp_to_qp_ex)(qp) },
        Some(this) => match &this.kind {
            Kind::Send(send) if send.is_extended() => this.shell.get(),
            _ => ptr::null_mut(),
        },
    }
}

/// # Safety
///
/// See ibv_post_send(3).
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: The caller's word.
    if let Some(this) = unsafe { of(qp) } {
        return match &this.kind {
            // SAFETY: As above.
            Kind::Send(send) => unsafe { send.post(wr, bad, false) },
            // SAFETY: As above.
            Kind::Recv(_) => unsafe { refuse(wr, bad) },
        };
    }
    // SAFETY: As above.
    let context = unsafe { context::of((*qp).context) };
    match context.and_then(|context| context.originals.post_send) {
        // SAFETY: As above.
        Some(post) => unsafe { post(qp, wr, bad) },
        None => libc::EOPNOTSUPP,
    }
}

/// # Safety
///
/// See ibv_post_recv(3).
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: The caller's word.
    if unsafe { of(qp) }.is_some() {
        // SAFETY: As above.
        return unsafe { refuse(wr, bad) };
    }
    // SAFETY: As above.
    let context = unsafe { context::of((*qp).context) };
    match context.and_then(|context| context.originals.post_recv) {
        // SAFETY: As above.
        Some(post) => unsafe { post(qp, wr, bad) },
        None => libc::EOPNOTSUPP,
    }
}

/// Nothing is posted to a queue that the QP does not have.
///
/// # Safety
///
/// `bad` is NULL or good.
unsafe fn refuse<T>(wr: *mut T, bad: *mut *mut T) -> c_int {
    if let Some(mut bad) = NonNull::new(bad) {
        // SAFETY: The caller's word.
        unsafe { *bad.as_mut() = wr };
    }
    libc::EINVAL
}
