// SPDX-License-Identifier: GPL-2.0

//! TGT QPs: owned by their domain, shared by whoever registers.

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
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
        qp::QpEvent,
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
        Backend,
        Target,
        TgtQp as _,
        Transition, //
    },
    device::Services,
    domain::Domain, //
};

/// A TGT QP.
#[pin_data]
pub(crate) struct TgtQp<B: Backend> {
    services: Arc<Services>,
    num: SetOnce<u32>,
    /// The lock for modify. Empty before the QP exists and once it was destroyed. Completion and
    /// event callbacks never take it, so that destroying may wait for them.
    #[pin]
    qp: Mutex<Option<B::TgtQp>>,
    /// `enum ib_qp_state`, to look at without the lock.
    state: Atomic<u32>,
    /// An event said that the QP went to the error state by itself.
    failed: Atomic<u32>,
    /// Counts the RESETs, from 1 on.
    connection: Atomic<u32>,
    /// The last connection that a message was refused on.
    refused: Atomic<u32>,
    dest_qp_num: Atomic<u32>,
    recv_msgs: Atomic<u64>,
    recv_bytes: Atomic<u64>,
    refused_msgs: Atomic<u64>,
    #[pin]
    error_work: Work<TgtQp<B>>,
}

impl_has_work! {
    impl{B: Backend} HasWork<TgtQp<B>> for TgtQp<B> { self.error_work }
}

