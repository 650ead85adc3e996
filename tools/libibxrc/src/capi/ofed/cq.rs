// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! CQs that XRC SRQs and QPs complete into.
//!
//! Such a CQ is one of libibverbs, into which other QPs may complete as well. Completions of
//! its XRC SRQs come by a ring of the kernel module, those of its XRC QPs by CQs that these
//! have for themselves.

use std::{
    ffi::{c_int, c_uint},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock,
    },
};

use super::{
    channel::Channel, checked, fail, libibverbs::Libibverbs, lock, null, qp::Qp, status,
    table::Table,
};
use crate::{
    capi::completion::completion,
    error::{Errno, Error, Result},
    verbs::*,
    Context,
};

static CQS: Table<Cq> = Table::new();

#[derive(Default)]
pub(super) struct Cq {
    /// SRQs and QPs that complete into it.
    users: AtomicUsize,
    ring: OnceLock<Ring>,
    making: Mutex<()>,
    qps: RwLock<Vec<Arc<Qp>>>,
    turn: AtomicUsize,
    /// Events the program has that libibverbs does not know of, and has not acknowledged.
    events: Mutex<c_uint>,
    acknowledged: Condvar,
}

struct Ring {
    cq: crate::Cq,
    _channel: Option<Arc<Channel>>,
}

/// Something that completes into a CQ, which is not destroyed before it.
pub(super) struct User(Arc<Cq>);

