// SPDX-License-Identifier: GPL-2.0

//! What the soft backend keeps for a domain: a PD, and its SRQs by number.

use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
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

use super::srq::SoftSrq;

/// A domain on the soft backend.
#[pin_data]
pub(crate) struct SoftDomain {
    services: Arc<Services>,
    /// Gone with the device.
    #[pin]
    pd: Mutex<Option<Arc<Pd>>>,
    #[pin]
    srqs: SpinLock<RBTree<u32, Arc<SoftSrq>>>,
}

impl SoftDomain {
    /// Makes a PD and no SRQs. Sleeps.
    pub(super) fn new(services: &Arc<Services>, gate: &GateGuard<'_>) -> Result<Arc<Self>> {
        let pd = Pd::new(gate, services.device())?;
        let services = services.clone();

        Arc::pin_init(
            pin_init!(Self {
                services,
                pd <- new_mutex!(Some(pd), "SoftDomain::pd"),
                srqs <- new_spinlock!(RBTree::new(), "SoftDomain::srqs"),
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

    /// The device goes. Sleeps.
    pub(super) fn remove(&self) {
        let pd = self.pd.lock().take();

        drop(pd);
        while let Some(srq) = self.pop_srq() {
            srq.fail();
        }
    }

    fn pop_srq(&self) -> Option<Arc<SoftSrq>> {
        let mut srqs = self.srqs.lock();
        let (_, node) = srqs.cursor_front_mut()?.remove_current();

        // The node's memory is freed under the spinlock, which is fine; the SRQ is not.
        Some(node.to_key_value().1)
    }
}
