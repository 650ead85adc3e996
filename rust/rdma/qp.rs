// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::ptr::NonNull;

use kernel::{
    container_of,
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_void},
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
    time::{delay::fsleep, Delta},
};

use super::{
    cgroup::Charge,
    device::as_context,
    gate::GateGuard,
    pd::Pd,
    qp_attr::{QpAttr, QpAttrMask},
    recv_buffer::{RecvBuffer, Slot},
    recv_queue::RecvQueue,
    wc::WorkCompletion,
};
use crate::bindings;

/// Why a QP is in error, `enum ib_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpError {
    /// The device, or something on this host, failed.
    Fatal = bindings::IB_EVENT_QP_FATAL,
    /// A request that made no sense.
    Request = bindings::IB_EVENT_QP_REQ_ERR,
    /// A request that was not allowed.
    Access = bindings::IB_EVENT_QP_ACCESS_ERR,
}

impl QpError {
    /// `None`: an event which is no error.
    fn from_event(event: bindings::ib_event_type) -> Option<Self> {
        match event {
            bindings::IB_EVENT_QP_FATAL => Some(Self::Fatal),
            bindings::IB_EVENT_QP_REQ_ERR => Some(Self::Request),
            bindings::IB_EVENT_QP_ACCESS_ERR => Some(Self::Access),
            _ => None,
        }
    }

    /// `enum ib_event_type`.
    pub(crate) fn raw(self) -> u32 {
        self as u32
    }
}

/// What a QP tells its owner.
pub(crate) trait QpHandler: Send + Sync + 'static {
    /// A message was received into `buffer`; to receive more, post one to `queue`.
    ///
    /// Runs in a workqueue, one completion of the QP at a time, in order. It may sleep to
    /// allocate memory, but must not wait for userspace, for a modify of the QP, or destroy
    /// the QP: both wait for it.
    fn received(self: &Arc<Self>, queue: &Arc<RecvQueue>, buffer: RecvBuffer, wc: &WorkCompletion);

    /// A receive completed in error. Runs as `received` does. All buffers complete so when
    /// the QP is in error, but those that are left when it is destroyed.
    fn flushed(&self, wc: &WorkCompletion);

    /// An asynchronous event says that the QP is in error. Runs in any context: takes spinlocks
    /// only, which are never held when a buffer is posted or a QP modified, and are taken with
    /// interrupts disabled elsewhere.
    fn error(&self, error: QpError);
}

/// What the callbacks of a QP get.
struct Context<H> {
    queue: Arc<RecvQueue>,
    handler: Arc<H>,
}

/// A CQ that the core polls in a workqueue.
///
/// # Invariants
///
/// `raw` is a CQ on the device that `charge` keeps, and all its users are gone when it is dropped.
struct Cq {
    raw: NonNull<bindings::ib_cq>,
    // After `raw`, which `drop` frees.
    _charge: Charge,
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. This waits for the work that polls the CQ.
        unsafe { bindings::ib_free_cq(self.raw.as_ptr()) }
    }
}

/// An RC QP that receives.
///
/// Dropping it sleeps, and waits for callbacks that run. None runs after that. The gate need
/// not be open.
///
/// # Invariants
///
/// - `raw` is a QP in `pd`, whose CQ is `cq`. `context` is what both call back with. `queue`
///   is attached to `raw`.
/// - `cq` is there until `drop`.
pub(crate) struct Qp<H: QpHandler> {
    raw: NonNull<bindings::ib_qp>,
    queue: Arc<RecvQueue>,
    /// The lock for modify: whether one has failed halfway since the last RESET.
    modifying: Pin<KBox<Mutex<bool>>>,
    cq: Option<Cq>,
    context: NonNull<Context<H>>,
    pd: Arc<Pd>,
    charge: Charge,
}

// SAFETY: A QP may be used and destroyed by any thread; `H` is `Send` and `Sync`.
unsafe impl<H: QpHandler> Send for Qp<H> {}
// SAFETY: Modifies exclude each other, posting has a lock, and the core allows a query at any
// time; `H` is `Send` and `Sync`.
unsafe impl<H: QpHandler> Sync for Qp<H> {}

