// SPDX-License-Identifier: GPL-2.0

//! A TGT QP.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};

use super::{
    super::{
        gate::GateGuard,
        lifetime::{
            members::{Member, Reason},
            state::{StateCell, ERR, RESET},
        },
    },
    device::Hw,
    domain::Domain,
};

/// As `xrc::TgtQp`.
pub(crate) struct TgtQp {
    domain: Arc<Domain>,
    num: u32,
    qp: Mutex<Option<Qp>>,
    state: StateCell,
    holders: Mutex<Holders>,
    /// For the checks: no step to loom.
    registrations: AtomicU32,
    is_reclaimed: AtomicBool,
}

struct Qp {
    hw: Hw,
    /// The state that the device has it in.
    state: u32,
}

/// As `xrc::Holders`: what each was told, and what those are told who come.
#[derive(Default)]
struct Holders {
    told: Vec<(u64, News)>,
    last_id: u64,
    news: News,
}

/// What has happened to a QP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) error: Option<u32>,
    pub(crate) reclaimed: Option<Reason>,
}

impl Holders {
    fn tell(&mut self, tell: impl Fn(&mut News)) {
        for (_, told) in &mut self.told {
            tell(told);
        }
        tell(&mut self.news);
    }
}

impl TgtQp {
    pub(super) fn new(domain: &Arc<Domain>, gate: &GateGuard<'_>) -> Arc<Self> {
        let hw = Hw::new(&domain.device, gate);
        let num = hw.num();
        let Ok(qp) = Mutex::new(Some(Qp { hw, state: RESET })).init();
        let Ok(holders) = Mutex::new(Holders::default()).init();

        domain.device.tgt_qps.fetch_add(1, SeqCst);
        Arc::new(Self {
            domain: domain.clone(),
            num,
            qp,
            state: StateCell::new(),
            holders,
            registrations: AtomicU32::new(0),
            is_reclaimed: AtomicBool::new(false),
        })
    }

    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Its number.
    pub(crate) fn qp_num(&self) -> u32 {
        self.num
    }

    pub(super) fn add_holder(&self) -> u64 {
        self.registrations.fetch_add(1, SeqCst);

        let mut holders = self.holders.lock();
        let news = holders.news;

        holders.last_id += 1;

        let id = holders.last_id;

        holders.told.push((id, news));
        id
    }

    pub(super) fn remove_holder(&self, id: u64) {
        self.holders.lock().told.retain(|&(other, _)| other != id);
        self.registrations.fetch_sub(1, SeqCst);
    }

    /// What all holders were told of; they all were told the same.
    pub(crate) fn news(&self) -> News {
        let holders = self.holders.lock();

        for (_, told) in &holders.told {
            assert_eq!(*told, holders.news, "a holder was not told");
        }
        holders.news
    }

    /// The state as the device has it. `ESTALE`: the QP was destroyed.
    pub(crate) fn query(&self) -> Result<u32> {
        let qp = self.qp.lock();
        let qp = qp.as_ref().ok_or(ESTALE)?;

        qp.hw.access();
        Ok(qp.state)
    }

    /// The error of the present connection.
    pub(crate) fn error(&self) -> Option<u32> {
        self.state.error()
    }

    /// The state as it is known without asking.
    pub(crate) fn state(&self) -> u32 {
        self.state.get()
    }

    pub(crate) fn modify(&self, to: u32) -> Result {
        let mut qp = self.qp.lock();

        self.modify_locked(qp.as_mut().ok_or(ESTALE)?, to);
        drop(qp);
        self.domain.members.changed(self);
        Ok(())
    }

    fn modify_locked(&self, qp: &mut Qp, to: u32) {
        qp.hw.access();
        qp.state = to;
        self.state.entered(to);
        if to == RESET {
            self.holders.lock().tell(|news| news.error = None);
        }
    }

    /// Tells one connection from the next.
    pub(crate) fn connection(&self) -> u32 {
        self.state.connection()
    }

    /// The device says that a connection has hit an error, and the work follows.
    pub(crate) fn fail(&self, connection: u32, error: u32) {
        if self.note(connection, error) {
            self.handle_error();
        }
    }

    /// The device says that a connection has hit an error. Returns whether the work is to follow.
    pub(crate) fn note(&self, connection: u32, error: u32) -> bool {
        self.state.fail(connection, error)
    }

    /// As the work does it.
    pub(crate) fn handle_error(&self) {
        let mut qp = self.qp.lock();
        let (Some(qp_ref), Some(error)) = (qp.as_mut(), self.state.error()) else {
            return;
        };

        self.modify_locked(qp_ref, ERR);
        self.holders.lock().tell(|news| news.error = Some(error));
        drop(qp);
        self.domain.members.failed(self);
    }

    /// Inside the gate, as long as there is one.
    pub(crate) fn fail_gated(&self, connection: u32, error: u32) {
        if self.note(connection, error) {
            if let Ok(_gate) = self.domain.device.enter() {
                self.handle_error();
            }
        }
    }

    /// It was destroyed.
    pub(crate) fn is_reclaimed(&self) -> bool {
        self.is_reclaimed.load(SeqCst)
    }
}

impl Member for TgtQp {
    fn num(&self) -> u32 {
        self.num
    }

    fn is_failed(&self) -> bool {
        self.state() == ERR
    }

    fn reclaim(&self, reason: Reason) {
        let rules = &self.domain.rules;

        assert!(!self.is_reclaimed.swap(true, SeqCst), "reclaimed twice");
        match reason {
            Reason::LastRef => assert!(!rules.keep),
            Reason::Error => assert!(rules.keep || rules.reclaim_referenced),
            Reason::Linger => assert!(rules.linger_ns != 0),
            Reason::LastSrq => assert!(rules.reclaim_with_last_srq),
            Reason::Domain => assert!(self.domain.is_closing.load(SeqCst)),
        }
        if reason != Reason::Domain && !(reason == Reason::Error && rules.reclaim_referenced) {
            assert_eq!(
                self.registrations.load(SeqCst),
                0,
                "reclaimed with registrations"
            );
        }

        let qp = self.qp.lock().take();

        drop(qp);
        self.holders
            .lock()
            .tell(|news| news.reclaimed = Some(reason));
    }
}

impl Drop for TgtQp {
    fn drop(&mut self) {
        self.domain.device.tgt_qps.fetch_sub(1, SeqCst);
    }
}
