// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion queues that XRC objects complete into.
//!
//! Such a CQ has up to three sources: the device's, which the program made; the ring of a CQ
//! of the kernel module, for XRC SRQs; and what the RC QPs behind XRC_SEND QPs complete
//! into. Polling asks them by turns, arming arms all. A CQ without XRC objects is not known
//! here.

use std::{
    ffi::{c_int, c_uint, c_void},
    mem,
    ptr::{self, NonNull},
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        Mutex, MutexGuard, OnceLock, PoisonError,
    },
};

use ibxrc::{verbs::*, Wc};

use crate::{
    channel,
    context::{self, Context},
    cq_ex,
    element::{self, Element},
    listener::{self, Listener, Wanted},
    real::real,
    report,
    sends::Sends,
    table::Table,
};

static CQS: Table<Cq> = Table::new();
static ADDING: Mutex<()> = Mutex::new(());

pub(crate) type AddingGuard = MutexGuard<'static, ()>;

/// The lock under which a CQ becomes known.
pub(crate) fn adding() -> AddingGuard {
    ADDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a CQ of the program.
pub(crate) struct Cq {
    pub(crate) verbs: NonNull<ibv_cq>,
    context: &'static Context,
    /// In the events of a channel.
    number: u64,
    /// SRQs and QPs that complete into it.
    users: AtomicUsize,
    ring: OnceLock<ibxrc::Cq>,
    making: Mutex<()>,
    pub(crate) sends: Sends,
    turn: AtomicUsize,
}

// SAFETY: The pointer is used in calls of libibverbs, which is thread-safe.
unsafe impl Send for Cq {}
// SAFETY: As above.
unsafe impl Sync for Cq {}

/// What is known of a CQ; `None`: it has no XRC objects.
///
/// # Safety
///
/// NULL or a good CQ, which is not destroyed as long as the reference is used.
pub(crate) unsafe fn of<'a>(cq: *const ibv_cq) -> Option<&'a Cq> {
    // SAFETY: It is removed when it is destroyed.
    unsafe { CQS.get(cq) }
}

/// An object that completes into a CQ, which cannot be destroyed before it.
pub(crate) struct User(&'static Cq);

impl User {
    /// `None`: NULL, or of another context.
    ///
    /// # Safety
    ///
    /// A good CQ. The context is open as long as there are objects of it.
    pub(crate) unsafe fn new(context: &Context, cq: *mut ibv_cq) -> Option<Self> {
        let verbs = NonNull::new(cq)?;
        // SAFETY: The caller's word.
        if unsafe { verbs.as_ref() }.context != context.verbs() {
            return None;
        }
        let _adding = adding();
        // SAFETY: It cannot be destroyed as long as it has users.
        let known: Option<&'static Cq> = unsafe { of(cq) };
        let cq = match known {
            Some(cq) => cq,
            None => {
                // SAFETY: The caller's word: a context outlives its CQs.
                let context = unsafe { &*ptr::from_ref(context) };
                CQS.insert(cq, Box::new(Cq::new(context, verbs)));
                // SAFETY: As above.
                unsafe { cq_ex::take_over(cq) };
                // SAFETY: As above.
                unsafe { of(cq) }?
            }
        };
        cq.users.fetch_add(1, Ordering::Relaxed);
        Some(User(cq))
    }

    pub(crate) fn cq(&self) -> &'static Cq {
        self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

impl Cq {
    fn new(context: &'static Context, verbs: NonNull<ibv_cq>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // SAFETY: A good CQ.
        if let Some(channel) = unsafe { channel::of(verbs.as_ref().channel) } {
            channel.register(number, verbs);
        }
        Cq {
            verbs,
            context,
            number,
            users: AtomicUsize::new(0),
            ring: OnceLock::new(),
            making: Mutex::new(()),
            sends: Sends::new(context, verbs),
            turn: AtomicUsize::new(0),
        }
    }

    pub(crate) fn context(&self) -> &'static Context {
        self.context
    }

    fn channel(&self) -> Option<&channel::Channel> {
        // SAFETY: A channel is not destroyed as long as it has CQs.
        unsafe { channel::of(self.verbs.as_ref().channel) }
    }

    /// What events the program wants, if it can have any.
    fn listener(&self) -> Option<&Listener> {
        // SAFETY: The CQ is not destroyed as long as it is known here.
        unsafe { listener::of(self.verbs.as_ptr()) }
    }

    /// The CQ of the kernel module for the SRQs that complete into this.
    pub(crate) fn ring(&self) -> ibxrc::Result<&ibxrc::Cq> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = self.ring.get() {
            return Ok(ring);
        }
        let (_, limits) = self.context.module.query()?;
        // SAFETY: A good CQ.
        let cqe = unsafe { self.verbs.as_ref() }.cqe as u32;
        if cqe > limits.max_cqe {
            report::note(format_args!(
                "a CQ of {cqe} has room for {} completions of XRC SRQs",
                limits.max_cqe
            ));
        }
        let channel = match self.channel() {
            Some(channel) => Some(channel.module(self.context)?),
            None => None,
        };
        let entries = ring_entries(cqe, limits.max_cqe);
        let ring = self
            .context
            .module
            .create_cq(entries, channel, self.number)?;
        let ring = self.ring.get_or_init(|| ring);
        // The program may have asked for an event before there was a ring.
        match self.listener().map_or(Wanted::No, Listener::wanted) {
            Wanted::No => (),
            // It polls once more; it knows that what was there raises no event.
            wanted => drop(ring.arm(wanted == Wanted::Solicited)),
        }
        Ok(ring)
    }

    /// XRC_SEND QPs have completions, and the program wants to be told.
    pub(crate) fn notify(&self) {
        if let Some(channel) = self.channel() {
            channel.notify(self.verbs);
        }
    }

    /// The program gets an event: until it asks for another one it wants none.
    pub(crate) fn delivered(&self) {
        if let Some(ring) = self.ring.get() {
            ring.disarm();
        }
        self.sends.disarm();
    }

    /// Takes completions from the sources. Returns how many there were.
    ///
    /// # Safety
    ///
    /// There is room for `max`.
    unsafe fn poll(&self, max: usize, wc: *mut ibv_wc) -> c_int {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut n = 0;
        let mut failed = 0;
        for source in 0..3 {
            if n == max {
                break;
            }
            // SAFETY: There is room for `max - n`.
            let (rest, room) = unsafe { (wc.add(n), max - n) };
            let got = match (turn + source) % 3 {
                // SAFETY: As above.
                0 => unsafe { self.poll_device(room, rest) },
                // SAFETY: As above.
                1 => unsafe { self.poll_ring(room, rest) },
                // SAFETY: As above.
                _ => unsafe { self.sends.poll(self, room, rest) },
            };
            match got {
                Ok(got) => n += got,
                Err(error) => failed = error,
            }
        }
        match n {
            // What there is comes first.
            0 => failed,
            n => n as c_int,
        }
    }

    /// # Safety
    ///
    /// There is room for `max`.
    unsafe fn poll_device(&self, max: usize, wc: *mut ibv_wc) -> Result<usize, c_int> {
        let Some(poll) = self.context.originals.poll_cq else {
            return Ok(0);
        };
        // SAFETY: The caller's word.
        match unsafe { poll(self.verbs.as_ptr(), max as c_int, wc) } {
            n if n < 0 => Err(n),
            n => Ok(n as usize),
        }
    }

    /// # Safety
    ///
    /// There is room for `max`.
    pub(crate) unsafe fn poll_ring(&self, max: usize, wc: *mut ibv_wc) -> Result<usize, c_int> {
        let Some(ring) = self.ring.get() else {
            return Ok(0);
        };
        let mut n = 0;
        let mut batch = [Wc::default(); 16];
        while n < max {
            let want = batch.len().min(max - n);
            let got = match ring.poll(&mut batch[..want]) {
                Ok(got) => got,
                Err(_) if n > 0 => break,
                Err(error) => {
                    report::complain(format_args!("ibv_poll_cq: {error}"));
                    return Err(-error.errno().raw());
                }
            };
            for received in &batch[..got] {
                // SAFETY: The caller's word.
                unsafe { wc.add(n).write(completion(received)) };
                n += 1;
            }
            if got < want {
                break;
            }
        }
        Ok(n)
    }

    fn arm(&self, solicited_only: bool) -> c_int {
        if let Some(ring) = self.ring.get() {
            // The program polls once more; it knows that what was there raises no event.
            let _ = ring.arm(solicited_only);
        }
        self.sends.arm(self, Wanted::new(solicited_only))
    }

    /// Whether it may have room for so many completions. An errno value.
    fn may_have(&self, cqe: c_int) -> c_int {
        let entries = self.ring.get().map_or(u32::MAX, ibxrc::Cq::entries);
        if u32::try_from(cqe).is_ok_and(|cqe| cqe > entries) {
            report::complain(format_args!(
                "ibv_resize_cq: with an XRC SRQ a CQ that was made for fewer has no more than \
                 {entries} entries"
            ));
            return libc::EINVAL;
        }
        0
    }
}

/// How large the ring is to be for a CQ of the program: it stays as it is, but the program
/// may make the CQ larger later on.
fn ring_entries(cqe: u32, most: u32) -> u32 {
    const FEW: u32 = 1024;
    cqe.saturating_mul(4).max(FEW).min(most)
}

/// A completion of an XRC SRQ, as libibverbs has it.
fn completion(received: &Wc) -> ibv_wc {
    let mut wc = ibv_wc {
        wr_id: received.wr_id,
        status: received.status.0,
        opcode: received.opcode.0,
        byte_len: received.byte_len,
        qp_num: received.qp_num,
        src_qp: received.src_qp,
        ..Default::default()
    };
    if let Some(imm) = received.imm {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.__bindgen_anon_1.imm_data = imm.to_be();
    }
    wc
}

/// # Safety
///
/// See ibv_poll_cq(3).
pub(crate) unsafe extern "C" fn poll(verbs: *mut ibv_cq, max: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: The caller's word.
    if let Some(cq) = unsafe { of(verbs) } {
        // SAFETY: As above.
        return unsafe { cq.poll(usize::try_from(max).unwrap_or(0), wc) };
    }
    // SAFETY: As above.
    match unsafe { context::of((*verbs).context) }.and_then(|context| context.originals.poll_cq) {
        // SAFETY: As above.
        Some(poll) => unsafe { poll(verbs, max, wc) },
        None => -libc::EOPNOTSUPP,
    }
}

/// # Safety
///
/// See ibv_req_notify_cq(3).
pub(crate) unsafe extern "C" fn req_notify(verbs: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: The caller's word.
    let context = unsafe { context::of((*verbs).context) };
    let arm = context.and_then(|context| context.originals.req_notify_cq);
    let Some(arm) = arm else {
        return libc::EOPNOTSUPP;
    };
    // SAFETY: As above. If it has no channel, no event is to be raised.
    if let Some(listener) = unsafe { listener::of(verbs) } {
        listener.want(Wanted::new(solicited_only != 0));
    }
    // SAFETY: As above.
    let errno = unsafe { arm(verbs, solicited_only) };
    // SAFETY: As above.
    match unsafe { of(verbs) } {
        Some(cq) if errno == 0 => cq.arm(solicited_only != 0),
        _ => errno,
    }
}

/// # Safety
///
/// See ibv_create_cq(3).
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: The caller's word.
    let ours = unsafe { channel::of(channel) };
    let given = ours.map_or(channel, channel::Channel::real);
    // SAFETY: As above.
    let cq = unsafe { (real().create_cq)(context, cqe, cq_context, given, vector) };
    if let (Some(channel), Some(cq)) = (ours, NonNull::new(cq)) {
        // SAFETY: It is new.
        unsafe { channel.take_over(cq) };
    }
    cq
}