impl User {
    pub(super) fn cq(&self) -> &Cq {
        &self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

impl Cq {
    /// What is known of a CQ, for what completes into it.
    pub(super) fn used(cq: *mut ibv_cq) -> User {
        let known = CQS.get_or_make(cq, Self::default);
        known.users.fetch_add(1, Ordering::Relaxed);
        User(known)
    }

    /// `None`: no XRC object completes into it.
    pub(super) fn find(cq: *const ibv_cq) -> Option<Arc<Self>> {
        CQS.get(cq)
    }

    /// What SRQs complete into.
    ///
    /// # Safety
    ///
    /// The CQ that this is known of.
    pub(super) unsafe fn ring(&self, verbs: *mut ibv_cq, module: &Context) -> Result<&crate::Cq> {
        // It does not grow with the CQ.
        const ENTRIES: u32 = 1024;
        let _making = lock(&self.making);
        if let Some(ring) = self.ring.get() {
            return Ok(&ring.cq);
        }
        // SAFETY: The caller's word.
        let verbs_ref = unsafe { verbs.as_ref() }.ok_or_else(null)?;
        let (_, limits) = module.query()?;
        let entries = (verbs_ref.cqe as u32).max(ENTRIES).min(limits.max_cqe);
        let channel = match verbs_ref.channel.is_null() {
            true => None,
            false => Some(Channel::of(verbs_ref.channel, module)?),
        };
        let to = channel.as_ref().map(|channel| channel.module());
        let cq = module.create_cq(entries, to, verbs.expose_provenance() as u64)?;
        if channel.is_some() {
            // The program may have asked for an event before. One that it did not ask for
            // does no harm.
            let _ = cq.arm(false);
        }
        let ring = Ring {
            cq,
            _channel: channel,
        };
        Ok(&self.ring.get_or_init(|| ring).cq)
    }

    pub(super) fn add(&self, qp: &Arc<Qp>) {
        let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
        qps.push(qp.clone());
    }

    pub(super) fn remove(&self, qp: &Qp) {
        let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
        qps.retain(|other| !std::ptr::eq(&**other, qp));
    }

    /// The program has got an event that libibverbs does not know of.
    pub(super) fn event_taken(&self) {
        *lock(&self.events) += 1;
    }

    /// The program acknowledges events. Returns how many of them libibverbs knows of.
    fn acknowledge(&self, events: c_uint) -> c_uint {
        let mut open = lock(&self.events);
        let ours = events.min(*open);
        *open -= ours;
        self.acknowledged.notify_all();
        events - ours
    }

    fn wait_acknowledged(&self) {
        let mut open = lock(&self.events);
        while *open > 0 {
            let woken = self.acknowledged.wait(open);
            open = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes completions from all sources, by turns. A negative number is one of the device's
    /// ibv_poll_cq(3).
    ///
    /// # Safety
    ///
    /// The CQ that this is known of; there is room for `max`.
    unsafe fn poll(&self, verbs: *mut ibv_cq, max: usize, wc: *mut ibv_wc) -> Result<c_int> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut n = 0;
        for source in 0..3 {
            // SAFETY: There is room for `max - n`.
            let (rest, room) = unsafe { (wc.add(n), max - n) };
            if room == 0 {
                break;
            }
            n += match turn.wrapping_add(source) % 3 {
                // SAFETY: As above.
                0 => match unsafe { poll_device(verbs, room as c_int, rest) } {
                    error if error < 0 && n == 0 => return Ok(error),
                    // It is told the next time.
                    got => got.max(0) as usize,
                },
                // SAFETY: As above.
                1 => match unsafe { self.poll_ring(room, rest) } {
                    Err(error) if n == 0 => return Err(error),
                    got => got.unwrap_or(0),
                },
                // SAFETY: As above.
                _ => unsafe { self.poll_qps(turn, room, rest) },
            };
        }
        Ok(n as c_int)
    }

    /// # Safety
    ///
    /// There is room for `max`.
    unsafe fn poll_ring(&self, max: usize, wc: *mut ibv_wc) -> Result<usize> {
        let Some(ring) = self.ring.get() else {
            return Ok(0);
        };
        let mut n = 0;
        ring.cq.poll_raw(max, |cqe| {
            // SAFETY: The caller's word. It may be uninitialised.
            unsafe { wc.add(n).write(completion(&cqe).wc) };
            n += 1;
        })
    }

    /// # Safety
    ///
    /// There is room for `max`.
    unsafe fn poll_qps(&self, turn: usize, max: usize, wc: *mut ibv_wc) -> usize {
        let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
        let (after, before) = qps.split_at(turn.checked_rem(qps.len()).unwrap_or(0));
        let mut n = 0;
        for qp in before.iter().chain(after) {
            while n < max {
                let Some(found) = qp.poll() else {
                    break;
                };
                // SAFETY: The caller's word. It may be uninitialised.
                unsafe { wc.add(n).write(found) };
                n += 1;
            }
        }
        n
    }

    fn arm(&self, solicited_only: c_int) -> Result<()> {
        if let Some(ring) = self.ring.get() {
            // The program polls once more; what was there raises no event.
            let _ = ring.cq.arm(solicited_only != 0);
        }
        let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
        qps.iter().try_for_each(|qp| qp.arm(solicited_only))
    }
}

/// # Safety
///
/// A good CQ; there is room for `max`.
pub(super) unsafe fn poll_device(cq: *mut ibv_cq, max: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: The caller's word.
    match unsafe { (*(*cq).context).ops.poll_cq } {
        // SAFETY: As above.
        Some(poll) => unsafe { poll(cq, max, wc) },
        None => -1,
    }
}

/// # Safety
///
/// A good CQ.
pub(super) unsafe fn arm_device(cq: *mut ibv_cq, solicited_only: c_int) -> Result<()> {
    // SAFETY: The caller's word.
    let errno = match unsafe { (*(*cq).context).ops.req_notify_cq } {
        // SAFETY: As above.
        Some(arm) => unsafe { arm(cq, solicited_only) },
        None => libc::EOPNOTSUPP,
    };
    checked("request completion events", errno)
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_poll_cq(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    let Some(known) = Cq::find(cq) else {
        // SAFETY: The caller's word.
        return unsafe { poll_device(cq, num_entries, wc) };
    };
    let max = usize::try_from(num_entries).unwrap_or(0);
    // SAFETY: As above.
    match unsafe { known.poll(cq, max, wc) } {
        Ok(n) => n,
        Err(error) => -fail(error),
    }
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_req_notify_cq(
    cq: *mut ibv_cq,
    solicited_only: c_int,
) -> c_int {
    // SAFETY: The caller's word.
    let armed = unsafe { arm_device(cq, solicited_only) };
    status(armed.and_then(|()| Cq::find(cq).map_or(Ok(()), |known| known.arm(solicited_only))))
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status((|| {
        let lib = Libibverbs::get()?;
        if let Some(known) = Cq::find(cq) {
            if known.users.load(Ordering::Acquire) > 0 {
                return Err(Error::Call {
                    what: "destroy the CQ",
                    errno: Errno::EBUSY,
                    advice: "SRQs or QPs that complete into it still exist",
                });
            }
            known.wait_acknowledged();
        }
        // Another CQ may be at this address before libibverbs comes back.
        let known = CQS.remove(cq);
        // SAFETY: The caller's word.
        let destroyed = checked("destroy the CQ", unsafe { (lib.destroy_cq)(cq) });
        if let (Err(_), Some(known)) = (&destroyed, known) {
            CQS.insert(cq, known);
        }
        destroyed
    })())
}

/// # Safety
///
/// See `infiniband/xrc_ofed.h`.
#[no_mangle]
pub(super) unsafe extern "C" fn ibxrc_ofed_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    let rest = Cq::find(cq).map_or(nevents, |known| known.acknowledge(nevents));
    if let (true, Ok(lib)) = (rest > 0, Libibverbs::get()) {
        // SAFETY: The caller's word.
        unsafe { (lib.ack_cq_events)(cq, rest) };
    }
}
