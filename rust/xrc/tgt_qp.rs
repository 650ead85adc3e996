// SPDX-License-Identifier: GPL-2.0

//! TGT QPs: owned by their domain, shared by whoever registers.

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        lock::mutex::MutexGuard,
        Arc,
        Mutex,
        SetOnce, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

use crate::{
    bindings,
    rdma::{
        gate::GateGuard,
        qp::QpError,
        qp_attr::{
            self,
            QpAttr,
            QpAttrMask,
            QpState, //
        }, //
    },
};

use super::{
    backend::{
        Arrivals,
        Backend,
        Target,
        TgtQp as _,
        Transition, //
    },
    domain::Domain,
    event_file::EventSource,
    holders::Holders,
    lifetime::{
        members::{
            Member,
            Reason, //
        },
        state::{
            self,
            StateCell, //
        }, //
    },
    quota::Charge,
    wait::Deadline, //
};

const _: () = assert!(state::RESET == bindings::IB_QPS_RESET && state::ERR == bindings::IB_QPS_ERR);

/// What the TGT QPs and SRQs of a job have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobKey(u64);

impl JobKey {
    /// Any number is one.
    pub(crate) fn new(key: u64) -> Self {
        Self(key)
    }
}

/// Of a noted error: the QP is to be put in ERR, as the device has found no fault.
const GIVEN_UP: u32 = 1 << 23;

/// A QP of the backend, and what it counts.
struct Qp<B: Backend> {
    qp: B::TgtQp,
    _charge: Charge,
}

/// A TGT QP.
#[pin_data]
pub(crate) struct TgtQp<B: Backend> {
    /// Has this one as a member: reclaiming it ends the cycle.
    domain: Arc<Domain<B>>,
    key: Option<JobKey>,
    num: SetOnce<u32>,
    /// The lock for modify. Empty before the QP exists and once it was destroyed. Completion and
    /// event callbacks never take it, so that destroying may wait for them.
    #[pin]
    qp: Mutex<Option<Qp<B>>>,
    /// Written with the lock held, but for errors.
    state: StateCell,
    dest_qp_num: Atomic<u32>,
    recv_msgs: Atomic<u64>,
    recv_bytes: Atomic<u64>,
    refused_msgs: Atomic<u64>,
    #[pin]
    holders: Holders,
    #[pin]
    error_work: Work<TgtQp<B>>,
}

impl_has_work! {
    impl{B: Backend} HasWork<TgtQp<B>> for TgtQp<B> { self.error_work }
}

/// The QP of a [`TgtQp`], locked.
type Locked<'a, B> = MutexGuard<'a, Option<Qp<B>>>;

/// A transition that was not made.
struct Failed {
    error: Error,
    /// From and to which state, if the device was asked.
    transition: Option<(QpState, QpState)>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            error,
            transition: None,
        }
    }
}

/// What takes a QP to RESET or ERR.
fn to_state(state: QpState) -> bindings::ib_uverbs_qp_attr {
    bindings::ib_uverbs_qp_attr {
        qp_attr_mask: QpAttrMask::STATE.bits(),
        qp_state: state.raw(),
        ..Default::default()
    }
}

