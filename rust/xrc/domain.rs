// SPDX-License-Identifier: GPL-2.0

//! XRC domains: where TGT QPs and SRQs meet.

use kernel::{
    current,
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    },
    task::Task, //
};

use crate::{
    bindings,
    linux::inode::InodeRef,
    rdma::gate::GateGuard, //
};

use super::{
    backend::{
        Backend,
        Srq as _, //
    },
    device::Services,
    holders,
    lifetime::members::{
        Members,
        Reason,
        Room, //
    },
    linger::{
        self,
        Expire,
        LingerTimer, //
    },
    list,
    policy::Policy,
    quota::{
        Amount,
        Charge,
        Quota, //
    },
    subscribers::Subscribers,
    tgt_qp::{
        JobKey,
        TgtQp, //
    }, //
};

/// A domain.
#[pin_data]
pub(crate) struct Domain<B: Backend> {
    services: Arc<Services>,
    policy: Policy,
    backend: Arc<B::Domain>,
    quota: Arc<Quota>,
    subscribers: Arc<Subscribers>,
    linger_timer: Arc<LingerTimer>,
    #[pin]
    tgt_qps: Members<TgtQp<B>>,
    /// Taken for lookups only.
    #[pin]
    srqs: Mutex<RBTree<u32, SrqEntry<B>>>,
    /// The file that the domain is found by. The reference keeps the inode's identity. Goes last,
    /// as giving it back may take as long as a file system does, which the device need not wait for.
    inode: Option<InodeRef>,
}

struct SrqEntry<B: Backend> {
    srq: Arc<B::Srq>,
    process: ARef<Task>,
}

