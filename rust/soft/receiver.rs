// SPDX-License-Identifier: GPL-2.0

//! Where the messages of a TGT QP arrive.

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
        qp::{
            QpError,
            QpHandler, //
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
            Target, //
        },
        tgt_qp::JobKey, //
    },
};

use super::{
    domain::SoftDomain,
    part::{
        Content,
        MessageId,
        Origin,
        Part, //
    },
    sequence::Sequence,
    tallies::Tallies,
    wire,
    RECV_WR, //
};

/// Where the messages of a TGT QP arrive.
#[pin_data]
pub(super) struct Receiver {
    domain: Arc<SoftDomain>,
    target: Arc<dyn Target>,
    key: Option<JobKey>,
    /// The QP is in ERR or RESET, or on its way there, because it was asked to.
    leaving: Atomic<u32>,
    /// The connection of which a message was refused: what comes after it on that is not taken.
    refused: Atomic<u32>,
    #[pin]
    sequence: SpinLock<Sequence>,
    #[pin]
    tallies: SpinLock<Tallies>,
    /// The QP's number, and where its buffers are posted. Set before it can receive.
    qp: SetOnce<(u32, Arc<RecvQueue>)>,
    /// Places for parts which hold a buffer back: as many as there are buffers to post.
    #[pin]
    idle: SpinLock<List<Part>>,
}