/// # Safety
///
/// See ibv_resize_cq(3).
pub(crate) unsafe fn resize(verbs: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { of(verbs) }.map_or(0, |cq| cq.may_have(cqe)) {
        // SAFETY: As above.
        0 => unsafe { (real().resize_cq)(verbs, cqe) },
        errno => errno,
    }
}

/// # Safety
///
/// See ibv_destroy_cq(3).
pub(crate) unsafe fn destroy(verbs: *mut ibv_cq) -> c_int {
    // SAFETY: The caller's word.
    let (known, listener) = unsafe { (of(verbs), listener::of(verbs)) };
    if known.is_some_and(|cq| cq.users.load(Ordering::Acquire) > 0) {
        return libc::EBUSY;
    }
    let number = known.map(|cq| cq.number);
    // SAFETY: As above. Neither is freed here: only channels that are shells have listeners.
    let (channel, pointer) =
        unsafe { (channel::of((*verbs).channel), NonNull::new_unchecked(verbs)) };
    if let Some(channel) = channel {
        channel.leave(pointer);
    }
    if let Some(listener) = listener {
        listener.wait_acknowledged();
    }
    if let Some(cq) = known {
        // The thread that looks after hidden CQs may still look at it; not after this.
        cq.sends.destroy();
        element::wait_acknowledged(Element::Cq(verbs));
        if let Some(events) = &cq.context.events {
            events.cq_gone(verbs);
        }
    }
    // Somebody may get a CQ at the same address before we are back.
    let known = CQS.remove(verbs);
    let listener = listener::remove(verbs);
    let extended = cq_ex::remove(verbs);
    // SAFETY: The caller's word.
    let errno = unsafe { (real().destroy_cq)(verbs) };
    if errno == 0 {
        if let Some(channel) = channel {
            channel.left(pointer, number);
        }
        return 0;
    }
    if let Some(cq) = known {
        CQS.insert(verbs, cq);
    }
    if let Some(listener) = listener {
        listener::put_back(verbs, listener);
    }
    if let Some(extended) = extended {
        cq_ex::put_back(verbs, extended);
    }
    if let Some(channel) = channel {
        channel.stay(pointer);
    }
    errno
}

