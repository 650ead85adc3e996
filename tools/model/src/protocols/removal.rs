// SPDX-License-Identifier: GPL-2.0

//! The device goes.

use kernel::error::EIO;

use super::{
    super::lifetime::members::Rules, race, race3, stage::Stage, world::Domain, DOMAIN, REFS,
};

scenarios!(removal:
    call,
    call_call.preemptions(3),
    create,
    open,
    close,
    error,
    expire,
    last_srq,
    create_close.preemptions(3),
    open_close.preemptions(3),
    error_close.preemptions(3),
);

impl Stage {
    /// The device goes: afterwards nothing is on it, and nobody can use it.
    fn remove(&self) {
        self.domain.remove();
        assert!(self.tgt_qp.is_reclaimed(), "a QP stays without a device");
        assert_eq!(self.domain.device().enter().err(), Some(EIO));
    }

    /// Registers in a call, and gives back after it.
    fn open_in_call(&self) {
        let Ok(gate) = self.domain.device().enter() else {
            return;
        };
        let Ok(registration) = self.open() else {
            return;
        };

        registration
            .tgt_qp()
            .query()
            .expect("the device stays for the call");
        drop(gate);
        registration.close();
    }
}

/// Makes a TGT QP in a call, and gives it back after it.
fn create_in_call(domain: &kernel::sync::Arc<Domain>) {
    let Ok(gate) = domain.device().enter() else {
        return;
    };
    let registration = domain.create(&gate);

    registration
        .tgt_qp()
        .query()
        .expect("the device stays for the call");
    drop(gate);
    registration.close();
}

/// Somebody is in a call.
pub(crate) fn call() {
    let domain = Domain::new(DOMAIN);
    let caller = domain.clone();

    race(move || drop(caller.device().enter()), || domain.remove());
    assert_eq!(domain.device().enter().err(), Some(EIO));
    domain.finish();
}

/// Two are.
pub(crate) fn call_call() {
    let domain = Domain::new(DOMAIN);
    let (a, b) = (domain.clone(), domain.clone());

    race3(
        move || drop(a.device().enter()),
        move || drop(b.device().enter()),
        || domain.remove(),
    );
    assert_eq!(domain.device().enter().err(), Some(EIO));
    domain.finish();
}

/// A call makes a TGT QP.
pub(crate) fn create() {
    let domain = Domain::new(REFS);
    let creator = domain.clone();

    race(move || create_in_call(&creator), || domain.remove());
    domain.finish();
}

/// A call registers.
pub(crate) fn open() {
    let (stage, creator) = Stage::new(REFS);
    let visitor = stage.clone();

    race(move || visitor.open_in_call(), || stage.remove());
    creator.close();
    stage.finish();
}

/// The last registration is given back, which needs no gate.
pub(crate) fn close() {
    let (stage, creator) = Stage::new(REFS);

    race(move || creator.close(), || stage.remove());
    stage.finish();
}

/// An error is seen to.
pub(crate) fn error() {
    let (stage, creator) = Stage::new(DOMAIN);
    let device = stage.clone();

    race(move || device.fail_gated(), || stage.remove());
    creator.close();
    stage.finish();
}

/// An unreferenced QP expires.
pub(crate) fn expire() {
    let (stage, creator) = Stage::new(Rules {
        linger_ns: 10,
        ..DOMAIN
    });
    let domain = stage.domain.clone();

    creator.close();
    race(move || domain.members.expire(10), || stage.remove());
    stage.finish();
}

/// The last SRQ goes.
pub(crate) fn last_srq() {
    let (stage, creator) = Stage::new(Rules {
        reclaim_with_last_srq: true,
        ..DOMAIN
    });
    let domain = stage.domain.clone();

    domain.members.add_srq();
    creator.close();
    race(move || domain.members.remove_srq(), || stage.remove());
    stage.finish();
}

/// A call makes a TGT QP while the last registration with another is given back.
pub(crate) fn create_close() {
    let (stage, creator) = Stage::new(REFS);
    let domain = stage.domain.clone();

    race3(
        move || create_in_call(&domain),
        move || creator.close(),
        || stage.remove(),
    );
    stage.finish();
}

/// A call registers while the last registration is given back.
pub(crate) fn open_close() {
    let (stage, creator) = Stage::new(REFS);
    let visitor = stage.clone();

    race3(
        move || visitor.open_in_call(),
        move || creator.close(),
        || stage.remove(),
    );
    stage.finish();
}

/// An error is seen to while the last registration is given back.
pub(crate) fn error_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let device = stage.clone();

    race3(
        move || device.fail_gated(),
        move || creator.close(),
        || stage.remove(),
    );
    stage.finish();
}

impl Stage {
    fn fail_gated(&self) {
        self.tgt_qp.fail_gated(self.tgt_qp.connection(), 1);
    }
}
