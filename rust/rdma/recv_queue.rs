// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a QP.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::ptr::NonNull;

use kernel::{
    bindings::dma_data_direction,
    error::to_result,
    prelude::*,
    sync::{new_spinlock, Arc, SpinLock},
};

use super::{
    device::Device,
    recv_buffer::{RecvBuffer, Slot, RECV_BUFFER_SIZE},
};
use crate::bindings;

/// What the core calls when a receive has completed.
pub(super) type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

/// The receive queue of a QP, to which any thread may post buffers.
///
/// It may outlive the QP: then it takes no buffers.
///
/// # Invariants
///
/// The device and the QP may write to the buffers in `posted`, and only the queue knows
/// them. It owns them.
#[pin_data]
pub(crate) struct RecvQueue {
    device: Arc<Device>,
    lkey: u32,
    done: Done,
    depth: usize,
    #[pin]
    inner: SpinLock<Inner>,
}

/// # Invariants
///
/// - `qp`, if there is one, is a QP on the queue's device.
/// - The `index` of each slot of `posted` is its position, and `posted` has room for `depth`.
struct Inner {
    qp: Option<NonNull<bindings::ib_qp>>,
    /// Whether the QP's state allows posting.
    open: bool,
    /// A completion is being handled.
    handling: bool,
    posted: KVec<NonNull<Slot>>,
}

// SAFETY: The pointers may be used by any thread, as the lock is held.
unsafe impl Send for Inner {}