/// The context is being closed: forgets its CQs.
pub(crate) fn abandon(context: &Context) {
    CQS.remove_all(|cq| ptr::eq(cq.context, context));
}

/// The context is being closed in a child: what its CQs have is that of another process.
pub(crate) fn disown(context: &Context) {
    mem::forget(CQS.remove_all(|cq| ptr::eq(cq.context, context)));
}

/// # Safety
///
/// See ibv_ack_cq_events(3).
pub(crate) unsafe fn ack_events(verbs: *mut ibv_cq, events: c_uint) {
    // SAFETY: The caller's word.
    let listener = unsafe { listener::of(verbs) };
    let rest = listener.map_or(events, |listener| listener.acknowledge(events));
    if rest > 0 {
        // SAFETY: As above.
        unsafe { (real().ack_cq_events)(verbs, rest) };
    }
}

#[cfg(test)]
mod tests {
    use ibxrc::WcOpcode;

    use super::*;

    #[test]
    fn a_ring_has_room_for_more_than_was_asked_for() {
        assert_eq!(ring_entries(1, 1 << 16), 1024);
        assert_eq!(ring_entries(1000, 1 << 16), 4000);
        assert_eq!(ring_entries(30_000, 1 << 16), 1 << 16);
        assert_eq!(ring_entries(u32::MAX, 1 << 16), 1 << 16);
    }

    #[test]
    #[allow(clippy::field_reassign_with_default, reason = "it is not exhaustive")]
    fn a_completion_is_as_libibverbs_has_it() {
        let mut received = Wc::default();
        received.wr_id = 1;
        received.opcode = WcOpcode::RECV_RDMA_WITH_IMM;
        received.byte_len = 2;
        received.imm = Some(0x0102_0304);
        received.qp_num = 3;
        received.src_qp = 4;
        received.solicited = true;
        let wc = completion(&received);
        assert_eq!((wc.wr_id, wc.byte_len, wc.qp_num, wc.src_qp), (1, 2, 3, 4));
        assert_eq!(
            (wc.status, wc.opcode),
            (IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM)
        );
        assert_eq!(wc.wc_flags, IBV_WC_WITH_IMM);
        // SAFETY: It is an integer.
        let imm = unsafe { wc.__bindgen_anon_1.imm_data };
        assert_eq!(imm.to_ne_bytes(), [1, 2, 3, 4]);
        received.imm = None;
        assert_eq!(completion(&received).wc_flags, 0);
    }
}
