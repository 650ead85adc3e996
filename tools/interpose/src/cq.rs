// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion queues that XRC objects complete into.
//!
//! Such a CQ has up to three sources: the device's, which the program made; the ring of a CQ
//! of the kernel module, for XRC SRQs; and what the RC QPs behind XRC_SEND QPs complete
//! into. Polling asks them by turns, arming arms all. A CQ without XRC objects is not known
//! here.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr::{self, NonNull},
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
    },
};

use ibxrc::{verbs::*, Wc};

use crate::{
    channel,
    context::{self, Context},
    real::real,
    sends::Sends,
    table::Table,
};

static CQS: Table<Cq> = Table::new();

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
    /// Events the program has that libibverbs does not know, and has not acknowledged.
    events: Mutex<u32>,
    acknowledged: Condvar,
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
    /// `None`: NULL.
    ///
    /// # Safety
    ///
    /// A good CQ of the context, which is open as long as there are objects of it.
    pub(crate) unsafe fn new(context: &Context, cq: *mut ibv_cq) -> Option<Self> {
        static ADDING: Mutex<()> = Mutex::new(());
        let verbs = NonNull::new(cq)?;
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: It cannot be destroyed as long as it has users.
        let known: Option<&'static Cq> = unsafe { of(cq) };
        let cq = match known {
            Some(cq) => cq,
            None => {
                // SAFETY: The caller's word: a context outlives its CQs.
                let context = unsafe { &*ptr::from_ref(context) };
                CQS.insert(cq, Box::new(Cq::new(context, verbs)));
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
            events: Mutex::new(0),
            acknowledged: Condvar::new(),
        }
    }

    pub(crate) fn has_channel(&self) -> bool {
        self.channel().is_some()
    }

    fn channel(&self) -> Option<&channel::Channel> {
        // SAFETY: A channel is not destroyed as long as it has CQs.
        unsafe { channel::of(self.verbs.as_ref().channel) }
    }

    /// The CQ of the kernel module for the SRQs that complete into this.
    pub(crate) fn ring(&self) -> ibxrc::Result<&ibxrc::Cq> {
        // The program may make the CQ larger later on, but the ring stays as it is.
        const ENTRIES: u32 = 1024;
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = self.ring.get() {
            return Ok(ring);
        }
        let (_, limits) = self.context.module.query()?;
        // SAFETY: A good CQ.
        let entries = unsafe { self.verbs.as_ref() }.cqe as u32;
        let entries = entries.max(ENTRIES).min(limits.max_cqe);
        let channel = match self.channel() {
            Some(channel) => Some(channel.module(self.context)?),
            None => None,
        };
        let ring = self
            .context
            .module
            .create_cq(entries, channel, self.number)?;
        if self.has_channel() {
            // The program may have asked for an event already. If not, one that it did not
            // ask for does no harm.
            let _ = ring.arm(false);
        }
        Ok(self.ring.get_or_init(|| ring))
    }

    /// XRC_SEND QPs have completions, and the program wants to be told.
    pub(crate) fn notify(&self) {
        if let Some(channel) = self.channel() {
            channel.notify(self.number);
        }
    }

    fn events(&self) -> MutexGuard<'_, u32> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program has got an event that libibverbs does not know.
    pub(crate) fn event_taken(&self) {
        *self.events() += 1;
    }

    /// The program acknowledges events. Returns how many of them libibverbs knows.
    fn acknowledge(&self, events: u32) -> u32 {
        let mut open = self.events();
        let ours = events.min(*open);
        *open -= ours;
        self.acknowledged.notify_all();
        events - ours
    }

    fn wait_acknowledged(&self) {
        let mut open = self.events();
        while *open > 0 {
            open = self
                .acknowledged
                .wait(open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes completions from the sources. Returns how many there were.
    ///
    /// # Safety
    ///
    /// There is room for `max`.
    unsafe fn poll(&self, max: usize, wc: *mut ibv_wc) -> c_int {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut n = 0;
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
                Err(error) if n == 0 => return error,
                // It is told the next time.
                Err(_) => break,
            }
        }
        n as c_int
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
    unsafe fn poll_ring(&self, max: usize, wc: *mut ibv_wc) -> Result<usize, c_int> {
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
                Err(error) => return Err(-error.errno().raw()),
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
        self.sends.arm(self, solicited_only)
    }
}

/// A completion of an XRC SRQ, as libibverbs has it.
fn completion(received: &Wc) -> ibv_wc {
    let mut wc = ibv_wc {
        wr_id: received.wr_id,
        status: received.status.0,
        opcode: IBV_WC_RECV,
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
/// See ibv_destroy_cq(3).
pub(crate) unsafe fn destroy(verbs: *mut ibv_cq) -> c_int {
    // SAFETY: The caller's word.
    if let Some(cq) = unsafe { of(verbs) } {
        if cq.users.load(Ordering::Acquire) > 0 {
            return libc::EBUSY;
        }
        if let Some(channel) = cq.channel() {
            channel.unregister(cq.number);
        }
        cq.wait_acknowledged();
    }
    // Somebody may get a CQ at the same address before we are back.
    let known = CQS.remove(verbs);
    if let Some(cq) = &known {
        // From here on nobody else looks at it.
        cq.sends.destroy();
    }
    // SAFETY: The caller's word.
    let errno = unsafe { (real().destroy_cq)(verbs) };
    if let (Some(cq), true) = (known, errno != 0) {
        if let Some(channel) = cq.channel() {
            channel.register(cq.number, cq.verbs);
        }
        CQS.insert(verbs, cq);
    }
    errno
}

/// # Safety
///
/// See ibv_ack_cq_events(3).
pub(crate) unsafe fn ack_events(verbs: *mut ibv_cq, events: c_uint) {
    // SAFETY: The caller's word.
    let known = unsafe { of(verbs) };
    let rest = known.map_or(events, |cq| cq.acknowledge(events));
    if rest > 0 {
        // SAFETY: As above.
        unsafe { (real().ack_cq_events)(verbs, rest) };
    }
}