impl<B: Backend> Domain<B> {
    /// Makes a domain without TGT QPs. Sleeps.
    pub(crate) fn new(
        services: &Arc<Services>,
        gate: &GateGuard<'_>,
        inode: Option<InodeRef>,
        policy: Policy,
    ) -> Result<Arc<Self>> {
        let rules = policy.rules();
        let quota = Quota::new(&policy)?;
        let subscribers = Subscribers::new()?;
        let linger_timer = LingerTimer::new(services, rules.linger_ns)?;
        let backend = B::open_domain(services, gate)?;
        let services = services.clone();

        Arc::pin_init(
            pin_init!(Self {
                services,
                inode,
                policy,
                backend,
                quota,
                subscribers,
                linger_timer,
                tgt_qps <- Members::new(rules),
                srqs <- new_mutex!(RBTree::new(), "Domain::srqs"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// What the objects of the device need.
    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// What the backend keeps for the domain.
    pub(crate) fn backend(&self) -> &Arc<B::Domain> {
        &self.backend
    }

    /// The rules of the domain.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who is told of the TGT QPs that come and go.
    pub(crate) fn subscribers(&self) -> &Arc<Subscribers> {
        &self.subscribers
    }

    /// Makes a TGT QP with one registration, the caller's. `EDQUOT`: the domain has too many.
    /// Sleeps.
    pub(crate) fn create_tgt_qp(
        self: &Arc<Self>,
        gate: &GateGuard<'_>,
        key: Option<JobKey>,
    ) -> Result<Arc<TgtQp<B>>> {
        let charge = Quota::charge(
            &self.quota,
            Amount {
                tgt_qps: 1,
                srqs: 0,
                bytes: B::limits(self.services.device()).tgt_qp_bytes.into(),
            },
        )?;
        let room = Room::new()?;
        let tgt_qp = TgtQp::new(self, gate, key, charge)?;

        self.tgt_qps.insert(room, tgt_qp.clone());
        self.subscribers
            .raise(bindings::IB_XRC_EVENT_TGT_QP_CREATED, tgt_qp.num(), 0);
        Ok(tgt_qp)
    }

    /// Registers with the TGT QP of this number. `EINVAL`: there is none (as `ib_open_qp()`).
    pub(crate) fn get_tgt_qp(&self, qp_num: u32) -> Result<Arc<TgtQp<B>>> {
        self.tgt_qps.get(qp_num)
    }

    /// Gives a registration back, with the last of which the TGT QP may go. Sleeps.
    pub(crate) fn put_tgt_qp(self: &Arc<Self>, tgt_qp: &TgtQp<B>) {
        if let Some(deadline_ns) = self.tgt_qps.put(tgt_qp, linger::now_ns()) {
            LingerTimer::arm(&self.linger_timer, self.clone(), deadline_ns);
        }
    }

    /// Finds a TGT QP, which may go at any time. `EINVAL`: there is none.
    pub(crate) fn find_tgt_qp(&self, qp_num: u32) -> Result<Arc<TgtQp<B>>> {
        self.tgt_qps.find(qp_num)
    }

    /// An error has hit a TGT QP: destroys it if the policy says so. Sleeps.
    pub(super) fn tgt_qp_failed(&self, tgt_qp: &TgtQp<B>) {
        self.tgt_qps.failed(tgt_qp);
    }

    /// A TGT QP was modified: destroys it if nobody is registered with it and the policy keeps none
    /// such in this state. Sleeps.
    pub(super) fn tgt_qp_modified(&self, tgt_qp: &TgtQp<B>) {
        self.tgt_qps.changed(tgt_qp);
    }

    /// A TGT QP was destroyed. Sleeps.
    pub(super) fn tgt_qp_reclaimed(&self, tgt_qp: &TgtQp<B>, reason: Reason) {
        let reason = match reason {
            Reason::LastRef => bindings::IB_XRC_RECLAIM_LAST_REF,
            Reason::Error => bindings::IB_XRC_RECLAIM_ERROR,
            Reason::Linger => bindings::IB_XRC_RECLAIM_LINGER,
            Reason::LastSrq => bindings::IB_XRC_RECLAIM_LAST_SRQ,
            // Nobody has the domain any more, or the device says it for all.
            Reason::Domain => return,
        };

        tgt_qp.holders().reclaimed(tgt_qp.num(), reason);
        self.subscribers.raise(
            bindings::IB_XRC_EVENT_TGT_QP_RECLAIMED,
            tgt_qp.num(),
            reason,
        );
    }

    /// The TGT QP as userspace sees it. `ESTALE`: it was reclaimed.
    pub(crate) fn tgt_qp_info(&self, tgt_qp: &TgtQp<B>) -> Result<bindings::ib_xrc_tgt_qp_info> {
        Ok(tgt_qp.info(self.tgt_qps.refs(tgt_qp).ok_or(ESTALE)?))
    }

    /// Describes the TGT QPs with a greater number than `after`, in the order of their numbers,
    /// up to `capacity` of them. Returns also how many there are. Sleeps.
    pub(crate) fn list_tgt_qps(
        &self,
        after: Option<u32>,
        capacity: usize,
    ) -> Result<(KVVec<bindings::ib_xrc_tgt_qp_info>, u32)> {
        list::collect(capacity, |f| {
            self.tgt_qps
                .for_each_after(after, |tgt_qp, refs| f(&|| tgt_qp.info(refs)));
        })
    }

    /// Takes what an SRQ counts. `EDQUOT`: the domain has too many.
    pub(crate) fn charge_srq(&self) -> Result<Charge> {
        Quota::charge(
            &self.quota,
            Amount {
                tgt_qps: 0,
                srqs: 1,
                bytes: B::limits(self.services.device()).srq_bytes.into(),
            },
        )
    }

    /// Takes the bytes of an MR. `EDQUOT`: it would be too many.
    pub(crate) fn charge_mr(&self, bytes: u64) -> Result<Charge> {
        Quota::charge(
            &self.quota,
            Amount {
                tgt_qps: 0,
                srqs: 0,
                bytes,
            },
        )
    }

    /// An SRQ was made in the domain by the calling process. `ENOMEM`. Sleeps.
    pub(crate) fn add_srq(&self, srq: &Arc<B::Srq>) -> Result {
        let entry = SrqEntry {
            srq: srq.clone(),
            process: current!().group_leader().into(),
        };

        self.srqs
            .lock()
            .try_create_and_insert(srq.num(), entry, GFP_KERNEL_ACCOUNT)?;
        self.tgt_qps.add_srq();
        Ok(())
    }

    /// An SRQ is gone, with the last of which TGT QPs may go. Sleeps.
    pub(crate) fn remove_srq(&self, srq: &B::Srq) {
        let node = self.srqs.lock().remove_node(&srq.num());

        drop(node);
        self.tgt_qps.remove_srq();
    }

    /// Describes the SRQs, as [`list_tgt_qps`](Self::list_tgt_qps) does the TGT QPs. Sleeps.
    pub(crate) fn list_srqs(
        &self,
        after: Option<u32>,
        capacity: usize,
    ) -> Result<(KVVec<bindings::ib_xrc_srq_info>, u32)> {
        list::collect(capacity, |f| {
            let mut srqs = self.srqs.lock();
            let mut cursor = match after.map_or(Some(0), |after| after.checked_add(1)) {
                Some(from) => srqs.cursor_lower_bound_mut(&from),
                None => None,
            };

            while let Some(at) = cursor {
                let entry = at.current().1;

                f(&|| bindings::ib_xrc_srq_info {
                    pid: holders::process_id(&entry.process),
                    ..entry.srq.info()
                });
                cursor = at.move_next();
            }
        })
    }

    /// The domain as userspace sees it, but for the number of handles.
    pub(crate) fn info(&self) -> bindings::ib_xrc_xrcd_info {
        let used = self.quota.used();

        bindings::ib_xrc_xrcd_info {
            inode: self.inode.as_ref().map_or(0, InodeRef::ino),
            dev: self.inode.as_ref().map_or(0, InodeRef::dev),
            policy: self.policy.raw().type_,
            handles: 0,
            tgt_qps: used.tgt_qps,
            srqs: self.tgt_qps.srqs(),
            reserved: 0,
            bytes: used.bytes,
        }
    }

    /// The last handle is gone: destroys what is left. Sleeps.
    pub(crate) fn close(&self) {
        self.linger_timer.close();
        self.tgt_qps.close();
    }

    /// The device goes: destroys everything that the domain has on it. Sleeps.
    pub(crate) fn remove(&self) {
        self.close();
        B::remove_domain(&self.backend);
    }
}

impl<B: Backend> Expire for Domain<B> {
    fn expire(&self, now_ns: i64) -> Option<i64> {
        self.tgt_qps.expire(now_ns)
    }
}
