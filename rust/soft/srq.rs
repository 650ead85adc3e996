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
    xrc::{
        backend::{
            Srq,
            SrqAttr, //
        },
        srq_num::{
            SrqNum,
            SrqNums, //
        }, //
    },
};

use super::{
    cq::SoftCq,
    domain::SoftDomain,
    message::Message,
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
}

/// Where delivery stands.
struct Delivery {
    /// The kernel's own copy: the one in the ring is for userspace to read.
    consumer: u32,
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
                    },
                    "SoftSrq::queue"
                ),
                delivery <- new_mutex!(
                    Delivery { consumer: 0 },
                    "SoftSrq::delivery"
                ),
                work <- new_work!("SoftSrq::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;

        srq.domain.add_srq(&srq)?;
        Ok(srq)
    }

    /// Takes a place for a message. `None`: so many messages wait that their senders are to be held
    /// back. Does not sleep.
    pub(super) fn take_spare(&self) -> Option<ListArc<Message>> {
        self.queue.lock().spares.pop_front()
    }

    /// Takes a message, to be delivered in turn. `ENOTCONN`: the SRQ takes no more; the message is
    /// dropped. Does not sleep.
    pub(super) fn enqueue(self: &Arc<Self>, message: ListArc<Message>) -> Result {
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

        if content.holds_back {
            content
                .receiver
                .give_back(place, buffer, content.connection);
        } else {
            self.queue.lock().spares.push_back(place);
        }
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
        self.stop(Message::refuse);
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

    /// Delivers one message. Returns whether to go on. `Err`: the SRQ is to be put in error.
    fn deliver_one(&self, delivery: &mut Delivery) -> Result<bool> {
        if !self.has_messages() {
            return Ok(false);
        }

        let Some(wr) = self.next_recv_wr_or_wait(delivery)? else {
            return Ok(false);
        };
        let Some(message) = self.pop_message() else {
            return Ok(false);
        };
        let result = self.deliver(delivery, &wr, &message);

        if result.is_err() {
            message.refuse();
        }
        self.finish(message);
        result.map(|()| true)
    }

    /// Copies a message and completes the work request. `Err`: the SRQ is to be put in error.
    fn deliver(&self, delivery: &mut Delivery, wr: &RecvWr, message: &Message) -> Result {
        // An owner that holds up each message for as long as it can is not waited for again.
        let status = self.scatter(wr, message.payload())?;
        let failed = status != bindings::IB_WC_SUCCESS;
        let mut cqe = message.completion();

        cqe.wr_id = wr.wr_id;
        cqe.srq_user_handle = self.user_handle;
        cqe.status = status;
        if failed {
            cqe.byte_len = 0;
        }

        delivery.consumer = delivery.consumer.wrapping_add(1);
        self.ring.store_release_u32(CONSUMER, delivery.consumer)?;

        // Before userspace can see the completion. As with XRC, a receiver's error is the TGT QP's.
        if failed {
            message.refuse();
        } else {
            message.delivered();
        }
        self.cq.complete(&cqe, failed || message.solicited())
    }

    /// Copies a message into the buffers of a work request. Returns the status of its completion.
    /// `EBUSY`: the owner keeps its memory locked.
    fn scatter(&self, wr: &RecvWr, mut payload: &[u8]) -> Result<bindings::ib_wc_status> {
        let sges = wr.sges.iter().take(wr.num_sge);
        let room: u64 = sges.clone().map(|sge| u64::from(sge.length)).sum();

        if room < payload.len() as u64 {
            return Ok(bindings::IB_WC_LOC_LEN_ERR);
        }
        for sge in sges {
            let len = payload.len().min(sge.length as usize);
            let (now, later) = payload.split_at(len);

            match self.memory.write(sge.addr, now) {
                Ok(()) => {}
                Err(error) if error == EBUSY => return Err(error),
                Err(_) => return Ok(bindings::IB_WC_LOC_PROT_ERR),
            }
            payload = later;
        }
        Ok(bindings::IB_WC_SUCCESS)
    }
}

impl Srq for SoftSrq {
    fn num(&self) -> u32 {
        self.num.get()
    }

    fn ring(&self) -> &SharedMemory {
        &self.ring
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

    fn close(&self) {
        self.stop(|_| {});
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

            match this.deliver_one(&mut delivery) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    this.fail();
                    break;
                }
            }
        }
    }
}
