// SPDX-License-Identifier: GPL-2.0

//! TGT QPs of the soft backend: RC QPs that receive.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        SetOnce, //
    },
};

use crate::{
    rdma::{
        gate::GateGuard,
        qp::{
            Qp,
            QpEvent,
            QpHandler, //
        },
        qp_attr::{
            QpAttr,
            QpState, //
        },
        recv_buffer::RecvBuffer,
        recv_queue::RecvQueue,
        wc::WorkCompletion, //
    },
    xrc::backend::{
        Target,
        TgtQp,
        Transition, //
    },
};

use super::{
    domain::SoftDomain,
    message::Message,
    wire,
    RECV_WR, //
};

/// A TGT QP on the soft backend.
pub(crate) struct SoftTgtQp {
    qp: Qp<Receiver>,
}

impl SoftTgtQp {
    /// Makes an RC QP in the RESET state. Sleeps.
    pub(super) fn new(
        domain: &Arc<SoftDomain>,
        gate: &GateGuard<'_>,
        target: Arc<dyn Target>,
    ) -> Result<Self> {
        let receiver = Arc::new(
            Receiver {
                domain: domain.clone(),
                target,
                qp: SetOnce::new(),
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let qp = Qp::new(gate, &domain.pd()?, receiver.clone(), RECV_WR)?;

        receiver.qp.populate((qp.num(), qp.queue().clone()));
        Ok(Self { qp })
    }
}

impl SoftTgtQp {
    /// Posts as many buffers as the QP takes. Sleeps.
    fn fill(&self) -> Result {
        loop {
            match self.qp.queue().post(RecvBuffer::new(GFP_KERNEL_ACCOUNT)?) {
                Ok(()) => {}
                // Messages of an earlier connection give buffers back meanwhile.
                Err(error) if error == ENOSPC => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl TgtQp for SoftTgtQp {
    fn num(&self) -> u32 {
        self.qp.num()
    }

    fn port(&self) -> u32 {
        self.qp.port()
    }

    fn modify(&self, gate: &GateGuard<'_>, transition: Transition, mut attr: QpAttr) -> Result {
        let Transition { from, to, mask } = transition;
        let mask = attr.complete_for_rc(from, to, mask);

        self.qp.modify(gate, &attr, mask)?;
        if from == QpState::Reset && to == QpState::Init {
            if let Err(error) = self.fill() {
                let (attr, mask) = QpAttr::to_state(QpState::Reset);

                self.qp.modify(gate, &attr, mask)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn query(&self, gate: &GateGuard<'_>) -> Result<QpAttr> {
        self.qp.query(gate)
    }
}

/// Posts a buffer in place of one that was filled.
///
/// It must not wait for memory: what writes memory back may need the workqueue that this runs in.
fn replace(queue: &RecvQueue) -> Result {
    queue.post(RecvBuffer::new(GFP_NOWAIT | __GFP_NOWARN)?)
}

/// Where the messages of a TGT QP arrive.
pub(super) struct Receiver {
    domain: Arc<SoftDomain>,
    target: Arc<dyn Target>,
    /// The QP's number, and where its buffers are posted. Set before it can receive.
    qp: SetOnce<(u32, Arc<RecvQueue>)>,
}

impl Receiver {
    /// The domain logic's side of the QP.
    pub(super) fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// The QP number, 24 bits.
    pub(super) fn qp_num(&self) -> u32 {
        self.qp.as_ref().map_or(0, |&(num, _)| num)
    }

    /// Posts a buffer again which a waiting message of this connection has held back. Sleeps.
    pub(super) fn give_back(&self, buffer: RecvBuffer, connection: u32) {
        if let Some((_, queue)) = self.qp.as_ref() {
            match queue.post(buffer) {
                Ok(()) => {}
                // A QP that takes none any more needs none.
                Err(error) if error == ENOTCONN || error == ENOSPC => {}
                // With a buffer less for good it might some day have none.
                Err(_) => self.target.clone().refused(connection),
            }
        }
    }

    /// Finds out whom a message is for and hands it over.
    fn deliver(
        self: &Arc<Self>,
        queue: &RecvQueue,
        buffer: RecvBuffer,
        wc: &WorkCompletion,
    ) -> Result {
        if wc.is_rdma_write() {
            return Err(EOPNOTSUPP);
        }

        let imm = wc.imm_data().ok_or(EINVAL)?;
        let envelope = wire::decode(imm, buffer.data()).map_err(|_| EINVAL)?;
        let srq = self.domain.find_srq(envelope.srq_num).ok_or(EINVAL)?;

        // The buffer is replaced at once, so that the sender can go on, unless there wait too
        // many messages already: then the QP has one buffer less until this one is delivered, and
        // when it has none left the sender is held by RNR.
        let holds_back = srq.is_full() || replace(queue).is_err();
        let message = Message::new(buffer, envelope, self.clone(), holds_back)?;

        srq.enqueue(message)
    }
}

impl QpHandler for Receiver {
    fn received(self: &Arc<Self>, queue: &Arc<RecvQueue>, buffer: RecvBuffer, wc: &WorkCompletion) {
        if self.deliver(queue, buffer, wc).is_err() {
            self.target.clone().refused(self.target.connection());
        }
    }

    fn flushed(&self, _wc: &WorkCompletion) {
        // For some errors, a message longer than the buffer for one, rxe raises no event.
        self.target.failed();
    }

    fn event(&self, event: QpEvent) {
        self.target.event(event);
    }
}
