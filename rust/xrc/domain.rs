// SPDX-License-Identifier: GPL-2.0

//! XRC domains: where TGT QPs and SRQs meet.

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Mutex, //
    },
};

use crate::{
    bindings,
    linux::inode::InodeRef,
    rdma::gate::GateGuard, //
};

use super::{
    backend::Backend,
    device::Services,
    tgt_qp::TgtQp, //
};

/// A domain.
#[pin_data]
pub(crate) struct Domain<B: Backend> {
    services: Arc<Services>,
    /// The file that the domain is found by. The reference keeps the inode's identity.
    inode: Option<InodeRef>,
    backend: Arc<B::Domain>,
    /// Taken for lookups and counting only, never while hardware is touched.
    #[pin]
    inner: Mutex<Inner<B>>,
}

struct Inner<B: Backend> {
    tgt_qps: RBTree<u32, TgtQpEntry<B>>,
    srqs: u32,
}

struct TgtQpEntry<B: Backend> {
    tgt_qp: Arc<TgtQp<B>>,
    /// Registrations with it.
    refs: u32,
}

impl<B: Backend> Inner<B> {
    fn tgt_qps_after(&self, after: Option<u32>) -> impl Iterator<Item = &TgtQpEntry<B>> {
        self.tgt_qps
            .iter()
            .filter(move |&(&num, _)| after.is_none_or(|after| num > after))
            .map(|(_, entry)| entry)
    }
}

impl<B: Backend> Domain<B> {
    /// Makes a domain without TGT QPs. Sleeps.
    pub(crate) fn new(
        services: &Arc<Services>,
        gate: &GateGuard<'_>,
        inode: Option<InodeRef>,
    ) -> Result<Arc<Self>> {
        let backend = B::open_domain(services, gate)?;
        let services = services.clone();

        Arc::pin_init(
            pin_init!(Self {
                services,
                inode,
                backend,
                inner <- new_mutex!(
                    Inner {
                        tgt_qps: RBTree::new(),
                        srqs: 0,
                    },
                    "Domain::inner"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// What the backend keeps for the domain.
    pub(crate) fn backend(&self) -> &Arc<B::Domain> {
        &self.backend
    }

    /// Makes a TGT QP with one reference, the caller's. Sleeps.
    pub(crate) fn create_tgt_qp(&self, gate: &GateGuard<'_>) -> Result<Arc<TgtQp<B>>> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let tgt_qp = TgtQp::new(&self.services, &self.backend, gate)?;
        let entry = TgtQpEntry {
            tgt_qp: tgt_qp.clone(),
            refs: 1,
        };

        // The number is free here: the device gives it out again only after the earlier QP was
        // destroyed, which comes after its entry was removed.
        let old = self
            .inner
            .lock()
            .tgt_qps
            .insert(node.into_node(tgt_qp.num(), entry));

        drop(old);
        Ok(tgt_qp)
    }

    /// Takes a reference on the TGT QP of this number. `EINVAL`: there is none (as
    /// `ib_open_qp()`).
    pub(crate) fn get_tgt_qp(&self, qp_num: u32) -> Result<Arc<TgtQp<B>>> {
        let mut inner = self.inner.lock();
        let entry = inner.tgt_qps.get_mut(&qp_num).ok_or(EINVAL)?;

        entry.refs = entry.refs.checked_add(1).ok_or(EOVERFLOW)?;
        Ok(entry.tgt_qp.clone())
    }

    /// Gives a reference back; the TGT QP is destroyed with the last. Sleeps.
    pub(crate) fn put_tgt_qp(&self, tgt_qp: &TgtQp<B>) {
        let mut inner = self.inner.lock();

        // Without an entry the device was removed, and the QP with it.
        let Some(entry) = inner.tgt_qps.get_mut(&tgt_qp.num()) else {
            return;
        };

        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs != 0 {
            return;
        }

        let node = inner.tgt_qps.remove_node(&tgt_qp.num());

        drop(inner);
        tgt_qp.destroy();
        drop(node);
    }

    /// Finds a TGT QP without a reference that would keep it from being destroyed; calls on one
    /// that was return `EINVAL`. `EINVAL`: there is none.
    pub(crate) fn find_tgt_qp(&self, qp_num: u32) -> Result<Arc<TgtQp<B>>> {
        match self.inner.lock().tgt_qps.get(&qp_num) {
            Some(entry) => Ok(entry.tgt_qp.clone()),
            None => Err(EINVAL),
        }
    }

    /// The TGT QP as userspace sees it.
    pub(crate) fn tgt_qp_info(&self, tgt_qp: &TgtQp<B>) -> bindings::ib_xrc_tgt_qp_info {
        let refs = match self.inner.lock().tgt_qps.get(&tgt_qp.num()) {
            Some(entry) => entry.refs,
            None => 0,
        };

        tgt_qp.info(refs)
    }

    /// Describes the TGT QPs with a greater number than `after`, in the order of their numbers,
    /// up to `capacity` of them. Returns also how many there are.
    pub(crate) fn list_tgt_qps(
        &self,
        after: Option<u32>,
        capacity: usize,
    ) -> Result<(KVVec<bindings::ib_xrc_tgt_qp_info>, u32)> {
        let mut infos = KVVec::new();

        // Memory is needed without the lock; meanwhile there may be more TGT QPs.
        loop {
            let wanted = self.inner.lock().tgt_qps_after(after).count().min(capacity);

            if infos.capacity() < wanted {
                infos.reserve(wanted, GFP_KERNEL_ACCOUNT)?;
            }

            let inner = self.inner.lock();
            let count = inner.tgt_qps_after(after).count();

            if infos.capacity() < count.min(capacity) {
                continue;
            }
            for entry in inner.tgt_qps_after(after).take(capacity) {
                // There is room: just checked.
                let _ = infos.push_within_capacity(entry.tgt_qp.info(entry.refs));
            }
            return Ok((infos, u32::try_from(count)?));
        }
    }

    /// Counts an SRQ made in the domain.
    pub(crate) fn add_srq(&self) {
        let mut inner = self.inner.lock();

        inner.srqs = inner.srqs.saturating_add(1);
    }

    /// An SRQ is gone.
    pub(crate) fn remove_srq(&self) {
        let mut inner = self.inner.lock();

        inner.srqs = inner.srqs.saturating_sub(1);
    }

    /// The domain as userspace sees it, but for the number of handles.
    pub(crate) fn info(&self) -> bindings::ib_xrc_xrcd_info {
        let inner = self.inner.lock();

        bindings::ib_xrc_xrcd_info {
            inode: self.inode.as_ref().map_or(0, InodeRef::ino),
            dev: self.inode.as_ref().map_or(0, InodeRef::dev),
            policy: bindings::IB_XRC_POLICY_REFS,
            handles: 0,
            tgt_qps: inner.tgt_qps.values().count() as u32,
            srqs: inner.srqs,
            reserved: 0,
            bytes: 0,
        }
    }

    /// The last handle is gone: destroys what is left. Sleeps.
    pub(crate) fn close(&self) {
        // One at a time, so that no memory is needed and the lock is not held.
        while let Some(entry) = self.pop_tgt_qp() {
            entry.tgt_qp.destroy();
        }
    }

    /// The device goes: destroys everything that the domain has on it. Sleeps.
    pub(crate) fn remove(&self) {
        self.close();
        B::remove_domain(&self.backend);
    }

    fn pop_tgt_qp(&self) -> Option<TgtQpEntry<B>> {
        let mut inner = self.inner.lock();
        let (_, node) = inner.tgt_qps.cursor_front_mut()?.remove_current();

        Some(node.to_key_value().1)
    }
}
