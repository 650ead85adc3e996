// SPDX-License-Identifier: GPL-2.0

//! A domain and those who use it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use kernel::{prelude::*, sync::Arc};

use super::{
    super::{
        gate::GateGuard,
        lifetime::members::{Members, Room, Rules},
    },
    device::Device,
    tgt_qp::TgtQp,
};

/// A domain, the only one of its device.
pub(crate) struct Domain {
    pub(super) device: Arc<Device>,
    pub(super) rules: Rules,
    pub(crate) members: Members<TgtQp>,
    /// It goes, or the device.
    pub(super) is_closing: AtomicBool,
}

impl Domain {
    pub(crate) fn new(rules: Rules) -> Arc<Self> {
        let Ok(members) = Members::new(rules).init();

        Arc::new(Self {
            device: Device::new(),
            rules,
            members,
            is_closing: AtomicBool::new(false),
        })
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Makes a TGT QP and registers with it.
    pub(crate) fn create(self: &Arc<Self>, gate: &GateGuard<'_>) -> Registration {
        let room = Room::new().expect("there is memory");
        let tgt_qp = TgtQp::new(self, gate);

        self.members.insert(room, tgt_qp.clone());
        Registration::new(tgt_qp)
    }

    /// As a call does it.
    pub(crate) fn create_now(self: &Arc<Self>) -> Registration {
        let gate = self.device.enter().expect("the device is there");

        self.create(&gate)
    }

    /// Registers with a TGT QP.
    pub(crate) fn open(self: &Arc<Self>, num: u32) -> Result<Registration> {
        Ok(Registration::new(self.members.get(num)?))
    }

    pub(crate) fn close(&self) {
        self.is_closing.store(true, SeqCst);
        self.members.close();
    }

    /// The device goes.
    pub(crate) fn remove(&self) {
        self.device.retire(|| self.close());
    }

    /// Closes it, by its last user. Nothing may be left.
    pub(crate) fn finish(self: Arc<Self>) {
        self.close();

        let domain = Arc::into_inner(self).expect("something refers to the domain");

        domain.device.check_unused();
    }
}

/// A registration. Unlike the module's it is given back by a call, with the time.
pub(crate) struct Registration {
    tgt_qp: Arc<TgtQp>,
    holder: u64,
}

impl Registration {
    /// `tgt_qp` was counted for it.
    fn new(tgt_qp: Arc<TgtQp>) -> Self {
        let holder = tgt_qp.add_holder();

        Self { tgt_qp, holder }
    }

    pub(crate) fn tgt_qp(&self) -> &Arc<TgtQp> {
        &self.tgt_qp
    }

    /// Uses the QP, which must be there, and gives the registration back.
    pub(crate) fn use_and_close(self) {
        self.tgt_qp.query().expect("a QP with holders stays");
        self.close();
    }

    /// Gives it back.
    pub(crate) fn close(self) {
        self.close_at(0);
    }

    /// Gives it back when it is `now_ns`.
    pub(crate) fn close_at(self, now_ns: i64) -> Option<i64> {
        let Self { tgt_qp, holder } = self;

        tgt_qp.remove_holder(holder);
        tgt_qp.domain().members.put(&tgt_qp, now_ns)
    }
}
