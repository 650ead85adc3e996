// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Extended CQs: ibv_create_cq_ex(3).
//!
//! What a program polls one with it calls through pointers in the CQ. Ours come in their
//! place when the first XRC object completes into it, which other threads may be polling by
//! then: so a call of a thread whose turn it is not is one for the device.

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_uint},
    mem::MaybeUninit,
    ptr::{self, NonNull},
    sync::atomic::{fence, AtomicUsize, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use ibxrc::verbs::*;

use crate::{
    channel, context,
    cq::{self, Cq},
    report,
    table::Table,
};

static EXTENDED: Table<Extended> = Table::new();

/// Sources of completions, see [`cq`].
const SOURCES: usize = 3;
const DEVICE: usize = 0;
const RING: usize = 1;

/// What is known of an extended CQ.
pub(crate) struct Extended {
    /// The pointers of the provider.
    provider: ibv_cq_ex,
    lock: UnsafeCell<libc::pthread_mutex_t>,
    /// The thread between ibv_start_poll(3) and ibv_end_poll(3), which has the lock; or 0.
    owner: AtomicUsize,
    /// Of the owner.
    poll: UnsafeCell<Poll>,
}

/// What is between ibv_start_poll(3) and ibv_end_poll(3).
struct Poll {
    /// The source that is asked first; the device is, the first time: when it has been, no
    /// other thread is between the two with the provider's pointers.
    first: usize,
    /// How many sources have nothing more.
    done: usize,
    /// The device wants to be told of the end.
    started: bool,
    /// The completion, unless it is one of the device.
    wc: Option<ibv_wc>,
}

// SAFETY: What it has is used under its lock; the pointers of `provider` are those of
// functions.
unsafe impl Send for Extended {}
// SAFETY: As above.
unsafe impl Sync for Extended {}

/// # Safety
///
/// See ibv_create_cq_ex(3).
pub(crate) unsafe extern "C" fn create(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: The caller's word.
    let create = unsafe { context::of(context) }.and_then(|c| c.originals.create_cq_ex);
    let Some(create) = create else {
        return report::null(libc::EOPNOTSUPP);
    };
    // SAFETY: The caller's word. Newer versions of the structure may have more at their end,
    // so that it is not copied.
    unsafe {
        let given = (*attr).channel;
        let ours = channel::of(given);
        if let Some(channel) = ours {
            (*attr).channel = channel.real();
        }
        let cq = create(context, attr);
        (*attr).channel = given;
        if let Some(cq) = NonNull::new(cq) {
            if let Some(channel) = ours {
                channel.take_over(cq.cast());
            }
            EXTENDED.insert(cq.as_ptr(), Box::new(Extended::new(cq.as_ptr().read())));
        }
        cq
    }
}

/// A CQ is going to be destroyed.
pub(crate) fn remove(cq: *const ibv_cq) -> Option<Box<Extended>> {
    EXTENDED.remove(cq)
}

/// It was not.
pub(crate) fn put_back(cq: *const ibv_cq, extended: Box<Extended>) {
    EXTENDED.insert(cq, extended);
}

/// Calls `$do!(field, function)` for what can be called of an extended CQ.
macro_rules! for_each_pointer {
    ($do:ident) => {
        $do!(next_poll, next);
        $do!(end_poll, end);
        $do!(read_opcode, read_opcode);
        $do!(read_vendor_err, read_vendor_err);
        $do!(read_byte_len, read_byte_len);
        $do!(read_imm_data, read_imm_data);
        $do!(read_qp_num, read_qp_num);
        $do!(read_src_qp, read_src_qp);
        $do!(read_wc_flags, read_wc_flags);
        $do!(read_slid, read_slid);
        $do!(read_sl, read_sl);
        $do!(read_dlid_path_bits, read_dlid_path_bits);
        $do!(read_completion_ts, read_completion_ts);
        $do!(read_cvlan, read_cvlan);
        $do!(read_flow_tag, read_flow_tag);
        $do!(read_tm_info, read_tm_info);
        $do!(read_completion_wallclock_ns, read_completion_wallclock_ns);
        // Who gets this one, gets the others.
        fence(Ordering::Release);
        $do!(start_poll, start);
    };
}

/// Puts ours in the place of the provider's pointers, if it is an extended CQ: it is known
/// to [`cq`].
///
/// # Safety
///
/// A good CQ.
pub(crate) unsafe fn take_over(cq: *mut ibv_cq) {
    // SAFETY: The caller's word.
    let Some(extended) = (unsafe { EXTENDED.get(cq) }) else {
        return;
    };
    let cq: *mut ibv_cq_ex = cq.cast();
    macro_rules! replace {
        ($field:ident, $ours:ident) => {
            // What the program did not ask for stays away.
            if extended.provider.$field.is_some() {
                // SAFETY: It is an extended CQ. Others may read this at the same time: each
                // gets the old one or the new one, and both will do.
                unsafe { ptr::write_volatile(&raw mut (*cq).$field, Some($ours)) };
            }
        };
    }
    for_each_pointer!(replace);
}

impl Extended {
    fn new(provider: ibv_cq_ex) -> Self {
        Extended {
            provider,
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            owner: AtomicUsize::new(0),
            poll: UnsafeCell::new(Poll {
                first: DEVICE,
                done: 0,
                started: false,
                wc: None,
            }),
        }
    }

    /// The poll of this thread, if it is the one between start and end.
    ///
    /// # Safety
    ///
    /// One reference at a time.
    #[allow(clippy::mut_from_ref, reason = "it belongs to the thread")]
    unsafe fn mine(&self) -> Option<&mut Poll> {
        // SAFETY: Its owner alone uses it.
        (self.owner.load(Ordering::Relaxed) == me()).then(|| unsafe { &mut *self.poll.get() })
    }

    /// It is another thread's turn.
    fn finish(&self, poll: &mut Poll) {
        poll.first = (poll.first + 1) % SOURCES;
        self.owner.store(0, Ordering::Relaxed);
        // SAFETY: This thread has locked it.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
    }

    /// Goes on to the next completion. An errno value.
    ///
    /// # Safety
    ///
    /// See ibv_start_poll(3), and ibv_next_poll(3) if `attr` is NULL.
    unsafe fn advance(
        &self,
        poll: &mut Poll,
        cq: *mut ibv_cq_ex,
        known: &Cq,
        attr: *mut ibv_poll_cq_attr,
    ) -> c_int {
        let mut failed = 0;
        while poll.done < SOURCES {
            let found = match (poll.first + poll.done) % SOURCES {
                DEVICE => {
                    poll.wc = None;
                    // SAFETY: The caller's word.
                    unsafe { self.advance_device(poll, cq, attr) }
                }
                source => {
                    let mut wc = MaybeUninit::uninit();
                    let got = match source {
                        // SAFETY: There is room for one.
                        RING => unsafe { known.poll_ring(1, wc.as_mut_ptr()) },
                        // SAFETY: As above.
                        _ => unsafe { known.sends.poll(known, 1, wc.as_mut_ptr()) },
                    };
                    match got {
                        Ok(0) => libc::ENOENT,
                        Ok(_) => {
                            // SAFETY: It was written.
                            let wc = poll.wc.insert(unsafe { wc.assume_init() });
                            // SAFETY: The caller's word; only this thread polls the CQ now.
                            unsafe {
                                (*cq).wr_id = wc.wr_id;
                                (*cq).status = wc.status;
                            }
                            0
                        }
                        Err(error) => error.abs(),
                    }
                }
            };
            match found {
                0 => return 0,
                libc::ENOENT => (),
                errno => failed = errno,
            }
            poll.done += 1;
        }
        match failed {
            0 => libc::ENOENT,
            // What there was came first.
            errno => errno,
        }
    }

    /// # Safety
    ///
    /// As [`Self::advance`].
    unsafe fn advance_device(
        &self,
        poll: &mut Poll,
        cq: *mut ibv_cq_ex,
        attr: *mut ibv_poll_cq_attr,
    ) -> c_int {
        if poll.started {
            let next = self.provider.next_poll;
            // SAFETY: The caller's word.
            let errno = next.map_or(libc::ENOENT, |next| unsafe { next(cq) });
            if errno != 0 {
                // At once, not with ours: Soft-RoCE's provider has unlocked the CQ already.
                // SAFETY: As above.
                unsafe { self.end_device(poll, cq) };
            }
            return errno;
        }
        let mut none = ibv_poll_cq_attr { comp_mask: 0 };
        let attr = NonNull::new(attr).unwrap_or(NonNull::from(&mut none));
        let start = self.provider.start_poll;
        // SAFETY: As above.
        let errno = start.map_or(libc::ENOENT, |start| unsafe { start(cq, attr.as_ptr()) });
        poll.started = errno == 0;
        errno
    }

    /// Tells the device of the end, if it wants to be told.
    ///
    /// # Safety
    ///
    /// As [`Self::advance`].
    unsafe fn end_device(&self, poll: &mut Poll, cq: *mut ibv_cq_ex) {
        if let (true, Some(end)) = (poll.started, self.provider.end_poll) {
            // SAFETY: The caller's word.
            unsafe { end(cq) };
        }
        poll.started = false;
    }
}

/// This thread, which is not 0.
fn me() -> usize {
    // SAFETY: It has no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// # Safety
///
/// A CQ that has these functions, as for all that follow.
unsafe fn of<'a>(cq: *mut ibv_cq_ex) -> &'a Extended {
    // SAFETY: The caller's word.
    match unsafe { EXTENDED.get(cq) } {
        Some(extended) => extended,
        None => unreachable!("only such a CQ has these functions"),
    }
}

unsafe extern "C" fn start(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // See `take_over`.
    fence(Ordering::Acquire);
    // SAFETY: The caller's word.
    let (this, known) = unsafe { (of(cq), cq::of(cq.cast())) };
    // SAFETY: As above.
    if unsafe { (*attr).comp_mask } != 0 {
        return libc::EINVAL;
    }
    let Some(known) = known else {
        return libc::ENOENT;
    };
    // SAFETY: It stays as long as the CQ.
    unsafe { libc::pthread_mutex_lock(this.lock.get()) };
    this.owner.store(me(), Ordering::Relaxed);
    // SAFETY: It is ours now.
    let poll = unsafe { &mut *this.poll.get() };
    (poll.done, poll.started, poll.wc) = (0, false, None);
    // SAFETY: The caller's word.
    let errno = unsafe { this.advance(poll, cq, known, attr) };
    if errno != 0 {
        this.finish(poll);
    }
    errno
}

unsafe extern "C" fn next(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: The caller's word.
    let (this, known) = unsafe { (of(cq), cq::of(cq.cast())) };
    // SAFETY: It is the only reference of this thread.
    match (unsafe { this.mine() }, known, this.provider.next_poll) {
        // SAFETY: The caller's word.
        (Some(poll), Some(known), _) => unsafe { this.advance(poll, cq, known, ptr::null_mut()) },
        // SAFETY: As above.
        (_, _, Some(next)) => unsafe { next(cq) },
        (_, _, None) => libc::ENOENT,
    }
}

unsafe extern "C" fn end(cq: *mut ibv_cq_ex) {
    // SAFETY: The caller's word.
    let this = unsafe { of(cq) };
    // SAFETY: It is the only reference of this thread.
    match (unsafe { this.mine() }, this.provider.end_poll) {
        (Some(poll), _) => {
            // SAFETY: The caller's word.
            unsafe { this.end_device(poll, cq) };
            this.finish(poll);
        }
        // SAFETY: As above.
        (None, Some(end)) => unsafe { end(cq) },
        (None, None) => (),
    }
}

/// A function that tells something of the completion: of one of ours what is in its
/// `ibv_wc`, of another one what the provider says.
macro_rules! reads {
    ($($name:ident($wc:ident) -> $type:ty = $value:expr;)*) => {
        $(
            unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
                // SAFETY: The caller's word.
                let this = unsafe { of(cq) };
                // SAFETY: It is the only reference of this thread.
                match (unsafe { this.mine() }.and_then(|poll| poll.wc.as_ref()), this.provider.$name) {
                    (Some($wc), _) => $value,
                    // SAFETY: The caller's word.
                    (None, Some(read)) => unsafe { read(cq) },
                    (None, None) => Default::default(),
                }
            }
        )*
    };
}

reads! {
    read_opcode(wc) -> ibv_wc_opcode = wc.opcode;
    read_vendor_err(wc) -> u32 = wc.vendor_err;
    read_byte_len(wc) -> u32 = wc.byte_len;
    // SAFETY: It is an integer.
    read_imm_data(wc) -> __be32 = unsafe { wc.__bindgen_anon_1.imm_data };
    read_qp_num(wc) -> u32 = wc.qp_num;
    read_src_qp(wc) -> u32 = wc.src_qp;
    read_wc_flags(wc) -> c_uint = wc.wc_flags;
    read_slid(wc) -> u32 = wc.slid.into();
    read_sl(wc) -> u8 = wc.sl;
    read_dlid_path_bits(wc) -> u8 = wc.dlid_path_bits;
    // The device has not seen it: its clock says nothing.
    read_completion_ts(_wc) -> u64 = 0;
    read_cvlan(_wc) -> u16 = 0;
    read_flow_tag(_wc) -> u32 = 0;
    read_completion_wallclock_ns(_wc) -> u64 = now();
}

unsafe extern "C" fn read_tm_info(cq: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    // SAFETY: The caller's word.
    let this = unsafe { of(cq) };
    // SAFETY: It is the only reference of this thread.
    let ours = unsafe { this.mine() }.is_some_and(|poll| poll.wc.is_some());
    match (ours, this.provider.read_tm_info) {
        // SAFETY: The caller's word.
        (true, _) => unsafe { info.write(ibv_wc_tm_info::default()) },
        // SAFETY: As above.
        (false, Some(read)) => unsafe { read(cq, info) },
        (false, None) => (),
    }
}

/// When a completion is taken, which is the earliest that is known of it.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