impl Receiver {
    /// Nothing has arrived. Sleeps.
    pub(super) fn new(
        domain: &Arc<SoftDomain>,
        target: Arc<dyn Target>,
        key: Option<JobKey>,
    ) -> Result<Arc<Self>> {
        let mut idle = List::new();

        for _ in 0..RECV_WR {
            idle.push_back(Part::new(false)?);
        }

        let domain = domain.clone();

        Arc::pin_init(
            pin_init!(Self {
                domain,
                target,
                key,
                leaving: Atomic::new(0),
                refused: Atomic::new(0),
                sequence <- new_spinlock!(Sequence::default(), "Receiver::sequence"),
                tallies <- new_spinlock!(Tallies::default(), "Receiver::tallies"),
                qp: SetOnce::new(),
                idle <- new_spinlock!(idle, "Receiver::idle"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Says which QP it is, before that can receive.
    pub(super) fn attach(&self, num: u32, queue: Arc<RecvQueue>) {
        self.qp.populate((num, queue));
    }

    /// The QP number, 24 bits.
    pub(super) fn qp_num(&self) -> u32 {
        self.qp.as_ref().map_or(0, |&(num, _)| num)
    }

    /// The QP goes to ERR or RESET because it was asked to, or does not: whether buffers that come
    /// back unused are no error.
    pub(super) fn set_leaving(&self, leaving: bool) {
        self.leaving.store(u32::from(leaving), Relaxed);
    }

    /// Posts the buffers, but for those that messages of an earlier connection will give back.
    /// Sleeps.
    pub(super) fn fill(&self) -> Result {
        let Some((_, queue)) = self.qp.as_ref() else {
            return Err(EINVAL);
        };

        loop {
            let buffer = RecvBuffer::new(GFP_KERNEL_ACCOUNT)?;
            // Held, so that no place and buffer are given back meanwhile.
            let idle = self.idle.lock();

            // There is a place for each buffer.
            if idle.iter().nth(queue.posted()).is_none() {
                return Ok(());
            }
            queue.post(buffer)?;
        }
    }

    /// No more parts come on the present connection: a message that is not complete is over.
    pub(super) fn cut(&self) {
        self.cut_on(self.target.connection());
    }

    /// As [`cut`](Self::cut), but for a connection which may be over by now.
    fn cut_on(&self, connection: u32) {
        let mut sequence = self.sequence.lock();

        // With the lock held: a message that has begun on the next connection is seen to be of it.
        if self.target.connection() != connection {
            return;
        }

        let Some(arriving) = sequence.cut() else {
            return;
        };

        drop(sequence);

        if let Some(srq) = self.domain.find_srq(arriving.srq_num, self.key) {
            srq.discard(self, |id| id.message == arriving.message);
        }
    }

    /// Drops those messages that wait for a buffer for which `goes` says so. Returns how many.
    /// Sleeps.
    fn drop_where(&self, goes: impl Fn(MessageId) -> bool) -> u64 {
        let mut num = 0;
        let mut dropped: u64 = 0;

        while let Some(srq) = self.domain.next_srq(num) {
            dropped = dropped.saturating_add(srq.discard(self, &goes));
            num = srq.num().saturating_add(1);
        }
        dropped
    }

    fn is_refused(&self, connection: u32) -> bool {
        self.refused.load(Relaxed) == connection
    }

    /// Takes nothing more from this connection, which may be over by now: then a later one may be
    /// shut already, and stays so.
    fn shut(&self, connection: u32) {
        let mut refused = self.refused.load(Relaxed);

        // Connections are counted, past the largest number too.
        while connection.wrapping_sub(refused) as i32 > 0 {
            match self.refused.cmpxchg(refused, connection, Relaxed) {
                Ok(_) => return,
                Err(now) => refused = now,
            }
        }
    }

    fn give_up(&self, connection: u32, error: QpError) {
        self.target.refused();
        self.target.clone().give_up(connection, error);
    }

    /// A message could not be taken. Nor is what has come after it and waits for a buffer,
    /// whichever SRQ it is for: requests are executed in order or not at all. Sleeps.
    pub(super) fn refuse(&self, message: &Origin, error: QpError) {
        self.shut(message.connection);
        self.drop_where(|id| id.connection == message.connection && id.message > message.message);
        self.give_up(message.connection, error);
    }

    /// A message of this connection, of `bytes` bytes, was delivered.
    pub(super) fn delivered(&self, connection: u32, bytes: u64) {
        self.tallies.lock().of(connection).add_delivered();
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
        place: ListArc<Part>,
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

    /// Finds out whom a part of a message is for and hands it over.
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
        let len = buffer.data().len().saturating_sub(envelope.offset);
        let max_len = self.domain.services().device().max_msg_size();
        let message = self
            .sequence
            .lock()
            .next(&envelope, len, max_len)
            .map_err(|_| EINVAL)?;
        let srq = self
            .domain
            .find_srq(envelope.srq_num, self.key)
            .ok_or(EINVAL)?;
        let connection = self.target.connection();

        // The buffer is replaced at once, so that the sender can go on, unless too many parts wait
        // at the SRQ already: then the QP has one buffer less until this one is delivered, and when
        // it has none left the sender is held by RNR.
        let spare = srq.take_spare();
        let holds_back = spare.is_none();
        let place = spare
            .or_else(|| self.idle.lock().pop_front())
            .ok_or(ENOBUFS)?;
        let first = envelope.first;
        let content = Content {
            origin: Origin {
                receiver: self.clone(),
                connection,
                message,
            },
            src_qp: self.target.dest_qp_num(),
            envelope,
            holds_back,
        };
        let (part, replacement) = Part::fill(place, buffer, content).ok_or(ENOBUFS)?;

        if let Some(replacement) = replacement {
            self.post(queue, replacement, connection);
        }
        if first {
            self.tallies.lock().arrived(connection);
        }
        srq.enqueue(part)?;
        // Pairs with the lock of the queue: either `refuse` has seen this part there, or this sees
        // that an earlier message was refused.
        if self.is_refused(connection) {
            srq.discard(self, |id| id.message == message);
        }
        Ok(())
    }
}

impl QpHandler for Receiver {
    fn received(self: &Arc<Self>, queue: &Arc<RecvQueue>, buffer: RecvBuffer, wc: &WorkCompletion) {
        let connection = self.target.connection();

        if !self.is_refused(connection) {
            if self.deliver(queue, buffer, wc).is_ok() {
                return;
            }
            self.shut(connection);
            self.give_up(connection, QpError::Request);
        }
        // Nothing that comes now is taken, and there may be no buffer left to come back unused.
        self.cut();
    }

    fn flushed(&self, wc: &WorkCompletion) {
        // What was received completed before.
        self.cut();

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
    fn have_ended(&self, connection: u32) -> bool {
        // Before a new connection the buffers of the old one were waited for.
        if self.target.connection() != connection {
            return true;
        }

        let drained = match self.qp.as_ref() {
            Some((_, queue)) => queue.is_drained(),
            None => true,
        };

        if drained {
            // There may have been no buffer to come back unused.
            self.cut_on(connection);
        }
        drained
    }

    fn tally(&self, connection: u32) -> Tally {
        self.tallies.lock().up_to(connection)
    }

    fn flush(&self, connection: u32) -> u64 {
        self.drop_where(|id| id.connection <= connection)
    }
}
