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
    part::{
        MessageId,
        Origin,
        Part, //
    },
    queue::{
        Assembly,
        OpenRoom,
        Queue,
        Step, //
    },
    receiver::Receiver,
    recv_ring::{
        RecvRing,
        RecvWr, //
    }, //
};

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
    ring: RecvRing,
    #[pin]
    queue: SpinLock<Queue>,
    /// Held while a part is copied, which may take as long as the owner's memory takes.
    #[pin]
    delivery: Mutex<Delivery>,
    #[pin]
    work: Work<SoftSrq>,
}

/// What to do after an attempt to deliver something.
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

/// What became of a message.
#[derive(Clone, Copy)]
enum Outcome {
    /// It is where it should be.
    Delivered,
    /// It could not be taken.
    Refused(QpError),
    /// Not all of it came, or was wanted.
    Flushed,
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
        let num = SrqNums::allocate(domain.services().srq_nums())?;
        let memory = UserMemory::of_current()?;
        let ring = RecvRing::new(attr.max_wr, attr.max_sge)?;
        let queue = Queue::new(attr.events)?;
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
                queue <- new_spinlock!(queue, "SoftSrq::queue"),
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

    /// Takes a place for a part. `None`: so many wait that their senders are to be held back. Does
    /// not sleep.
    pub(super) fn take_spare(&self) -> Option<ListArc<Part>> {
        let mut queue = self.queue.lock();
        let (spare, is_news) = queue.take_spare();

        if is_news {
            queue.raise(
                self.num.get(),
                bindings::IB_XRC_EVENT_SRQ_BACKLOG,
                self.waiting.load(Relaxed),
            );
        }
        spare
    }

    /// Takes a part of a message, to be delivered in turn. `ENOTCONN`: the SRQ takes no more; it is
    /// dropped. Does not sleep.
    pub(super) fn enqueue(self: &Arc<Self>, part: ListArc<Part>) -> Result {
        let first = part.is_first();

        if first {
            self.waiting.add(1u32, Relaxed);
        }

        let result = self.queue.lock().enqueue(part);

        match result {
            Ok(()) => {
                self.clone().kick();
                Ok(())
            }
            Err(part) if first => {
                self.drop_message(part);
                Err(ENOTCONN)
            }
            Err(part) => {
                // Its message is over already.
                self.finish(part);
                Ok(())
            }
        }
    }

    /// A part is over: whoever it had its place and buffer from gets them back.
    fn finish(&self, part: ListArc<Part>) {
        let Some((place, content, buffer)) = Part::finish(part) else {
            return;
        };

        if content.holds_back {
            content
                .origin
                .receiver
                .give_back(place, buffer, content.origin.connection);
        } else {
            self.queue.lock().put_spare(place);
        }
    }

    fn finish_all(&self, mut parts: List<Part>) {
        while let Some(part) = parts.pop_front() {
            self.finish(part);
        }
    }

    /// A message is over.
    fn end(&self, origin: &Origin) {
        let _ = self.waiting.fetch_sub(1u32, Relaxed);

        origin.receiver.finished(origin.connection);
    }

    /// A part is over; if it is the first one, so is its message, which had no work request.
    fn drop_message(&self, part: ListArc<Part>) {
        let origin = part.origin().filter(|_| part.is_first()).cloned();

        self.finish(part);
        if let Some(origin) = origin {
            self.end(&origin);
        }
    }

    /// Drops what has come from a receiver and is not delivered, as far as `goes` says. Returns how
    /// many messages that are. Sleeps.
    pub(super) fn discard(
        self: &Arc<Self>,
        receiver: &Receiver,
        goes: impl Fn(MessageId) -> bool,
    ) -> u64 {
        let (mut fresh, ready, aborted) = self.queue.lock().discard(receiver, goes);
        let mut messages = u64::from(aborted);

        self.finish_all(ready);
        while let Some(part) = fresh.pop_front() {
            messages = messages.saturating_add(u64::from(part.is_first()));
            self.drop_message(part);
        }
        self.queue.lock().settle(&self.ring);
        if aborted {
            self.clone().kick();
        }
        messages
    }

    /// Takes no more messages, and drops those that wait after `f` has seen them. Sleeps, but not
    /// while a part is copied.
    fn stop(&self, f: impl Fn(&Origin)) {
        let mut queue = self.queue.lock();

        queue.close();

        let (mut fresh, ready, open) = queue.clear();

        drop(queue);
        while let Some(part) = fresh.pop_front() {
            if let Some(origin) = part.origin().filter(|_| part.is_first()) {
                f(origin);
            }
            self.drop_message(part);
        }
        self.finish_all(ready);
        for open in open.values() {
            f(&open.origin);
            self.end(&open.origin);
        }
        self.domain.remove_srq(self.num.get());
    }

    /// Puts the SRQ in error, for good, because it cannot go on. Sleeps.
    fn fail(&self, error: Error) {
        // Their senders think that they arrived.
        self.stop(|origin| origin.refuse(QpError::Fatal));
        self.show_error();
        self.queue.lock().raise(
            self.num.get(),
            bindings::IB_XRC_EVENT_SRQ_ERROR,
            if error == EOVERFLOW {
                bindings::IB_XRC_SRQ_ERROR_CQ
            } else {
                bindings::IB_XRC_SRQ_ERROR_RING
            },
        );
    }

