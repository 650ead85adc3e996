// SPDX-License-Identifier: GPL-2.0

//! What every scenario begins with.

use kernel::{prelude::*, sync::Arc};

use super::{
    super::lifetime::members::Rules,
    world::{Domain, Registration, TgtQp},
};

/// A domain, and a TGT QP that was made in it.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) domain: Arc<Domain>,
    pub(super) tgt_qp: Arc<TgtQp>,
}

impl Stage {
    /// With the registration of the creator.
    pub(super) fn new(rules: Rules) -> (Self, Registration) {
        let domain = Domain::new(rules);
        let creator = domain.create_now();
        let tgt_qp = creator.tgt_qp().clone();

        (Self { domain, tgt_qp }, creator)
    }

    /// Registers with the QP of its number.
    pub(super) fn open(&self) -> Result<Registration> {
        self.domain.open(self.tgt_qp.qp_num())
    }

    /// Registers with the QP of its number if there is one, uses it and gives it back. Returns
    /// whether there is.
    pub(super) fn visit(&self) -> bool {
        match self.open() {
            Ok(registration) => {
                registration.use_and_close();
                true
            }
            Err(_) => false,
        }
    }

    /// The device says that the present connection has hit an error.
    pub(super) fn fail(&self, error: u32) {
        self.fail_at(self.tgt_qp.connection(), error);
    }

    /// The device says that a connection has hit an error.
    pub(super) fn fail_at(&self, connection: u32, error: u32) {
        self.tgt_qp.fail(connection, error);
    }

    /// Modifies the QP, without being registered. Returns whether it is there.
    pub(super) fn modify(&self, state: u32) -> bool {
        self.tgt_qp.modify(state).is_ok()
    }

    /// The QP went, though the domain is open.
    pub(super) fn check_gone(&self) {
        assert!(self.tgt_qp.is_reclaimed(), "an unreferenced QP stays");
        assert_eq!(self.domain.members.refs(&self.tgt_qp), None);
    }

    /// The QP did not go, and nobody is registered with it.
    pub(super) fn check_idle(&self) {
        assert!(!self.tgt_qp.is_reclaimed(), "a QP is gone that stays");
        assert_eq!(self.domain.members.refs(&self.tgt_qp), Some(0));
    }

    /// Closes the domain. Nothing may be left.
    pub(super) fn finish(self) {
        let Self { domain, tgt_qp } = self;

        domain.close();
        assert!(tgt_qp.is_reclaimed(), "a QP stays without a domain");
        drop(tgt_qp);
        domain.finish();
    }
}