impl<B: Backend> TgtQp<B> {
    /// Makes a QP in the RESET state. Sleeps.
    pub(super) fn new(
        domain: &Arc<Domain<B>>,
        gate: &GateGuard<'_>,
        key: Option<JobKey>,
        charge: Charge,
    ) -> Result<Arc<Self>> {
        let tgt_qp = Arc::pin_init(
            pin_init!(Self {
                domain: domain.clone(),
                key,
                num: SetOnce::new(),
                qp <- new_mutex!(None, "TgtQp::qp"),
                state: StateCell::new(),
                dest_qp_num: Atomic::new(0),
                recv_msgs: Atomic::new(0),
                recv_bytes: Atomic::new(0),
                refused_msgs: Atomic::new(0),
                holders <- Holders::new(),
                error_work <- new_work!("TgtQp::error_work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // The QP refers to its target: `destroy` ends the cycle.
        let qp = B::create_tgt_qp(domain.backend(), gate, tgt_qp.clone(), key)?;

        tgt_qp.num.populate(qp.num());
        *tgt_qp.qp.lock() = Some(Qp {
            qp,
            _charge: charge,
        });
        Ok(tgt_qp)
    }

    /// The QP number, 24 bits.
    pub(crate) fn num(&self) -> u32 {
        // Populated before anybody else sees the object.
        self.num.copy().unwrap_or(0)
    }

    /// The job that it belongs to.
    pub(crate) fn key(&self) -> Option<JobKey> {
        self.key
    }

    /// Who is registered with it.
    pub(crate) fn holders(&self) -> &Holders {
        &self.holders
    }

    /// Destroys the QP; later calls on it fail. Sleeps.
    fn destroy(&self) {
        let qp = self.qp.lock().take();

        // Waits for callbacks, which do not take the lock; modify may, so it is not held here.
        drop(qp);
    }

    /// Takes the lock. Sleeps.
    ///
    /// `ESTALE`: the QP was destroyed. `ETIMEDOUT`, `EINTR`, `EIO`: see [`Deadline::poll`].
    fn lock(&self, gate: &GateGuard<'_>, deadline: Deadline) -> Result<Locked<'_, B>> {
        let qp = deadline.poll(gate, || self.qp.try_lock())?;

        if qp.is_none() {
            return Err(ESTALE);
        }
        Ok(qp)
    }

    /// Makes one transition. Sleeps.
    ///
    /// Errnos as `ib_modify_qp(3)` on an XRC TGT QP: `EINVAL` for a transition or mask that is
    /// not allowed; and as [`lock`](Self::lock).
    pub(crate) fn modify(
        &self,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
    ) -> Result {
        let qp = self.lock(gate, Deadline::NEVER)?;
        let result = self.modify_locked(&qp, gate, attr);

        drop(qp);
        // One that has failed may have ended in ERR, too.
        self.domain.tgt_qp_modified(self);
        result
    }

    fn modify_locked(
        &self,
        locked: &Locked<'_, B>,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
    ) -> Result {
        self.attempt(locked, gate, attr).map_err(|failed| {
            if let Some(transition) = failed.transition {
                self.take_back(locked, gate, transition);
            }
            failed.error
        })
    }

    /// Makes one transition, and leaves the state alone if that fails.
    fn attempt(
        &self,
        locked: &Locked<'_, B>,
        gate: &GateGuard<'_>,
        uattr: &bindings::ib_uverbs_qp_attr,
    ) -> Result<(), Failed> {
        let Qp { qp, .. } = (**locked).as_ref().ok_or(ESTALE)?;
        let (attr, mask) = QpAttr::from_uapi(self.domain.services().device(), uattr, qp.port())?;
        let mask = qp_attr::tgt_mask(mask);
        let from = self.state();

        // Drivers believe what the caller says here.
        if mask.contains(QpAttrMask::CUR_STATE) && uattr.cur_qp_state != from.raw() {
            return Err(EINVAL.into());
        }

        let to = if mask.contains(QpAttrMask::STATE) {
            attr.state()?
        } else {
            from
        };

        if !qp_attr::tgt_may_modify(from, to, mask) {
            return Err(EINVAL.into());
        }

        // Messages may come before this returns.
        let old_dest_qp_num = self.dest_qp_num.load(Relaxed);

        if mask.contains(QpAttrMask::DEST_QPN) {
            self.dest_qp_num.store(attr.dest_qp_num(), Relaxed);
        }
        if let Err(error) = qp.modify(gate, Transition { from, to, mask }, attr) {
            self.dest_qp_num.store(old_dest_qp_num, Relaxed);
            return Err(Failed {
                error,
                transition: Some((from, to)),
            });
        }
        self.entered(to);
        Ok(())
    }

    /// After a transition that has failed: a QP that was not connected, and whose driver has
    /// changed the state before it failed, as rxe does without memory for RTR, is taken back to
    /// where it was. If that fails too, the state says how far it got.
    fn take_back(
        &self,
        locked: &Locked<'_, B>,
        gate: &GateGuard<'_>,
        (from, to): (QpState, QpState),
    ) {
        let attr = self.find_state(locked, gate, (from, to));
        let now = self.state();

        if now == from || now != to || !matches!(from, QpState::Reset | QpState::Init) {
            return;
        }

        let reset = to_state(QpState::Reset);
        let mut back = self.attempt_and_look(locked, gate, &reset);

        if let (Ok(()), QpState::Init, Some(attr)) = (back, from, attr) {
            back = self.attempt_and_look(locked, gate, &attr.to_init());
        }
        if let Err(error) = back {
            pr_warn!(
                "cannot take QP {} back to {:?}: {:?}\n",
                self.num(),
                from,
                error
            );
        }
    }

    fn attempt_and_look(
        &self,
        locked: &Locked<'_, B>,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
    ) -> Result {
        self.attempt(locked, gate, attr).map_err(|failed| {
            if let Some(transition) = failed.transition {
                self.find_state(locked, gate, transition);
            }
            failed.error
        })
    }

    /// Finds out which state the QP is in after a transition that has failed. Returns its
    /// attributes if the device was asked for them, and answered.
    fn find_state(
        &self,
        locked: &Locked<'_, B>,
        gate: &GateGuard<'_>,
        (from, to): (QpState, QpState),
    ) -> Option<QpAttr> {
        let Qp { qp, .. } = (**locked).as_ref()?;

        if to == QpState::Reset {
            // The way there leads through ERR, and is to be tried again.
            self.entered(QpState::Err);
            return None;
        }

        let attr = qp.query(gate).ok();
        let now = attr
            .as_ref()
            .and_then(|attr| attr.state().ok())
            .unwrap_or(QpState::Err);

        if now != from || from == QpState::Reset {
            // On the way back to RESET, buffers that had been posted were flushed.
            self.entered(now);
        }
        attr
    }

    /// The state, as far as is known without asking the device.
    fn state(&self) -> QpState {
        self.state.get().try_into().unwrap_or(QpState::Err)
    }

    /// The QP has gone to a state because it was asked to.
    fn entered(&self, state: QpState) {
        self.state.entered(state.raw());
        if state == QpState::Reset {
            // The reset has waited for everything that was under way.
            self.dest_qp_num.store(0, Relaxed);
            self.holders.recovered();
        }
    }

    /// Takes the QP through INIT, RTR and RTS, up to `attr.qp_state`. Returns the state that the
    /// QP is in afterwards, also when a transition failed. Sleeps.
    ///
    /// Errnos as [`modify`](Self::modify).
    pub(crate) fn connect(
        &self,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
        deadline: Deadline,
    ) -> (Result, QpState) {
        let result = self
            .lock(gate, deadline)
            .and_then(|qp| self.connect_locked(&qp, gate, attr, deadline));
        let state = self.state();

        if result.is_err() {
            self.domain.tgt_qp_modified(self);
        }
        (result, state)
    }

    fn connect_locked(
        &self,
        qp: &Locked<'_, B>,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
        deadline: Deadline,
    ) -> Result {
        const STATES: [QpState; 4] = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];

        let given = QpAttrMask::from_bits(attr.qp_attr_mask);

        if !QpAttrMask::STANDARD.contains(given) {
            return Err(EOPNOTSUPP);
        }

        let position = |state| STATES.iter().position(|&other| other == state);
        let from = position(self.state()).ok_or(EINVAL)?;
        let to = position(attr.qp_state.try_into()?).ok_or(EINVAL)?;
        let path = STATES.get(from..=to).ok_or(EINVAL)?;

        if path.len() < 2 {
            return Err(EINVAL);
        }
        for step in path.windows(2) {
            let &[from, to] = step else {
                return Err(EINVAL);
            };
            let (required, optional) = qp_attr::tgt_step(from, to).ok_or(EINVAL)?;
            let mask = required.union(given.intersection(optional));
            let mut attr = *attr;

            deadline.proceed(gate)?;
            attr.qp_state = to.raw();
            attr.qp_attr_mask = mask.bits();
            self.modify_locked(qp, gate, &attr)?;
        }
        Ok(())
    }

    /// Stops receiving, and waits for what has arrived: see `ib_xrc_tgt_qp_disconnect_attrs`.
    /// Sleeps.
    ///
    /// Errnos as [`modify`](Self::modify).
    pub(crate) fn disconnect(
        &self,
        gate: &GateGuard<'_>,
        deadline: Deadline,
    ) -> Result<bindings::ib_xrc_disconnect_info> {
        /// How much longer the device, or the memory of a receiver, may take.
        const GRACE_MS: u32 = 5_000;

        let last = deadline.extended_ms(GRACE_MS);
        let qp = self.lock(gate, last)?;
        let arrivals = match &*qp {
            Some(Qp { qp, .. }) => qp.arrivals(),
            None => return Err(ESTALE),
        };
        let connection = self.state.connection();
        let delivered_before = arrivals.tally(connection).delivered;

        let stopped = self.modify_locked(&qp, gate, &to_state(QpState::Err));

        drop(qp);

        let settled =
            stopped.and_then(|()| self.settle(gate, deadline, last, connection, &*arrivals));

        // Not before: what the device has received is lost if the QP is destroyed.
        self.domain.tgt_qp_modified(self);

        Ok(bindings::ib_xrc_disconnect_info {
            flushed_msgs: settled?,
            delivered_msgs: arrivals
                .tally(connection)
                .delivered
                .saturating_sub(delivered_before),
        })
    }

    /// Waits for what has arrived on a connection that is over, and drops what is left at the
    /// deadline. Returns how many that were.
    fn settle(
        &self,
        gate: &GateGuard<'_>,
        deadline: Deadline,
        last: Deadline,
        connection: u32,
        arrivals: &dyn Arrivals,
    ) -> Result<u64> {
        let none_waits = || (arrivals.tally(connection).waiting == 0).then_some(());

        last.poll(gate, || arrivals.have_ended(connection).then_some(()))?;

        let mut flushed_msgs: u64 = 0;

        match deadline.poll(gate, none_waits) {
            Err(error) if error == ETIMEDOUT => last.poll(gate, || {
                // Once more for those whose copy was begun, and had to be put off.
                flushed_msgs = flushed_msgs.saturating_add(arrivals.flush(connection));
                none_waits()
            })?,
            result => result?,
        }
        Ok(flushed_msgs)
    }

    /// The attributes as the device has them. Sleeps. Errnos as [`modify`](Self::modify).
    pub(crate) fn query(&self, gate: &GateGuard<'_>) -> Result<bindings::ib_uverbs_qp_attr> {
        let qp = self.lock(gate, Deadline::NEVER)?;
        let Qp { qp, .. } = (*qp).as_ref().ok_or(ESTALE)?;

        let mut attr = qp.query(gate)?.to_uapi();

        // An error counts from when it is noted on, as in `info`; the device is told later.
        if self.state() == QpState::Err {
            attr.qp_state = QpState::Err.raw();
        }
        Ok(attr)
    }

    /// The QP as userspace sees it. Does not wait for a modify.
    pub(crate) fn info(&self, refs: u32) -> bindings::ib_xrc_tgt_qp_info {
        bindings::ib_xrc_tgt_qp_info {
            qp_num: self.num(),
            state: self.state.get(),
            refs,
            dest_qp_num: self.dest_qp_num.load(Relaxed),
            recv_msgs: self.recv_msgs.load(Relaxed),
            recv_bytes: self.recv_bytes.load(Relaxed),
            refused_msgs: self.refused_msgs.load(Relaxed),
            reserved: 0,
        }
    }

    /// Notes an error, `enum ib_event_type` and maybe [`GIVEN_UP`], and has it seen to. Any context.
    fn note_error(self: Arc<Self>, connection: u32, error: u32) {
        if self.state.fail(connection, error) {
            let services = self.domain.services().clone();

            // If the work is queued already it will do.
            let _ = services.workqueues().errors().enqueue::<Arc<Self>, 0>(self);
        }
    }

    /// Sees to the error that was noted: the QP goes to ERR, its holders are told, and it is
    /// destroyed if the policy says so. Sleeps.
    fn handle_error(&self, gate: &GateGuard<'_>) {
        let qp = self.qp.lock();
        // A QP that was reset since, or destroyed, is left alone.
        let (true, Some(error)) = (qp.is_some(), self.state.error()) else {
            return;
        };

        // Not if the device does: it may be about to tell the peer why.
        if error & GIVEN_UP != 0 {
            if let Err(error) = self.modify_locked(&qp, gate, &to_state(QpState::Err)) {
                pr_err!(
                    "cannot put QP {} in the error state: {:?}\n",
                    self.num(),
                    error
                );
            }
        }

        // With the lock held, so that a RESET comes before or after.
        self.holders.failed(self.num(), error & !GIVEN_UP);
        drop(qp);
        self.domain.tgt_qp_failed(self);
    }
}

impl<B: Backend> Member for TgtQp<B> {
    fn num(&self) -> u32 {
        self.num()
    }

    fn is_failed(&self) -> bool {
        self.state() == QpState::Err
    }

    fn reclaim(&self, reason: Reason) {
        self.destroy();
        self.domain.tgt_qp_reclaimed(self, reason);
    }
}

impl<B: Backend> Target for TgtQp<B> {
    fn failed(self: Arc<Self>, connection: u32, error: QpError) {
        self.note_error(connection, error.raw());
    }

    fn give_up(self: Arc<Self>, connection: u32, error: QpError) {
        self.note_error(connection, error.raw() | GIVEN_UP);
    }

    fn connection(&self) -> u32 {
        self.state.connection()
    }

    fn dest_qp_num(&self) -> u32 {
        self.dest_qp_num.load(Relaxed)
    }

    fn delivered(&self, bytes: u64) {
        self.recv_msgs.add(1u64, Relaxed);
        self.recv_bytes.add(bytes, Relaxed);
    }

    fn refused(&self) {
        self.refused_msgs.add(1u64, Relaxed);
    }
}

impl<B: Backend> WorkItem for TgtQp<B> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Ok(gate) = this.domain.services().device().enter() {
            this.handle_error(&gate);
        }
    }
}

/// A registration with a TGT QP; dropping it gives it back. That sleeps.
///
/// # Invariants
///
/// It is counted in the members of the domain, unless the QP was reclaimed.
pub(crate) struct Registration<B: Backend> {
    domain: Arc<Domain<B>>,
    tgt_qp: Arc<TgtQp<B>>,
    /// Its number among the holders; 0 before it is one.
    holder: u64,
    /// The QP was made for it, and its creator does not know yet.
    untold: Atomic<u32>,
}

impl<B: Backend> Registration<B> {
    /// Makes a TGT QP and registers with it, to be told through `source`. Sleeps.
    pub(crate) fn create(
        domain: &Arc<Domain<B>>,
        gate: &GateGuard<'_>,
        key: Option<JobKey>,
        source: Option<EventSource>,
    ) -> Result<Self> {
        let tgt_qp = domain.create_tgt_qp(gate, key)?;

        Self::new(domain, tgt_qp, 1, source)
    }

    /// The creator of the QP knows it now: it is not destroyed with this, unless the policy says so.
    pub(crate) fn told(&self) {
        self.untold.store(0, Relaxed);
    }

    /// Registers with a TGT QP, to be told through `source`. `EINVAL`: the domain has none of this
    /// number. `EACCES`: it has another key. Sleeps.
    pub(crate) fn open(
        domain: &Arc<Domain<B>>,
        qp_num: u32,
        key: Option<JobKey>,
        source: Option<EventSource>,
    ) -> Result<Self> {
        if domain.find_tgt_qp(qp_num)?.key() != key {
            return Err(EACCES);
        }

        let tgt_qp = domain.get_tgt_qp(qp_num)?;
        // The number may be another QP's by now.
        let has_key = tgt_qp.key() == key;
        let registration = Self::new(domain, tgt_qp, 0, source)?;

        if has_key {
            Ok(registration)
        } else {
            Err(EACCES)
        }
    }

    /// `tgt_qp` was counted for this registration.
    fn new(
        domain: &Arc<Domain<B>>,
        tgt_qp: Arc<TgtQp<B>>,
        untold: u32,
        source: Option<EventSource>,
    ) -> Result<Self> {
        // INVARIANT: The caller says so.
        let mut registration = Self {
            domain: domain.clone(),
            tgt_qp,
            holder: 0,
            untold: Atomic::new(untold),
        };
        let tgt_qp = &registration.tgt_qp;

        registration.holder = tgt_qp.holders.add(tgt_qp.num(), source)?;
        Ok(registration)
    }

    /// The domain of the QP.
    pub(crate) fn domain(&self) -> &Arc<Domain<B>> {
        &self.domain
    }

    /// The QP.
    pub(crate) fn tgt_qp(&self) -> &Arc<TgtQp<B>> {
        &self.tgt_qp
    }
}

impl<B: Backend> Drop for Registration<B> {
    fn drop(&mut self) {
        self.tgt_qp.holders.remove(self.holder);
        if self.untold.load(Relaxed) != 0 {
            // In ERR no policy keeps a QP without registrations.
            self.tgt_qp.state.entered(state::ERR);
        }
        self.domain.put_tgt_qp(&self.tgt_qp);
    }
}