    /// Puts the SRQ in error, for good: the device is gone, and the TGT QPs with it. Sleeps, but not
    /// while a part is copied.
    pub(super) fn device_removed(&self) {
        self.stop(|_| {});
        self.show_error();
    }

    fn show_error(&self) {
        self.queue
            .lock()
            .set_flags(&self.ring, bindings::IB_XRC_SRQ_RING_ERROR);
    }

    /// Reads the next work request; if there is none, has userspace kick once it posts one.
    fn next_recv_wr(&self, delivery: &Delivery) -> Result<Option<RecvWr>> {
        if let Some(wr) = self.ring.read(delivery.consumer)? {
            return Ok(Some(wr));
        }

        let mut queue = self.queue.lock();

        if queue.is_closed() {
            return Ok(None);
        }
        queue.set_flags(&self.ring, bindings::IB_XRC_SRQ_RING_NEED_KICK);
        drop(queue);
        // Pairs with the barrier between posting and looking at the flag: either userspace sees
        // the flag, or this sees what it has posted.
        smp_mb(Full);
        self.ring.read(delivery.consumer)
    }

    /// Takes the work request that was read.
    fn take_recv_wr(&self, delivery: &mut Delivery) -> Result {
        delivery.consumer = delivery.consumer.wrapping_add(1);
        self.ring.take(delivery.consumer)?;
        self.check_limit(delivery)
    }

    /// Does one step. `Err`: the SRQ is to be put in error.
    fn step(&self, delivery: &mut Delivery) -> Result<Next> {
        let step = self.queue.lock().next();

        match step {
            Step::Idle => {
                // A part that comes now queues the work.
                self.queue.lock().settle(&self.ring);
                return Ok(Next::Stop);
            }
            Step::Drop(part) => self.finish(part),
            Step::Abort(open, rest) => {
                let result = open.assembly.map_or(Ok(()), |assembly| {
                    self.complete(&open.origin, &assembly, Outcome::Flushed, false)
                });

                self.finish_all(rest);
                self.end(&open.origin);
                result?;
            }
            Step::Continue(part, assembly) => return self.proceed(part, assembly),
            Step::Begin { whole } => {
                let Some(wr) = self.next_recv_wr(delivery)? else {
                    return Ok(Next::Stop);
                };

                return if whole {
                    self.deliver_whole(delivery, wr)
                } else {
                    self.open(delivery, self.assembly(wr, Default::default()))
                };
            }
        }
        Ok(Next::Go)
    }

    fn assembly(&self, wr: RecvWr, cqe: bindings::ib_xrc_cqe) -> Assembly {
        Assembly {
            cqe: bindings::ib_xrc_cqe {
                wr_id: wr.wr_id,
                srq_user_handle: self.user_handle,
                ..cqe
            },
            wr,
            filled: 0,
        }
    }

    /// Gives a work request to a message in parts.
    fn open(&self, delivery: &mut Delivery, assembly: Assembly) -> Result<Next> {
        let Ok(room) = self.memory.charged(|| OpenRoom::new(assembly)) else {
            return Ok(Next::Retry);
        };
        let result = self.queue.lock().open(room);

        // It may have been dropped meanwhile.
        if result.is_ok() {
            self.take_recv_wr(delivery)?;
        }
        Ok(Next::Go)
    }

    /// Delivers a message in one part.
    fn deliver_whole(&self, delivery: &mut Delivery, wr: RecvWr) -> Result<Next> {
        let Some(part) = self.queue.lock().pop_whole() else {
            return Ok(Next::Go);
        };
        let Some(origin) = part.origin().cloned() else {
            return Ok(Next::Go);
        };
        let mut assembly = self.assembly(wr, part.completion());
        let outcome = match self.copy(&mut assembly, &part) {
            // The owner forks, say. It gets the message, from its start, when that is over.
            Err(_) => {
                let result = self.queue.lock().put_back(part);

                if let Err(part) = result {
                    self.drop_message(part);
                }
                return Ok(Next::Retry);
            }
            Ok(outcome) => outcome,
        };

        // One that was sent before it was refused meanwhile, say. The work request is for the next.
        if !self.queue.lock().copied() {
            self.drop_message(part);
            return Ok(Next::Go);
        }

        let result = self
            .take_recv_wr(delivery)
            .inspect_err(|_| origin.refuse(QpError::Fatal))
            .and_then(|()| self.complete(&origin, &assembly, outcome, part.solicited()));

        self.drop_message(part);
        result.map(|()| Next::Go)
    }

