// SPDX-License-Identifier: GPL-2.0

//! TGT QPs of the soft backend: RC QPs that receive.

use kernel::{
    list::{
        List,
        ListArc, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        SetOnce,
        SpinLock, //
    },
};

use crate::{
    rdma::{
        gate::GateGuard,
        qp::{
            Qp,
            QpError,
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
    xrc::{
        backend::{
            Arrivals,
            Srq as _,
            Tally,
            Target,
            TgtQp,
            Transition, //
        },
        tgt_qp::JobKey, //
    },
};

use super::{
    domain::SoftDomain,
    message::{
        Content,
        Message, //
    },
    wire,
    RECV_WR, //
};

/// A TGT QP on the soft backend.
pub(crate) struct SoftTgtQp {
    qp: Qp<Receiver>,
    receiver: Arc<Receiver>,
}

impl SoftTgtQp {
    /// Makes an RC QP in the RESET state. Sleeps.
    pub(super) fn new(
        domain: &Arc<SoftDomain>,
        gate: &GateGuard<'_>,
        target: Arc<dyn Target>,
        key: Option<JobKey>,
    ) -> Result<Self> {
        let receiver = Receiver::new(domain, target, key)?;
        let qp = Qp::new(gate, &domain.pd()?, receiver.clone(), RECV_WR)?;

        receiver.qp.populate((qp.num(), qp.queue().clone()));
        Ok(Self { qp, receiver })
    }
}

impl SoftTgtQp {
    /// Posts the buffers, but for those that messages of an earlier connection will give back.
    /// Sleeps.
    fn fill(&self) -> Result {
        loop {
            let buffer = RecvBuffer::new(GFP_KERNEL_ACCOUNT)?;
            // Held, so that no place and buffer are given back meanwhile.
            let idle = self.receiver.idle.lock();

            if self.qp.queue().posted() >= idle.iter().count() {
                return Ok(());
            }
            self.qp.queue().post(buffer)?;
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

        // From here on buffers that come back unused are no error.
        if matches!(to, QpState::Err | QpState::Reset) {
            self.receiver.leaving.store(1, Relaxed);
        }
        self.qp.modify(gate, &attr, mask).inspect_err(|_| {
            if to == QpState::Err && from != QpState::Err {
                self.receiver.leaving.store(0, Relaxed);
            }
        })?;
        if to == QpState::Init {
            self.receiver.leaving.store(0, Relaxed);
        }
        if from == QpState::Reset && to == QpState::Init {
            if let Err(error) = self.fill() {
                let (attr, mask) = QpAttr::to_state(QpState::Reset);

                self.receiver.leaving.store(1, Relaxed);
                self.qp.modify(gate, &attr, mask)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn query(&self, gate: &GateGuard<'_>) -> Result<QpAttr> {
        self.qp.query(gate)
    }

    fn arrivals(&self) -> Arc<dyn Arrivals> {
        self.receiver.clone()
    }
}

/// What became of the messages of a TGT QP.
#[derive(Default)]
struct Tallies {
    /// The connection of the last message.
    connection: u32,
    /// Those of this connection.
    present: Tally,
    /// Those of earlier ones.
    earlier: Tally,
}

impl Tallies {
    /// A message of this connection has arrived.
    fn arrived(&mut self, connection: u32) {
        if connection != self.connection {
            self.earlier = self.up_to(self.connection);
            self.present = Tally::default();
            self.connection = connection;
        }
        self.present.waiting += 1;
    }

    /// That of a connection, from which a message has arrived.
    fn of(&mut self, connection: u32) -> &mut Tally {
        if connection == self.connection {
            &mut self.present
        } else {
            &mut self.earlier
        }
    }

    /// All up to the end of a connection.
    fn up_to(&self, connection: u32) -> Tally {
        if self.connection > connection {
            return self.earlier;
        }
        Tally {
            waiting: self.present.waiting + self.earlier.waiting,
            delivered: self.present.delivered + self.earlier.delivered,
        }
    }
}

/// Where the messages of a TGT QP arrive.
#[pin_data]
pub(super) struct Receiver {
    domain: Arc<SoftDomain>,
    target: Arc<dyn Target>,
    key: Option<JobKey>,
    /// The QP is in ERR or RESET, or on its way there, because it was asked to.
    leaving: Atomic<u32>,
    #[pin]
    tallies: SpinLock<Tallies>,
    /// The QP's number, and where its buffers are posted. Set before it can receive.
    qp: SetOnce<(u32, Arc<RecvQueue>)>,
    /// Places for messages which hold a buffer back: as many as there are buffers to post.
    #[pin]
    idle: SpinLock<List<Message>>,
}

impl Receiver {
    fn new(
        domain: &Arc<SoftDomain>,
        target: Arc<dyn Target>,
        key: Option<JobKey>,
    ) -> Result<Arc<Self>> {
        let mut idle = List::new();

        for _ in 0..RECV_WR {
            idle.push_back(Message::new(false)?);
        }

        let domain = domain.clone();

        Arc::pin_init(
            pin_init!(Self {
                domain,
                target,
                key,
                leaving: Atomic::new(0),
                tallies <- new_spinlock!(Tallies::default(), "Receiver::tallies"),
                qp: SetOnce::new(),
                idle <- new_spinlock!(idle, "Receiver::idle"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The QP number, 24 bits.
    pub(super) fn qp_num(&self) -> u32 {
        self.qp.as_ref().map_or(0, |&(num, _)| num)
    }

    /// A message of this connection could not be taken.
    pub(super) fn refuse(&self, connection: u32, error: QpError) {
        self.target.refused();
        self.target.clone().give_up(connection, error);
    }

    /// A message of this connection, of `bytes` bytes, was delivered.
    pub(super) fn delivered(&self, connection: u32, bytes: usize) {
        self.tallies.lock().of(connection).delivered += 1;
        self.target.delivered(bytes);
    }

    /// A message of this connection is over, delivered or not.
    pub(super) fn finished(&self, connection: u32) {
        let mut tallies = self.tallies.lock();
        let tally = tallies.of(connection);

        tally.waiting = tally.waiting.saturating_sub(1);
    }

    /// Takes a place back, and posts the buffer which the message there has held back.
    pub(super) fn give_back(
        &self,
        place: ListArc<Message>,
        buffer: Option<RecvBuffer>,
        connection: u32,
    ) {
        // With each place goes one buffer, for whoever counts them.
        let mut idle = self.idle.lock();

        if let (Some(buffer), Some((_, queue))) = (buffer, self.qp.as_ref()) {
            self.post(queue, buffer, connection);
        }
        idle.push_back(place);
    }

    fn post(&self, queue: &RecvQueue, buffer: RecvBuffer, connection: u32) {
        match queue.post(buffer) {
            Ok(()) => {}
            // A QP that takes none any more needs none.
            Err(error) if error == ENOTCONN || error == ENOSPC => {}
            // With a buffer less for good it might some day have none.
            Err(_) => self.target.clone().give_up(connection, QpError::Fatal),
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
        let srq = self
            .domain
            .find_srq(envelope.srq_num, self.key)
            .ok_or(EINVAL)?;
        let connection = self.target.connection();

        // The buffer is replaced at once, so that the sender can go on, unless too many messages
        // wait at the SRQ already: then the QP has one buffer less until this one is delivered, and
        // when it has none left the sender is held by RNR.
        let spare = srq.take_spare();
        let holds_back = spare.is_none();
        let place = spare
            .or_else(|| self.idle.lock().pop_front())
            .ok_or(ENOBUFS)?;
        let content = Content {
            receiver: self.clone(),
            connection,
            src_qp: self.target.dest_qp_num(),
            envelope,
            holds_back,
        };
        let (message, replacement) = Message::fill(place, buffer, content).ok_or(ENOBUFS)?;

        if let Some(replacement) = replacement {
            self.post(queue, replacement, connection);
        }
        self.tallies.lock().arrived(connection);
        srq.enqueue(message)
    }
}

impl QpHandler for Receiver {
    fn received(self: &Arc<Self>, queue: &Arc<RecvQueue>, buffer: RecvBuffer, wc: &WorkCompletion) {
        if self.deliver(queue, buffer, wc).is_err() {
            self.refuse(self.target.connection(), QpError::Request);
        }
    }

    fn flushed(&self, wc: &WorkCompletion) {
        // For some errors, a message longer than the buffer for one, rxe raises no event.
        let error = if !wc.is_flushed() {
            QpError::Request
        } else if self.leaving.load(Relaxed) == 0 {
            QpError::Fatal
        } else {
            return;
        };

        // If it follows an event, that was first.
        self.error(error);
    }

    fn error(&self, error: QpError) {
        self.target.clone().failed(self.target.connection(), error);
    }
}

impl Arrivals for Receiver {
    fn is_drained(&self, connection: u32) -> bool {
        // Before a new connection the buffers of the old one were waited for.
        if self.target.connection() != connection {
            return true;
        }
        match self.qp.as_ref() {
            Some((_, queue)) => queue.is_drained(),
            None => true,
        }
    }

    fn tally(&self, connection: u32) -> Tally {
        self.tallies.lock().up_to(connection)
    }

    fn flush(&self, connection: u32) -> u64 {
        let mut num = 0;
        let mut flushed = 0;

        while let Some(srq) = self.domain.next_srq(num) {
            flushed += srq.flush(self, connection);
            num = srq.num().saturating_add(1);
        }
        flushed
    }
}