impl RecvQueue {
    /// Makes a queue for up to `depth` buffers at a time, without a QP.
    pub(super) fn new(device: Arc<Device>, lkey: u32, done: Done, depth: u32) -> Result<Arc<Self>> {
        let depth = depth as usize;
        let posted = KVec::with_capacity(depth, GFP_KERNEL_ACCOUNT)?;

        Arc::pin_init(
            pin_init!(Self {
                device,
                lkey,
                done,
                depth,
                inner <- new_spinlock!(
                    Inner {
                        qp: None,
                        open: false,
                        handling: false,
                        posted,
                    },
                    "ib_xrc_recv_queue"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Posts a buffer; if that fails it is freed. Process context; may be called by several
    /// threads. A buffer of a QP that is in error completes at once, as flushed.
    ///
    /// `ENOTCONN`: the QP takes none now (it is in RESET or has been destroyed). `ENOSPC`: the queue
    /// is full. `ENOMEM`, or what the driver says.
    pub(crate) fn post(&self, buffer: RecvBuffer) -> Result {
        let mut inner = self.inner.lock();
        let qp = match inner.qp {
            Some(qp) if inner.open => qp,
            _ => return Err(ENOTCONN),
        };

        if inner.posted.len() >= self.depth {
            return Err(ENOSPC);
        }

        let data = buffer.data_ptr();
        // SAFETY: There is a QP, so the device is registered; the buffer is not on the stack.
        let (dma_addr, failed) = unsafe {
            let dma_addr = bindings::ib_xrc_helper_ib_dma_map_single(
                self.device.as_raw(),
                data.cast(),
                RECV_BUFFER_SIZE,
                dma_data_direction::DMA_FROM_DEVICE,
            );
            let failed =
                bindings::ib_xrc_helper_ib_dma_mapping_error(self.device.as_raw(), dma_addr) != 0;
            (dma_addr, failed)
        };
        if failed {
            return Err(ENOMEM);
        }

        let slot = buffer.into_raw();
        let index = inner.posted.len();
        let result = match inner.posted.push_within_capacity(slot) {
            Ok(()) => {
                // SAFETY: The slot is ours, and the QP is there and belongs to the device.
                let result = unsafe { self.post_slot(qp, slot, index, dma_addr) };
                if result.is_err() {
                    // It is the last one, as the lock is held.
                    inner.posted.pop();
                }
                result
            }
            Err(_) => Err(ENOSPC),
        };

        // The lock is held, so that the QP and with it the device is still there.
        result.inspect_err(|_| {
            self.unmap(dma_addr);
            // SAFETY: It is from `into_raw` and was not posted.
            drop(unsafe { RecvBuffer::from_raw(slot) });
        })
    }

    /// Buffers that are posted.
    pub(crate) fn posted(&self) -> usize {
        self.inner.lock().posted.len()
    }

    /// Whether no buffer is posted and no completion of one is being handled.
    pub(crate) fn is_drained(&self) -> bool {
        let inner = self.inner.lock();

        inner.posted.is_empty() && !inner.handling
    }

    /// # Safety
    ///
    /// The caller holds the lock, `slot` is owned by the queue, and its data is mapped at
    /// `dma_addr`.
    unsafe fn post_slot(
        &self,
        qp: NonNull<bindings::ib_qp>,
        slot: NonNull<Slot>,
        index: usize,
        dma_addr: u64,
    ) -> Result {
        let slot = slot.as_ptr();
        // SAFETY: The caller says that it is ours. No device knows it yet.
        unsafe {
            (*slot).cqe.done = Some(self.done);
            (*slot).index = index;
            (*slot).dma_addr = dma_addr;
        }
        let mut sge = bindings::ib_sge {
            addr: dma_addr,
            length: RECV_BUFFER_SIZE as u32,
            lkey: self.lkey,
        };
        let mut wr = bindings::ib_recv_wr {
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        // SAFETY: The slot is valid.
        wr.__bindgen_anon_1.wr_cqe = unsafe { &raw mut (*slot).cqe };
        let mut bad_wr = core::ptr::null();

        // SAFETY: By the type invariants the QP is there. The work request is copied, the
        // buffer stays until its completion.
        to_result(unsafe { bindings::ib_xrc_helper_ib_post_recv(qp.as_ptr(), &wr, &mut bad_wr) })
    }

    fn unmap(&self, dma_addr: u64) {
        // SAFETY: The callers have an address that was mapped for the device, which is
        // registered, as there is a QP.
        unsafe {
            bindings::ib_xrc_helper_ib_dma_unmap_single(
                self.device.as_raw(),
                dma_addr,
                RECV_BUFFER_SIZE,
                dma_data_direction::DMA_FROM_DEVICE,
            )
        }
    }

    /// Takes back a buffer that has completed, with `len` bytes in it. [`handled`](Self::handled)
    /// is called once that was seen to.
    ///
    /// # Safety
    ///
    /// `slot` is posted, and the device has done with it.
    pub(super) unsafe fn complete(&self, slot: NonNull<Slot>, len: u32) -> RecvBuffer {
        {
            let mut inner = self.inner.lock();

            inner.handling = true;
            // SAFETY: The slot is valid as it is posted.
            let index = unsafe { (*slot.as_ptr()).index };
            // INVARIANT: The last one takes its place.
            if let Some(last) = inner.posted.pop() {
                if last != slot {
                    if let Some(place) = inner.posted.get_mut(index) {
                        *place = last;
                        // SAFETY: The slot is valid as it is posted.
                        unsafe { (*last.as_ptr()).index = index };
                    }
                }
            }
        }
        // SAFETY: As above; nobody else has it any more.
        self.unmap(unsafe { (*slot.as_ptr()).dma_addr });
        // SAFETY: It was made by `into_raw`, and is in `posted` no longer.
        let mut buffer = unsafe { RecvBuffer::from_raw(slot) };
        buffer.set_len(len as usize);
        buffer
    }

    /// The completion was handled; they are handled one at a time.
    pub(super) fn handled(&self) {
        self.inner.lock().handling = false;
    }

    /// Says which QP this is the queue of.
    ///
    /// # Safety
    ///
    /// `qp` is a QP on the device, and stays so until `close` has been called.
    pub(super) unsafe fn attach(&self, qp: NonNull<bindings::ib_qp>) {
        // INVARIANT: The caller says so.
        self.inner.lock().qp = Some(qp);
    }

    /// Says whether the QP's state allows posting.
    pub(super) fn set_open(&self, open: bool) {
        self.inner.lock().open = open;
    }

    /// Parts the queue from its QP, for good. Nobody is about to post to it when this returns.
    pub(super) fn close(&self) {
        self.inner.lock().qp = None;
    }

    /// Frees the buffers that never completed.
    ///
    /// # Safety
    ///
    /// No device knows any of them, nor is a completion of one left: the QP and its CQ have been
    /// destroyed, or the QP was reset and its CQ drained. The device is still registered. Nobody
    /// posts meanwhile.
    pub(super) unsafe fn reclaim(&self) {
        loop {
            let Some(slot) = self.inner.lock().posted.pop() else {
                break;
            };
            // SAFETY: The queue owns it, and no device knows it any more.
            self.unmap(unsafe { (*slot.as_ptr()).dma_addr });
            // SAFETY: As above.
            drop(unsafe { RecvBuffer::from_raw(slot) });
        }
    }
}
