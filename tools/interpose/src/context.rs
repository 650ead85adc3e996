// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An open device without XRC, which gets it from the kernel module.
//!
//! The inline functions of libibverbs call through tables in the program's
//! `struct ibv_context`. Those that XRC begins with are replaced when the device is opened,
//! and ibv_req_notify_cq(3), since what a program asks for before it makes an XRC object counts
//! for that, too; those of the data path only when the first XRC object is made, so that a
//! program that makes none runs as if we were not there.

use std::{
    ffi::CStr,
    mem,
    ptr::{self, NonNull},
    sync::{Mutex, Once, OnceLock, PoisonError},
};

use ibxrc::{verbs::*, Errno};

use crate::{
    channel, cq, cq_ex,
    events::Events,
    fork::{self, Process},
    mr::Regions,
    progress::Progress,
    qp,
    real::real,
    report, srq,
    sys::{ibv_flow, ibv_flow_attr, verbs_context},
    table::Table,
    unsupported, xrcd,
};

static CONTEXTS: Table<Context> = Table::new();

/// The functions that were in the tables before ours.
macro_rules! originals {
    ($($(#[$doc:meta])* $name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        #[derive(Clone, Copy)]
        pub(crate) struct Originals {
            $(pub(crate) $name: Option<unsafe extern "C" fn($($arg),*) -> $ret>,)*
        }
    };
}

originals! {
    poll_cq: fn(*mut ibv_cq, i32, *mut ibv_wc) -> i32;
    req_notify_cq: fn(*mut ibv_cq, i32) -> i32;
    post_send: fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> i32;
    post_recv: fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> i32;
    post_srq_recv: fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> i32;
    create_cq_ex: fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    create_srq_ex: fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
    get_srq_num: fn(*mut ibv_srq, *mut u32) -> i32;
    create_qp_ex: fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    bind_mw: fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> i32;
    create_flow: fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow;
    modify_qp_rate_limit: fn(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> i32;
    post_srq_ops: fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> i32;
    query_device_ex: fn(
        *mut ibv_context,
        *const ibv_query_device_ex_input,
        *mut ibv_device_attr_ex,
        usize
    ) -> i32;
}

/// What is known of the program's `struct ibv_context`.
pub(crate) struct Context {
    verbs: NonNull<ibv_context>,
    pub(crate) module: ibxrc::Context,
    pub(crate) originals: Originals,
    pub(crate) limits: ibv_device_attr,
    data_path: Once,
    progress: OnceLock<Progress>,
    starting: Mutex<()>,
    pub(crate) regions: Regions,
    pub(crate) events: Option<Events>,
    /// Whose it is.
    process: Process,
}

// SAFETY: The pointer is used in calls of libibverbs, which is thread-safe.
unsafe impl Send for Context {}
// SAFETY: As above.
unsafe impl Sync for Context {}

/// The tables behind a context, if it has those of today.
///
/// # Safety
///
/// A good context.
unsafe fn tables(context: NonNull<ibv_context>) -> Option<NonNull<verbs_context>> {
    // SAFETY: The caller's word.
    if unsafe { context.as_ref() }.abi_compat as usize != usize::MAX {
        return None;
    }
    // SAFETY: That is what the value says: it is inside of the other structure.
    Some(unsafe { context.byte_sub(std::mem::offset_of!(verbs_context, context)) }.cast())
}

/// Takes over a context that was just opened, if its device is one that needs it.
///
/// # Safety
///
/// A good context that nobody else uses yet.
pub(crate) unsafe fn adopt(context: NonNull<ibv_context>) {
    let verbs = context.as_ptr();
    // SAFETY: The caller's word: the context has a device, the device a name.
    let name = unsafe { CStr::from_ptr((real().get_device_name)((*verbs).device)) };
    let name = name.to_string_lossy();
    let mut limits = ibv_device_attr::default();
    // SAFETY: It writes it.
    let errno = unsafe { (real().query_device)(verbs, &mut limits) };
    // SAFETY: The caller's word.
    let tables = unsafe { tables(context) };
    let flags = (errno == 0).then_some(limits.device_cap_flags);
    let mut tables = match (reason_to_leave(flags), tables) {
        (Some(reason), _) => {
            return report::note(format_args!("{name} is left alone: {reason}"));
        }
        (None, None) => {
            return report::note(format_args!("{name} is left alone: its driver is too old"));
        }
        (None, Some(tables)) => tables,
    };
    let module = match ibxrc::Context::open(&*name) {
        Ok(module) => module,
        // It is said when the device is one that could have it.
        Err(error) if error.errno() == Errno::ENODEV => {
            return report::note(format_args!("{name} is left alone: {error}"))
        }
        Err(error) => return report::complain(format_args!("{name} stays without XRC: {error}")),
    };
    report::note(format_args!("{name} gets XRC from the kernel module"));
    fork::watch();
    // SAFETY: The caller's word: nobody else has it yet.
    let tables = unsafe { tables.as_mut() };
    let ops = &tables.context.ops;
    let originals = Originals {
        poll_cq: ops.poll_cq,
        req_notify_cq: ops.req_notify_cq,
        post_send: ops.post_send,
        post_recv: ops.post_recv,
        post_srq_recv: ops.post_srq_recv,
        create_cq_ex: tables.create_cq_ex,
        create_srq_ex: tables.create_srq_ex,
        get_srq_num: tables.get_srq_num,
        create_qp_ex: tables.create_qp_ex,
        bind_mw: ops.bind_mw,
        create_flow: tables.ibv_create_flow,
        modify_qp_rate_limit: tables.modify_qp_rate_limit,
        post_srq_ops: tables.post_srq_ops,
        query_device_ex: tables.query_device_ex,
    };
    tables.context.ops.req_notify_cq = Some(cq::req_notify);
    tables.open_xrcd = Some(xrcd::open);
    tables.close_xrcd = Some(xrcd::close);
    tables.create_srq_ex = Some(srq::create_ex);
    tables.get_srq_num = Some(srq::get_num);
    tables.create_qp_ex = Some(qp::create_ex);
    tables.open_qp = Some(qp::open);
    tables.create_cq_ex = Some(cq_ex::create);
    tables.query_device_ex = Some(query_device_ex);
    tables.ibv_create_flow = Some(unsupported::create_flow);
    tables.modify_qp_rate_limit = Some(unsupported::modify_qp_rate_limit);
    tables.post_srq_ops = Some(unsupported::post_srq_ops);
    // SAFETY: The caller's word. `forget` puts it back.
    let events = unsafe { Events::new(context) };
    let events = events.inspect_err(|errno| {
        report::complain(format_args!("no events of XRC objects of {name}: {errno}"))
    });
    let context = Box::new(Context {
        verbs: context,
        module,
        originals,
        limits,
        data_path: Once::new(),
        progress: OnceLock::new(),
        starting: Mutex::new(()),
        regions: Regions::default(),
        events: events.ok(),
        process: Process::this(),
    });
    CONTEXTS.insert(verbs, context);
}

/// Why a device that can do this, or cannot be asked what it can do, does not need us.
fn reason_to_leave(device_cap_flags: Option<u32>) -> Option<&'static str> {
    match device_cap_flags {
        None => Some("it cannot be queried"),
        Some(flags) if flags & IBV_DEVICE_XRC != 0 => Some("it has XRC itself"),
        Some(_) => None,
    }
}

/// What [`adopt`] knows of a context; `None`: it was left alone.
///
/// # Safety
///
/// NULL or a good context, which is not closed as long as the reference is used.
pub(crate) unsafe fn of<'a>(context: *const ibv_context) -> Option<&'a Context> {
    // SAFETY: It is removed when it is closed.
    unsafe { CONTEXTS.get(context) }
}

/// The protection domain, if it is one of the context.
///
/// # Safety
///
/// NULL or a good protection domain.
pub(crate) unsafe fn of_pd(context: &Context, pd: *mut ibv_pd) -> Option<NonNull<ibv_pd>> {
    // SAFETY: The caller's word.
    NonNull::new(pd).filter(|pd| unsafe { pd.as_ref() }.context == context.verbs())
}

/// Gives a context back: it is going to be closed. What the program left open of it goes, too,
/// as what it left open of the device does.
pub(crate) fn forget(verbs: *mut ibv_context) {
    let Some(mut context) = CONTEXTS.remove(verbs) else {
        return;
    };
    if let Some(events) = &context.events {
        events.restore();
    }
    if !context.process.is_this() {
        // A child closes what is its parent's, who goes on: nothing of it is closed, and none
        // of it is taken for that of a context which gets the same address. A thread of the
        // parent may have the locks.
        qp::disown(verbs);
        srq::disown(verbs);
        cq::disown(&context);
        channel::disown(verbs);
        mem::forget(mem::take(&mut context.regions));
        xrcd::disown(verbs);
        return;
    }
    // First the thread, which looks at the rest.
    drop(context.progress.take());
    qp::abandon(verbs);
    srq::abandon(verbs);
    cq::abandon(&context);
    channel::abandon(verbs);
    drop(mem::take(&mut context.regions));
    xrcd::abandon(verbs);
}

impl Context {
    pub(crate) fn verbs(&self) -> *mut ibv_context {
        self.verbs.as_ptr()
    }

    /// Puts our functions where those of the data path are.
    pub(crate) fn hook_data_path(&self) {
        self.data_path.call_once(|| {
            // SAFETY: It is not closed. Others may read these pointers at the same time; each
            // gets the old one or the new one, and both will do.
            unsafe {
                let ops = &raw mut (*self.verbs.as_ptr()).ops;
                ptr::write_volatile(&raw mut (*ops).poll_cq, Some(cq::poll));
                ptr::write_volatile(&raw mut (*ops).post_send, Some(qp::post_send));
                ptr::write_volatile(&raw mut (*ops).post_recv, Some(qp::post_recv));
                ptr::write_volatile(&raw mut (*ops).post_srq_recv, Some(srq::post_recv));
                ptr::write_volatile(&raw mut (*ops).bind_mw, Some(unsupported::bind_mw));
            }
        });
    }

    /// What sees to it that work requests get on. An errno value.
    pub(crate) fn progress(&self) -> Result<&Progress, i32> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = self.progress.get() {
            return Ok(progress);
        }
        let progress = Progress::start(self.verbs())?;
        Ok(self.progress.get_or_init(|| progress))
    }
}

/// # Safety
///
/// See ibv_query_device(3).
pub(crate) unsafe fn query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> i32 {
    // SAFETY: The caller's word.
    let errno = unsafe { (real().query_device)(context, attr) };
    // SAFETY: The caller's word.
    if errno == 0 && unsafe { of(context) }.is_some() {
        // SAFETY: It was written.
        unsafe { (*attr).device_cap_flags |= IBV_DEVICE_XRC };
    }
    errno
}

/// # Safety
///
/// See ibv_query_device_ex(3).
unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> i32 {
    // SAFETY: The caller's word.
    let query = unsafe { of(context) }.and_then(|context| context.originals.query_device_ex);
    let Some(query) = query else {
        return libc::EOPNOTSUPP;
    };
    // SAFETY: The caller's word.
    let errno = unsafe { query(context, input, attr, size) };
    if errno != 0 {
        return errno;
    }
    // SAFETY: All versions of the structure have it.
    unsafe { (*attr).orig_attr.device_cap_flags |= IBV_DEVICE_XRC };
    const FLAGS_END: usize =
        std::mem::offset_of!(ibv_device_attr_ex, device_cap_flags_ex) + size_of::<u64>();
    if size >= FLAGS_END {
        // SAFETY: This version has it.
        unsafe { (*attr).device_cap_flags_ex |= u64::from(IBV_DEVICE_XRC) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_xrc_is_left_alone() {
        let has = Some(IBV_DEVICE_XRC | IBV_DEVICE_SRQ_RESIZE);
        assert_eq!(reason_to_leave(has), Some("it has XRC itself"));
        assert_eq!(reason_to_leave(None), Some("it cannot be queried"));
        assert_eq!(reason_to_leave(Some(IBV_DEVICE_SRQ_RESIZE)), None);
    }
}