impl<B: Backend> TgtQp<B> {
    /// Makes a QP in the RESET state. Sleeps.
    pub(crate) fn new(
        services: &Arc<Services>,
        domain: &Arc<B::Domain>,
        gate: &GateGuard<'_>,
    ) -> Result<Arc<Self>> {
        let services = services.clone();
        let tgt_qp = Arc::pin_init(
            pin_init!(Self {
                services,
                num: SetOnce::new(),
                qp <- new_mutex!(None, "TgtQp::qp"),
                state: Atomic::new(QpState::Reset.raw()),
                failed: Atomic::new(0),
                connection: Atomic::new(1),
                refused: Atomic::new(0),
                dest_qp_num: Atomic::new(0),
                recv_msgs: Atomic::new(0),
                recv_bytes: Atomic::new(0),
                refused_msgs: Atomic::new(0),
                error_work <- new_work!("TgtQp::error_work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // The QP refers to its target: `destroy` ends the cycle.
        let qp = B::create_tgt_qp(domain, gate, tgt_qp.clone())?;

        tgt_qp.num.populate(qp.num());
        *tgt_qp.qp.lock() = Some(qp);
        Ok(tgt_qp)
    }

    /// The QP number, 24 bits.
    pub(crate) fn num(&self) -> u32 {
        // Populated before anybody else sees the object.
        self.num.copy().unwrap_or(0)
    }

    /// Destroys the QP; later calls on it fail. Sleeps.
    pub(crate) fn destroy(&self) {
        let qp = self.qp.lock().take();

        // Waits for callbacks, which do not take the lock; modify may, so it is not held here.
        drop(qp);
    }

    /// Makes one transition. Sleeps.
    ///
    /// Errnos as `ib_modify_qp(3)` on an XRC TGT QP: `EINVAL` for a transition or mask that is
    /// not allowed or if the QP was destroyed meanwhile.
    pub(crate) fn modify(
        &self,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
    ) -> Result {
        let qp = self.qp.lock();
        let qp = qp.as_ref().ok_or(EINVAL)?;

        self.modify_locked(qp, gate, attr)
    }

    fn modify_locked(
        &self,
        qp: &B::TgtQp,
        gate: &GateGuard<'_>,
        uattr: &bindings::ib_uverbs_qp_attr,
    ) -> Result {
        let (attr, mask) = QpAttr::from_uapi(self.services.device(), uattr, qp.port())?;
        let mask = qp_attr::tgt_mask(mask);
        let from = self.state();

        // Drivers believe what the caller says here.
        if mask.contains(QpAttrMask::CUR_STATE) && uattr.cur_qp_state != from.raw() {
            return Err(EINVAL);
        }

        let to = if mask.contains(QpAttrMask::STATE) {
            attr.state()?
        } else {
            from
        };

        if !qp_attr::tgt_may_modify(from, to, mask) {
            return Err(EINVAL);
        }

        let dest_qp_num = attr.dest_qp_num();

        if let Err(error) = qp.modify(gate, Transition { from, to, mask }, attr) {
            if from == QpState::Reset {
                // Buffers that were posted on the way have been flushed.
                self.entered(QpState::Reset);
            }
            return Err(error);
        }
        if mask.contains(QpAttrMask::DEST_QPN) {
            self.dest_qp_num.store(dest_qp_num, Relaxed);
        }
        self.entered(to);
        Ok(())
    }

    /// The state, as far as is known without asking the device.
    fn state(&self) -> QpState {
        self.state.load(Relaxed).try_into().unwrap_or(QpState::Err)
    }

    /// The QP has gone to a state because it was asked to.
    fn entered(&self, state: QpState) {
        if state == QpState::Reset {
            // The reset has waited for everything that was under way.
            self.failed.store(0, Relaxed);
            self.connection.add(1u32, Relaxed);
            self.dest_qp_num.store(0, Relaxed);
        }

        // An event which comes now sets the state after this, one that came before has left its
        // mark: either way the error is not overwritten.
        let _ = self.state.xchg(state.raw(), Full);
        if self.failed.load(Relaxed) != 0 {
            self.state.store(QpState::Err.raw(), Relaxed);
        }
    }

    /// Takes the QP through INIT, RTR and RTS, up to `attr.qp_state`. Returns the state that the
    /// QP is in afterwards, also when a transition failed. Sleeps.
    pub(crate) fn connect(
        &self,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
    ) -> (Result, QpState) {
        let qp = self.qp.lock();
        let result = match qp.as_ref() {
            Some(qp) => self.connect_locked(qp, gate, attr),
            None => Err(EINVAL),
        };

        (result, self.state())
    }

    fn connect_locked(
        &self,
        qp: &B::TgtQp,
        gate: &GateGuard<'_>,
        attr: &bindings::ib_uverbs_qp_attr,
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

            attr.qp_state = to.raw();
            attr.qp_attr_mask = mask.bits();
            self.modify_locked(qp, gate, &attr)?;
        }
        Ok(())
    }

    /// The attributes as the device has them. `EINVAL` if the QP was destroyed meanwhile. Sleeps.
    pub(crate) fn query(&self, gate: &GateGuard<'_>) -> Result<bindings::ib_uverbs_qp_attr> {
        let qp = self.qp.lock();
        let attr = qp.as_ref().ok_or(EINVAL)?.query(gate)?;

        Ok(attr.to_uapi())
    }

    /// The QP as userspace sees it. Does not wait for a modify.
    pub(crate) fn info(&self, refs: u32) -> bindings::ib_xrc_tgt_qp_info {
        bindings::ib_xrc_tgt_qp_info {
            qp_num: self.num(),
            state: self.state.load(Relaxed),
            refs,
            dest_qp_num: self.dest_qp_num.load(Relaxed),
            recv_msgs: self.recv_msgs.load(Relaxed),
            recv_bytes: self.recv_bytes.load(Relaxed),
            refused_msgs: self.refused_msgs.load(Relaxed),
            reserved: 0,
        }
    }
}

impl<B: Backend> Target for TgtQp<B> {
    fn event(&self, event: QpEvent) {
        if event.is_error() {
            self.failed();
        }
    }

    fn failed(&self) {
        let _ = self.failed.xchg(1, Full);
        self.state.store(QpState::Err.raw(), Relaxed);
    }

    fn connection(&self) -> u32 {
        self.connection.load(Relaxed)
    }

    fn dest_qp_num(&self) -> u32 {
        self.dest_qp_num.load(Relaxed)
    }

    fn delivered(&self, bytes: usize) {
        self.recv_msgs.add(1u64, Relaxed);
        self.recv_bytes.add(bytes as u64, Relaxed);
    }

    fn refused(self: Arc<Self>, connection: u32) {
        self.refused_msgs.add(1u64, Relaxed);
        // A RESET that comes after this is seen by the work.
        if connection != self.connection() {
            return;
        }
        self.refused.store(connection, Relaxed);
        // If the work is queued already it will do.
        let _ = self
            .services
            .clone()
            .workqueues()
            .errors()
            .enqueue::<Arc<Self>, 0>(self);
    }
}

impl<B: Backend> WorkItem for TgtQp<B> {
    type Pointer = Arc<Self>;

    /// Puts the QP in the error state, in process context.
    fn run(this: Arc<Self>) {
        let Ok(gate) = this.services.device().enter() else {
            return;
        };
        let qp = this.qp.lock();

        // A QP that was reset since, or destroyed, is left alone.
        if this.refused.load(Relaxed) != this.connection.load(Relaxed) {
            return;
        }
        if let Some(qp) = qp.as_ref() {
            let attr = bindings::ib_uverbs_qp_attr {
                qp_attr_mask: QpAttrMask::STATE.bits(),
                qp_state: QpState::Err.raw(),
                ..Default::default()
            };

            if let Err(error) = this.modify_locked(qp, &gate, &attr) {
                pr_err!(
                    "cannot put QP {} in the error state: {:?}\n",
                    this.num(),
                    error
                );
                this.failed();
            }
        }
    }
}

/// A registration with a TGT QP; dropping it gives the reference back. That sleeps.
///
/// # Invariants
///
/// It is counted in the `refs` of the QP's entry in the domain, unless the device was removed.
pub(crate) struct Registration<B: Backend> {
    domain: Arc<Domain<B>>,
    tgt_qp: Arc<TgtQp<B>>,
}

impl<B: Backend> Registration<B> {
    /// Makes a TGT QP and registers with it. Sleeps.
    pub(crate) fn create(domain: &Arc<Domain<B>>, gate: &GateGuard<'_>) -> Result<Self> {
        let tgt_qp = domain.create_tgt_qp(gate)?;

        // INVARIANT: The QP was made with one reference.
        Ok(Self {
            domain: domain.clone(),
            tgt_qp,
        })
    }

    /// Registers with a TGT QP. `EINVAL`: the domain has none of this number.
    pub(crate) fn open(domain: &Arc<Domain<B>>, qp_num: u32) -> Result<Self> {
        let tgt_qp = domain.get_tgt_qp(qp_num)?;

        // INVARIANT: Just counted.
        Ok(Self {
            domain: domain.clone(),
            tgt_qp,
        })
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
        self.domain.put_tgt_qp(&self.tgt_qp);
    }
}
