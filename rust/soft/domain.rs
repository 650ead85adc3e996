// SPDX-License-Identifier: GPL-2.0

//! What the soft backend keeps for a domain: a PD, its SRQs by number, and its MRs.

use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
};

use crate::{
    rdma::{
        gate::GateGuard,
        pd::Pd, //
    },
    xrc::{
        backend::Srq as _,
        device::Services,
        tgt_qp::JobKey, //
    },
};

use super::{
    mr::SoftMr,
    srq::SoftSrq, //
};

/// A domain on the soft backend.
#[pin_data]
pub(crate) struct SoftDomain {
    services: Arc<Services>,
    /// Gone with the device.
    #[pin]
    pd: Mutex<Option<Arc<Pd>>>,
    #[pin]
    srqs: SpinLock<RBTree<u32, Arc<SoftSrq>>>,
    /// For the removal only.
    #[pin]
    mrs: Mutex<RBTree<u64, Arc<SoftMr>>>,
    next_mr_id: Atomic<u64>,
}

impl SoftDomain {
    /// Makes a PD, no SRQs and no MRs. Sleeps.
    pub(super) fn new(services: &Arc<Services>, gate: &GateGuard<'_>) -> Result<Arc<Self>> {
        let pd = Pd::new(gate, services.device())?;
        let services = services.clone();

        Arc::pin_init(
            pin_init!(Self {
                services,
                pd <- new_mutex!(Some(pd), "SoftDomain::pd"),
                srqs <- new_spinlock!(RBTree::new(), "SoftDomain::srqs"),
                mrs <- new_mutex!(RBTree::new(), "SoftDomain::mrs"),
                next_mr_id: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// What the objects of the device need.
    pub(super) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// The PD of the TGT QPs. `EIO`: the device is gone. Sleeps.
    pub(super) fn pd(&self) -> Result<Arc<Pd>> {
        self.pd.lock().clone().ok_or(EIO)
    }

    /// The SRQ of this number, if it is of this domain and job. Does not sleep.
    pub(super) fn find_srq(&self, num: u32, key: Option<JobKey>) -> Option<Arc<SoftSrq>> {
        self.srqs
            .lock()
            .get(&num)
            .filter(|srq| srq.key() == key)
            .cloned()
    }

    /// The first SRQ of this number or a greater one. Does not sleep.
    pub(super) fn next_srq(&self, num: u32) -> Option<Arc<SoftSrq>> {
        let mut srqs = self.srqs.lock();

        Some(srqs.cursor_lower_bound_mut(&num)?.current().1.clone())
    }

    /// Makes an SRQ known to senders. Sleeps.
    pub(super) fn add_srq(&self, srq: &Arc<SoftSrq>) -> Result {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let node = node.into_node(srq.num(), srq.clone());
        // Numbers are unique, so there is no earlier one.
        let old = self.srqs.lock().insert(node);

        drop(old);
        Ok(())
    }

    /// Forgets an SRQ.
    pub(super) fn remove_srq(&self, num: u32) {
        let node = self.srqs.lock().remove_node(&num);

        drop(node);
    }

    /// What tells an MR from the others; not reused.
    pub(super) fn next_mr_id(&self) -> u64 {
        self.next_mr_id.fetch_add(1u64, Relaxed)
    }

    /// Has an MR deregistered when the device goes. `ENOMEM`. Sleeps.
    pub(super) fn add_mr(&self, id: u64, mr: &Arc<SoftMr>) -> Result {
        self.mrs
            .lock()
            .try_create_and_insert(id, mr.clone(), GFP_KERNEL_ACCOUNT)?;
        Ok(())
    }

    /// Forgets an MR. Sleeps.
    pub(super) fn remove_mr(&self, id: u64) {
        let node = self.mrs.lock().remove_node(&id);

        drop(node);
    }

    /// The device goes. Sleeps.
    pub(super) fn remove(&self) {
        while let Some(mr) = self.pop_mr() {
            mr.deregister();
        }

        let pd = self.pd.lock().take();

        drop(pd);
        while let Some(srq) = self.pop_srq() {
            srq.device_removed();
        }
    }

    fn pop_srq(&self) -> Option<Arc<SoftSrq>> {
        let mut srqs = self.srqs.lock();
        let (_, node) = srqs.cursor_front_mut()?.remove_current();

        // The node's memory is freed under the spinlock, which is fine; the SRQ is not.
        Some(node.to_key_value().1)
    }

    fn pop_mr(&self) -> Option<Arc<SoftMr>> {
        let mut mrs = self.mrs.lock();
        let (_, node) = mrs.cursor_front_mut()?.remove_current();

        Some(node.to_key_value().1)
    }
}
