// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: what messages are addressed to.

use kernel::{
    impl_has_work,
    list::{
        List,
        ListArc, //
    },
    new_mutex, new_spinlock, new_work,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        barrier::{
            smp_mb,
            Full, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

use crate::{
    bindings,
    linux::{
        shared_memory::SharedMemory,
        user_memory::UserMemory, //
    },
    rdma::qp::QpError,
    xrc::{
        backend::{
            Srq,
            SrqAttr, //
        },
        event_file::EventSource,
        srq_num::{
            SrqNum,
            SrqNums, //
        },
        tgt_qp::JobKey, //
    },
};

use super::{
    cq::SoftCq,
    domain::SoftDomain,
    message::Message,
    tgt_qp::Receiver,
    MAX_SRQ_SGE,
    SRQ_BACKLOG, //
};

const CONSUMER: usize = core::mem::offset_of!(bindings::ib_xrc_srq_ring, consumer);
const FLAGS: usize = core::mem::offset_of!(bindings::ib_xrc_srq_ring, flags);
const PRODUCER: usize = core::mem::offset_of!(bindings::ib_xrc_srq_ring, producer);
const ENTRIES: usize = bindings::IB_XRC_RING_ENTRIES_OFFSET as usize;
const WQE_SIZE: usize = size_of::<bindings::ib_xrc_recv_wqe>();
const SGE_SIZE: usize = size_of::<bindings::ib_uverbs_sge>();

/// An SRQ.
#[pin_data]
pub(crate) struct SoftSrq {
    domain: Arc<SoftDomain>,
    cq: Arc<SoftCq>,
    num: SrqNum,
    user_handle: u64,
    key: Option<JobKey>,
    /// Messages that are neither delivered nor dropped yet.
    waiting: Atomic<u32>,
    /// Messages that were delivered.
    delivered: Atomic<u64>,
    /// The memory that posted addresses mean.
    memory: UserMemory,
    ring: SharedMemory,
    /// A power of two.
    entries: u32,
    max_sge: u32,
    stride: usize,
    #[pin]
    queue: SpinLock<Queue>,
    /// Held while a message is copied, which may take as long as the owner's memory takes.
    #[pin]
    delivery: Mutex<Delivery>,
    #[pin]
    work: Work<SoftSrq>,
}

/// The messages that wait.
struct Queue {
    messages: List<Message>,
    /// Places for messages to come, with a spare buffer each.
    spares: List<Message>,
    /// No more messages are taken.
    closed: bool,
    /// The kernel's own copy: the one in the ring is for userspace to read.
    flags: u32,
    /// Who is told of the limit and the backlog.
    events: Option<EventSource>,
    /// The backlog was told of, and is not over.
    backlogged: bool,
}

/// What to do after an attempt to deliver a message.
enum Next {
    /// Deliver the next one.
    Go,
    /// Wait for what will queue the work.
    Stop,
    /// Try again in a while.
    Retry,
}

/// Where delivery stands.
struct Delivery {
    /// The kernel's own copy: the one in the ring is for userspace to read.
    consumer: u32,
    /// Tell when fewer work requests than this are posted; 0: never.
    limit: u32,
}

/// A receive work request, copied from the ring.
struct RecvWr {
    wr_id: u64,
    sges: [bindings::ib_uverbs_sge; MAX_SRQ_SGE as usize],
    num_sge: usize,
}

impl_has_work! {
    impl HasWork<SoftSrq> for SoftSrq { self.work }
}

impl SoftSrq {
    /// Makes an SRQ and lets senders find it. `attr` is within the limits. Sleeps.
    pub(super) fn new(
        domain: &Arc<SoftDomain>,
        cq: &Arc<SoftCq>,
        attr: SrqAttr,
    ) -> Result<Arc<Self>> {
        let entries = attr.max_wr.checked_next_power_of_two().ok_or(EINVAL)?;
        let stride = WQE_SIZE + attr.max_sge as usize * SGE_SIZE;
        let num = SrqNums::allocate(domain.services().srq_nums())?;
        let memory = UserMemory::of_current()?;
        let ring = SharedMemory::new(ENTRIES + entries as usize * stride)?;
        let mut spares = List::new();

        for _ in 0..SRQ_BACKLOG {
            spares.push_back(Message::new(true)?);
        }

        let domain = domain.clone();
        let cq = cq.clone();
        let srq = Arc::pin_init(
            pin_init!(Self {
                domain,
                cq,
                num,
                user_handle: attr.user_handle,
                key: attr.key,
                waiting: Atomic::new(0),
                delivered: Atomic::new(0),
                memory,
                ring,
                entries,
                max_sge: attr.max_sge,
                stride,
                queue <- new_spinlock!(
                    Queue {
                        messages: List::new(),
                        spares,
                        closed: false,
                        flags: 0,
                        events: attr.events,
                        backlogged: false,
                    },
                    "SoftSrq::queue"
                ),
                delivery <- new_mutex!(
                    Delivery {
                        consumer: 0,
                        limit: 0,
                    },
                    "SoftSrq::delivery"
                ),
                work <- new_work!("SoftSrq::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;

        srq.domain.add_srq(&srq)?;
        Ok(srq)
    }

    /// The job that it belongs to.
    pub(super) fn key(&self) -> Option<JobKey> {
        self.key
    }

    /// Takes a place for a message. `None`: so many messages wait that their senders are to be held
    /// back. Does not sleep.
    pub(super) fn take_spare(&self) -> Option<ListArc<Message>> {
        let mut queue = self.queue.lock();
        let spare = queue.spares.pop_front();

        if spare.is_none() && !queue.backlogged && !queue.closed {
            queue.backlogged = true;
            self.raise(
                &queue,
                bindings::IB_XRC_EVENT_SRQ_BACKLOG,
                self.waiting.load(Relaxed),
            );
        }
        spare
    }

    fn raise(&self, queue: &Queue, event_type: u32, value: u32) {
        if let Some(events) = &queue.events {
            events.raise(event_type, self.num.get(), value);
        }
    }

    /// Takes a message, to be delivered in turn. `ENOTCONN`: the SRQ takes no more; the message is
    /// dropped. Does not sleep.
    pub(super) fn enqueue(self: &Arc<Self>, message: ListArc<Message>) -> Result {
        self.waiting.add(1u32, Relaxed);

        let mut queue = self.queue.lock();

        if queue.closed {
            drop(queue);
            self.finish(message);
            return Err(ENOTCONN);
        }
        queue.messages.push_back(message);
        drop(queue);

        self.clone().kick();
        Ok(())
    }

    fn pop_message(&self) -> Option<ListArc<Message>> {
        self.queue.lock().messages.pop_front()
    }

    /// A message is over: whoever it had its place and buffer from gets them back.
    fn finish(&self, message: ListArc<Message>) {
        let Some((place, content, buffer)) = Message::finish(message) else {
            return;
        };

        let _ = self.waiting.fetch_sub(1u32, Relaxed);
        if content.holds_back {
            content
                .receiver
                .give_back(place, buffer, content.connection);
        } else {
            self.queue.lock().spares.push_back(place);
        }
        content.receiver.finished(content.connection);
    }

    /// Drops the messages of a TGT QP, up to the end of a connection, that wait. Returns how many.
    /// Sleeps.
    pub(super) fn flush(&self, receiver: &Receiver, connection: u32) -> u64 {
        let mut flushed = 0;

        while let Some(message) = self.pop_message_from(receiver, connection) {
            self.finish(message);
            flushed += 1;
        }
        // The backlog may be over.
        self.has_messages();
        flushed
    }

    fn pop_message_from(&self, receiver: &Receiver, connection: u32) -> Option<ListArc<Message>> {
        let mut queue = self.queue.lock();
        let mut cursor = queue.messages.cursor_front();

        while let Some(next) = cursor.peek_next() {
            if next.is_from(receiver, connection) {
                return Some(next.remove());
            }
            cursor.move_next();
        }
        None
    }

    /// Takes no more messages, and drops those that wait after `f` has seen them. Sleeps, but not
    /// while a message is copied.
    fn stop(&self, f: impl Fn(&Message)) {
        self.queue.lock().closed = true;
        while let Some(message) = self.pop_message() {
            f(&message);
            self.finish(message);
        }
        self.domain.remove_srq(self.num.get());
    }

    /// Puts the SRQ in error, for good: what was posted made no sense, or the device is gone.
    /// Sleeps, but not while a message is copied.
    pub(super) fn fail(&self) {
        // Their senders think that they arrived.
        self.stop(|message| message.refuse(QpError::Fatal));
        self.set_flags(&mut self.queue.lock(), bindings::IB_XRC_SRQ_RING_ERROR);
    }

    fn set_flags(&self, queue: &mut Queue, flags: u32) {
        if queue.flags != flags {
            queue.flags = flags;
            // The offset is right, so this cannot fail.
            let _ = self.ring.store_release_u32(FLAGS, flags);
        }
    }

    /// Whether there is a message to deliver. If not, userspace need not kick, unless the SRQ is
    /// closed: its flags stay as they are.
    fn has_messages(&self) -> bool {
        let mut queue = self.queue.lock();

        if queue.closed {
            return false;
        }
        if queue.messages.is_empty() {
            queue.backlogged = false;
            self.set_flags(&mut queue, 0);
            return false;
        }
        true
    }

    /// Reads the next work request that userspace has posted. `EINVAL`: what it wrote makes no
    /// sense.
    fn next_recv_wr(&self, delivery: &Delivery) -> Result<Option<RecvWr>> {
        let producer = self.ring.load_acquire_u32(PRODUCER)?;
        let posted = producer.wrapping_sub(delivery.consumer);

        if posted == 0 {
            return Ok(None);
        }
        if posted > self.entries {
            return Err(EINVAL);
        }

        // Each word is read once: userspace may write it meanwhile.
        let index = delivery.consumer & (self.entries - 1);
        let mut offset = ENTRIES + index as usize * self.stride;
        let wqe: bindings::ib_xrc_recv_wqe = self.ring.read(offset)?;

        if wqe.num_sge > self.max_sge || wqe.reserved != 0 {
            return Err(EINVAL);
        }

        let mut wr = RecvWr {
            wr_id: wqe.wr_id,
            sges: [Default::default(); MAX_SRQ_SGE as usize],
            num_sge: wqe.num_sge as usize,
        };

        offset += WQE_SIZE;
        for sge in wr.sges.iter_mut().take(wr.num_sge) {
            *sge = self.ring.read(offset)?;
            offset += SGE_SIZE;
        }
        Ok(Some(wr))
    }

    /// Like [`Self::next_recv_wr`], and if there is none, has userspace kick once it posts one.
    fn next_recv_wr_or_wait(&self, delivery: &Delivery) -> Result<Option<RecvWr>> {
        if let Some(wr) = self.next_recv_wr(delivery)? {
            return Ok(Some(wr));
        }

        let mut queue = self.queue.lock();

        if queue.closed {
            return Ok(None);
        }
        self.set_flags(&mut queue, bindings::IB_XRC_SRQ_RING_NEED_KICK);
        drop(queue);
        // Pairs with the barrier between posting and looking at the flag: either userspace sees
        // the flag, or this sees what it has posted.
        smp_mb(Full);
        self.next_recv_wr(delivery)
    }

    /// Delivers one message. `Err`: the SRQ is to be put in error.
    fn deliver_one(&self, delivery: &mut Delivery) -> Result<Next> {
        if !self.has_messages() {
            return Ok(Next::Stop);
        }

        let Some(wr) = self.next_recv_wr_or_wait(delivery)? else {
            return Ok(Next::Stop);
        };
        let Some(message) = self.pop_message() else {
            return Ok(Next::Stop);
        };
        let result = self.deliver(delivery, &wr, &message);

        match result {
            // The owner forks, say. It gets the message, from its start, when that is over.
            Err(error) if error == EBUSY => {
                self.put_back(message);
                return Ok(Next::Retry);
            }
            Err(_) => message.refuse(QpError::Fatal),
            Ok(()) => {}
        }
        self.finish(message);
        result.map(|()| Next::Go)
    }

    /// The message is the next one again.
    fn put_back(&self, message: ListArc<Message>) {
        let mut queue = self.queue.lock();

        if queue.closed {
            drop(queue);
            self.finish(message);
        } else {
            queue.messages.push_front(message);
        }
    }

    /// Copies a message and completes the work request. `Err`: the SRQ is to be put in error.
    fn deliver(&self, delivery: &mut Delivery, wr: &RecvWr, message: &Message) -> Result {
        let refusal = self.scatter(wr, message.payload())?;
        let status = match refusal {
            None => bindings::IB_WC_SUCCESS,
            Some(QpError::Request) => bindings::IB_WC_LOC_LEN_ERR,
            Some(_) => bindings::IB_WC_LOC_PROT_ERR,
        };
        let mut cqe = message.completion();

        cqe.wr_id = wr.wr_id;
        cqe.srq_user_handle = self.user_handle;
        cqe.status = status;
        if refusal.is_some() {
            cqe.byte_len = 0;
        }

        delivery.consumer = delivery.consumer.wrapping_add(1);
        self.ring.store_release_u32(CONSUMER, delivery.consumer)?;
        self.check_limit(delivery)?;

        // Before userspace can see the completion. As with XRC, a receiver's error is the TGT QP's.
        match refusal {
            Some(error) => message.refuse(error),
            None => {
                self.delivered.add(1u64, Relaxed);
                message.delivered();
            }
        }
        self.cq
            .complete(&cqe, refusal.is_some() || message.solicited())
    }

    /// Tells once that the limit is reached.
    fn check_limit(&self, delivery: &mut Delivery) -> Result {
        if delivery.limit == 0 {
            return Ok(());
        }

        let posted = self
            .ring
            .load_acquire_u32(PRODUCER)?
            .wrapping_sub(delivery.consumer);

        if posted < delivery.limit {
            self.raise(
                &self.queue.lock(),
                bindings::IB_XRC_EVENT_SRQ_LIMIT,
                delivery.limit,
            );
            delivery.limit = 0;
        }
        Ok(())
    }

    /// Copies a message into the buffers of a work request. Returns why that is not possible.
    /// `EBUSY`: the owner keeps its memory locked.
    fn scatter(&self, wr: &RecvWr, mut payload: &[u8]) -> Result<Option<QpError>> {
        let sges = wr.sges.iter().take(wr.num_sge);
        let room: u64 = sges.clone().map(|sge| u64::from(sge.length)).sum();

        if room < payload.len() as u64 {
            return Ok(Some(QpError::Request));
        }
        for sge in sges {
            let len = payload.len().min(sge.length as usize);
            let (now, later) = payload.split_at(len);

            match self.memory.write(sge.addr, now) {
                Ok(()) => {}
                Err(error) if error == EBUSY => return Err(error),
                Err(_) => return Ok(Some(QpError::Access)),
            }
            payload = later;
        }
        Ok(None)
    }
}

impl Srq for SoftSrq {
    fn num(&self) -> u32 {
        self.num.get()
    }

    fn ring(&self) -> &SharedMemory {
        &self.ring
    }

    fn is_of_current(&self) -> bool {
        self.memory.is_current()
    }

    fn ring_info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info {
        bindings::ib_xrc_ring_info {
            mmap_offset,
            mmap_length: self.ring.len() as u64,
            entries: self.entries,
            stride: self.stride as u32,
        }
    }

    fn kick(self: Arc<Self>) {
        let domain = self.domain.clone();

        // If the work is queued already it will do.
        let _ = domain
            .services()
            .workqueues()
            .delivery()
            .enqueue::<Arc<Self>, 0>(self);
    }

    fn set_limit(&self, limit: u32) -> Result {
        if limit > self.entries {
            return Err(EINVAL);
        }

        let mut delivery = self.delivery.lock();

        delivery.limit = limit;
        self.check_limit(&mut delivery)
    }

    fn info(&self) -> bindings::ib_xrc_srq_info {
        bindings::ib_xrc_srq_info {
            srq_num: self.num.get(),
            flags: self.queue.lock().flags,
            pid: 0,
            waiting_msgs: self.waiting.load(Relaxed),
            recv_msgs: self.delivered.load(Relaxed),
        }
    }

    fn close(&self) {
        self.stop(|_| {});

        let events = self.queue.lock().events.take();

        drop(events);
        // Once this returns the kernel writes no more to the owner's memory.
        drop(self.delivery.lock());
    }
}

impl WorkItem for SoftSrq {
    type Pointer = Arc<Self>;

    /// Delivers what can be delivered.
    fn run(this: Arc<Self>) {
        loop {
            // Let go between messages, so that `close` waits for one at most.
            let mut delivery = this.delivery.lock();
            let next = this.deliver_one(&mut delivery);

            drop(delivery);
            match next {
                Ok(Next::Go) => {}
                Ok(Next::Stop) => break,
                // Others have the worker first. It has waited already.
                Ok(Next::Retry) => {
                    this.kick();
                    break;
                }
                Err(_) => {
                    this.fail();
                    break;
                }
            }
        }
    }
}