impl<H: QpHandler> Qp<H> {
    /// Creates a QP in RESET that takes `recv_wr` buffers at a time, with its own CQ.
    ///
    /// Fails with `EINVAL` if the device has not so many work requests, as [`Charge::object`] does,
    /// or as the driver does. Sleeps.
    pub(crate) fn new(
        gate: &GateGuard<'_>,
        pd: &Arc<Pd>,
        handler: Arc<H>,
        recv_wr: u32,
    ) -> Result<Self> {
        let device = pd.device();
        let charge = Charge::object(gate, device)?;
        let cq_charge = Charge::object(gate, device)?;
        if recv_wr == 0 || recv_wr > device.max_qp_wr() || recv_wr >= device.max_cqe() {
            return Err(EINVAL);
        }

        let queue = RecvQueue::new(device.clone(), pd.local_dma_lkey(), Self::done, recv_wr)?;
        let modifying = KBox::pin_init(new_mutex!(false, "ib_xrc_qp_modify"), GFP_KERNEL_ACCOUNT)?;
        let context = KBox::new(
            Context {
                queue: queue.clone(),
                handler,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let context = ScopedContext(NonNull::from(KBox::leak(context)));

        // One more than there are receives, as there is a send queue, though not used.
        // SAFETY: The device is registered, the context lives until the CQ has been freed.
        let cq = from_err_ptr(unsafe {
            bindings::ib_xrc_helper_ib_alloc_cq_any(
                device.as_raw(),
                as_context(context.0.as_ptr()),
                (recv_wr as c_int).saturating_add(1),
                bindings::IB_POLL_UNBOUND_WORKQUEUE,
            )
        })?;
        // INVARIANT: The QP, its only user, is destroyed before.
        let cq = Cq {
            raw: NonNull::new(cq).ok_or(ENOMEM)?,
            _charge: cq_charge,
        };

        // Not all drivers take a QP without a send queue.
        let mut init = bindings::ib_qp_init_attr {
            event_handler: Some(Self::event),
            qp_context: as_context(context.0.as_ptr()),
            send_cq: cq.raw.as_ptr(),
            recv_cq: cq.raw.as_ptr(),
            cap: bindings::ib_qp_cap {
                max_send_wr: 1,
                max_recv_wr: recv_wr,
                max_send_sge: 1,
                max_recv_sge: 1,
                ..Default::default()
            },
            sq_sig_type: bindings::IB_SIGNAL_REQ_WR,
            qp_type: bindings::IB_QPT_RC,
            ..Default::default()
        };
        // SAFETY: PD and CQ are there and of a registered device, and stay until the QP has
        // been destroyed, as does the context.
        let raw = unsafe { bindings::ib_xrc_helper_ib_create_qp(pd.as_raw(), &mut init) };
        let raw = from_err_ptr(raw)?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: `drop` closes the queue before it destroys the QP.
        unsafe { queue.attach(raw) };

        Ok(Self {
            raw,
            queue,
            modifying,
            cq: Some(cq),
            context: context.keep(),
            pd: pd.clone(),
            charge,
        })
    }

    /// The QP number, 24 bits. Any context.
    pub(crate) fn num(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// The port that the QP uses; 0 before INIT. Not to be called while the QP is modified if
    /// the answer matters.
    pub(crate) fn port(&self) -> u32 {
        // SAFETY: By the type invariants. A modify may write it meanwhile.
        unsafe { (&raw const (*self.raw.as_ptr()).port).read_volatile() }
    }

    /// The receive queue, which may be kept and posted to even when the QP is gone.
    pub(crate) fn queue(&self) -> &Arc<RecvQueue> {
        &self.queue
    }

    fn check(&self, gate: &GateGuard<'_>) -> Result {
        if !gate.is_inside(self.charge.live().device().gate()) {
            return Err(EINVAL);
        }
        Ok(())
    }

    fn modify_raw(&self, attr: &mut bindings::ib_qp_attr, mask: QpAttrMask) -> Result {
        // SAFETY: By the type invariants the QP is there, and the caller has the mutex.
        to_result(unsafe {
            bindings::ib_xrc_helper_ib_modify_qp(self.raw.as_ptr(), attr, mask.bits() as c_int)
        })
    }

    /// Modifies the QP, in the caller's thread. Of a RoCE path the destination's MAC address
    /// is resolved. Sleeps.
    ///
    /// Modifies exclude each other here, for soundness; who needs the state in which one
    /// finds the QP has a lock of its own around it. The masks are those of an RC QP.
    ///
    /// To RESET a QP goes through ERR, so that all posted buffers complete, and waits for
    /// that. From RESET on no buffer can be posted, from INIT on it can.
    ///
    /// Drivers may change the state and fail afterwards: [`query`](Self::query) tells. Of such
    /// a QP the buffers come back all the same, in RESET and ERR.
    pub(crate) fn modify(&self, gate: &GateGuard<'_>, attr: &QpAttr, mask: QpAttrMask) -> Result {
        self.check(gate)?;
        let mut raw = attr.clone().into_raw();
        let next = mask.contains(QpAttrMask::STATE).then_some(raw.qp_state);
        let mut half_done = self.modifying.lock();

        match next {
            Some(bindings::IB_QPS_RESET) => {
                self.flush(gate, *half_done)
                    .and_then(|()| self.modify_raw(&mut raw, mask))
                    .inspect_err(|_| self.queue.set_open(true))?;
                *half_done = false;
            }
            Some(bindings::IB_QPS_ERR) if *half_done => self
                .flush(gate, true)
                .and_then(|()| self.modify_raw(&mut raw, mask))
                .inspect_err(|_| self.queue.set_open(true))?,
            _ => {
                // Who finds fault with the attributes does so before anything is done.
                self.modify_raw(&mut raw, mask)
                    .inspect_err(|&error| *half_done |= error != EINVAL)?;
                if next == Some(bindings::IB_QPS_INIT) {
                    self.queue.set_open(true);
                }
            }
        }
        Ok(())
    }

    /// Gets all posted buffers back, through ERR. None can be posted then.
    fn flush(&self, gate: &GateGuard<'_>, half_done: bool) -> Result {
        self.queue.set_open(false);
        if self.queue.is_drained() {
            return Ok(());
        }

        let mut error = bindings::ib_qp_attr {
            qp_state: bindings::IB_QPS_ERR,
            ..Default::default()
        };
        let result = self.modify_raw(&mut error, QpAttrMask::STATE);

        if half_done {
            // If an earlier attempt has failed, it may have left RESET behind, and ERR is refused.
            return self.forget();
        }
        result?;
        self.wait_drained(gate)
    }

    /// Gets all posted buffers back from a device which may not complete them in ERR, as rxe if it
    /// had no memory for a modify. It is in ERR then.
    ///
    /// RESET makes the device forget them, but does not say which have completed before and wait
    /// on the CQ. All of these have been handled when another receive has completed, as the
    /// core's draining has it.
    fn forget(&self) -> Result {
        let mut reset = bindings::ib_qp_attr {
            qp_state: bindings::IB_QPS_RESET,
            ..Default::default()
        };
        let mut init = bindings::ib_qp_attr {
            qp_state: bindings::IB_QPS_INIT,
            port_num: self.port(),
            ..Default::default()
        };

        self.modify_raw(&mut reset, QpAttrMask::STATE)?;
        self.modify_raw(&mut init, QpAttrMask::TO_INIT)?;
        // SAFETY: By the type invariants the QP and its CQ, which is of the core's making, are
        // there. The QP is in INIT, with nothing posted, and nobody posts or modifies: the
        // receive queue is closed, and the caller has the mutex.
        unsafe { bindings::ib_drain_rq(self.raw.as_ptr()) };
        // SAFETY: See above: no device knows a buffer, and no completion is left.
        unsafe { self.queue.reclaim() };
        Ok(())
    }

    fn wait_drained(&self, gate: &GateGuard<'_>) -> Result {
        const STEP_US: i64 = 1_000;
        const PATIENCE_STEPS: usize = 10_000;

        for _ in 0..PATIENCE_STEPS {
            if self.queue.is_drained() {
                return Ok(());
            }
            if gate.is_closing() {
                return Err(EIO);
            }
            fsleep(Delta::from_micros(STEP_US));
        }
        Err(ETIMEDOUT)
    }

    /// Asks the device for the QP's attributes. Sleeps.
    pub(crate) fn query(&self, gate: &GateGuard<'_>) -> Result<QpAttr> {
        self.check(gate)?;
        let mut attr = bindings::ib_qp_attr::default();
        let mut init = bindings::ib_qp_init_attr::default();

        // SAFETY: By the type invariants the QP is there.
        to_result(unsafe {
            bindings::ib_query_qp(
                self.raw.as_ptr(),
                &mut attr,
                bindings::IB_QP_ATTR_STANDARD_BITS as c_int,
                &mut init,
            )
        })?;
        Ok(QpAttr::from_raw(attr))
    }

    /// # Safety
    ///
    /// Called by the core for a receive that was posted with it: `cq` is the CQ of a `Qp<H>`
    /// whose `drop` has not freed it, and `wc` a completion on it.
    unsafe extern "C" fn done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: `new` has set it, and it lives as long as the CQ.
        let context = unsafe { &*(*cq).cq_context.cast::<Context<H>>() };
        // SAFETY: The core does not touch it meanwhile.
        let wc = unsafe { WorkCompletion::from_raw(wc) };
        // SAFETY: All receives are of slots. `wc.qp` must not be used: it may be gone.
        let slot = unsafe { container_of!(wc.cqe(), Slot, cqe) };
        let Some(slot) = NonNull::new(slot) else {
            return;
        };
        let len = if wc.is_success() && !wc.is_rdma_write() {
            wc.byte_len()
        } else {
            0
        };
        // SAFETY: It has completed.
        let buffer = unsafe { context.queue.complete(slot, len) };

        if wc.is_success() {
            context.handler.received(&context.queue, buffer, wc);
        } else {
            drop(buffer);
            context.handler.flushed(wc);
        }
        context.queue.handled();
    }

    /// # Safety
    ///
    /// Called by the core or a driver, before `ib_destroy_qp()` has returned: `context` is
    /// that of a `Qp<H>`.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: The context lives longer than the QP.
        let context = unsafe { &*context.cast::<Context<H>>() };
        // SAFETY: The event is valid during the call.
        let event = unsafe { (*event).event };

        if let Some(error) = QpError::from_event(event) {
            context.handler.error(error);
        }
    }
}

impl<H: QpHandler> Drop for Qp<H> {
    fn drop(&mut self) {
        self.queue.close();
        // SAFETY: By the type invariants, and nobody can reach the QP any more.
        let ret = unsafe { bindings::ib_xrc_helper_ib_destroy_qp(self.raw.as_ptr()) };
        if let Err(e) = to_result(ret) {
            // Drivers should not refuse this. The device may still use all this memory, so
            // it is never freed, and the device is kept.
            pr_err!("cannot destroy QP {}: {:?}\n", self.num(), e);
            core::mem::forget((
                self.cq.take(),
                self.queue.clone(),
                self.pd.clone(),
                self.charge.live().again(),
            ));
            return;
        }
        // Waits for completions that are being handled. What is left on the CQ is lost.
        self.cq = None;
        // SAFETY: Both are gone, and `charge` keeps the device.
        unsafe { self.queue.reclaim() };
        // SAFETY: It is from a `KBox`, and there is nobody left who would call back with it.
        drop(unsafe { KBox::from_raw(self.context.as_ptr()) });
    }
}

/// A context that is freed unless it is kept.
struct ScopedContext<H>(NonNull<Context<H>>);

impl<H> ScopedContext<H> {
    fn keep(self) -> NonNull<Context<H>> {
        let context = self.0;

        core::mem::forget(self);
        context
    }
}

impl<H> Drop for ScopedContext<H> {
    fn drop(&mut self) {
        // SAFETY: It is from a `KBox`. Locals are dropped in reverse order, so the CQ, which
        // calls back with it, is gone.
        drop(unsafe { KBox::from_raw(self.0.as_ptr()) });
    }
}