    /// Delivers the next part of an open message.
    fn proceed(&self, part: ListArc<Part>, mut assembly: KBox<Assembly>) -> Result<Next> {
        let Some(origin) = part.origin().cloned() else {
            return Ok(Next::Go);
        };
        let outcome = match self.copy(&mut assembly, &part) {
            Err(_) => {
                let mut queue = self.queue.lock();

                if queue.suspend(&origin, assembly).is_ok() {
                    queue.put_back_ready(part);
                } else {
                    drop(queue);
                    self.finish(part);
                }
                return Ok(Next::Retry);
            }
            Ok(outcome) => outcome,
        };

        if matches!(outcome, Outcome::Delivered) && !part.is_last() {
            let suspended = self.queue.lock().suspend(&origin, assembly);

            // If nobody waits for it, it was dropped.
            drop(suspended);
            self.finish(part);
            return Ok(Next::Go);
        }

        let ended = self.queue.lock().finish(&origin);
        let Some((open, rest)) = ended else {
            self.finish(part);
            return Ok(Next::Go);
        };
        // Who has dropped it has counted it.
        let outcome = if open.aborted {
            Outcome::Flushed
        } else {
            outcome
        };
        let result = self.complete(&origin, &assembly, outcome, part.solicited());

        self.finish_all(rest);
        self.finish(part);
        self.end(&origin);
        result.map(|()| Next::Go)
    }

    /// Copies a part to where it belongs. `EBUSY`: the owner keeps its memory locked.
    fn copy(&self, assembly: &mut Assembly, part: &Part) -> Result<Outcome> {
        let payload = part.payload();

        if let Some(error) = assembly
            .wr
            .scatter(&self.memory, assembly.filled, payload)?
        {
            return Ok(Outcome::Refused(error));
        }
        assembly.filled = assembly.filled.saturating_add(payload.len() as u64);
        Ok(Outcome::Delivered)
    }

    /// Completes a work request that was taken. `Err`: the SRQ is to be put in error.
    fn complete(
        &self,
        origin: &Origin,
        assembly: &Assembly,
        outcome: Outcome,
        solicited: bool,
    ) -> Result {
        let mut cqe = assembly.cqe;
        let mut solicited = solicited;

        // Before userspace can see the completion. As with XRC, a receiver's error is the TGT QP's.
        match outcome {
            Outcome::Delivered => {
                cqe.status = bindings::IB_WC_SUCCESS;
                // Nothing is copied for an RDMA WRITE.
                if cqe.opcode == bindings::IB_XRC_WC_RECV {
                    cqe.byte_len = assembly.filled.try_into()?;
                }
                if solicited {
                    cqe.wc_flags |= bindings::IB_XRC_WC_SOLICITED;
                }
                self.delivered.add(1u64, Relaxed);
                origin
                    .receiver
                    .delivered(origin.connection, assembly.filled);
            }
            Outcome::Refused(error) => {
                cqe.status = match error {
                    QpError::Request => bindings::IB_WC_LOC_LEN_ERR,
                    _ => bindings::IB_WC_LOC_PROT_ERR,
                };
                cqe.byte_len = 0;
                solicited = true;
                origin.refuse(error);
            }
            Outcome::Flushed => {
                cqe.status = bindings::IB_WC_WR_FLUSH_ERR;
                cqe.byte_len = 0;
                solicited = true;
            }
        }
        self.cq
            .complete(&cqe, solicited)
            .inspect_err(|_| origin.refuse(QpError::Fatal))
    }

    /// Tells once that the limit is reached.
    fn check_limit(&self, delivery: &mut Delivery) -> Result {
        if delivery.limit != 0 && self.ring.posted(delivery.consumer)? < delivery.limit {
            self.queue.lock().raise(
                self.num.get(),
                bindings::IB_XRC_EVENT_SRQ_LIMIT,
                delivery.limit,
            );
            delivery.limit = 0;
        }
        Ok(())
    }
}

impl Srq for SoftSrq {
    fn num(&self) -> u32 {
        self.num.get()
    }

    fn ring(&self) -> &SharedMemory {
        self.ring.memory()
    }

    fn is_of_current(&self) -> bool {
        self.memory.is_current()
    }

    fn ring_info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info {
        self.ring.info(mmap_offset)
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
        if limit > self.ring.entries() {
            return Err(EINVAL);
        }

        let mut delivery = self.delivery.lock();

        delivery.limit = limit;
        self.check_limit(&mut delivery)
    }

    fn attr(&self) -> bindings::ib_xrc_srq_attr {
        bindings::ib_xrc_srq_attr {
            max_wr: self.ring.entries(),
            max_sge: self.ring.max_sge(),
            limit: self.delivery.lock().limit,
            reserved: 0,
        }
    }

    fn info(&self) -> bindings::ib_xrc_srq_info {
        bindings::ib_xrc_srq_info {
            srq_num: self.num.get(),
            flags: self.queue.lock().flags(),
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
            // Let go between parts, so that `close` waits for one at most.
            let mut delivery = this.delivery.lock();
            let next = this.step(&mut delivery);

            drop(delivery);
            match next {
                Ok(Next::Go) => {}
                Ok(Next::Stop) => break,
                // Others have the worker first. It has waited already.
                Ok(Next::Retry) => {
                    this.kick();
                    break;
                }
                // The CQ was told of it first: nothing is wrong with the SRQ.
                Err(error) if error == EIO => {
                    this.device_removed();
                    break;
                }
                Err(error) => {
                    this.fail(error);
                    break;
                }
            }
        }
    }
}
