// SPDX-License-Identifier: GPL-2.0

//! Registering against giving back.

use super::{race, race3, stage::Stage, DOMAIN, REFS};

scenarios!(register:
    refs_open_close,
    refs_open_open_close.preemptions(3),
    refs_number_again.preemptions(3),
    domain_open_close,
    domain_open_open_close.preemptions(3),
);

/// The last registration is given back while another is taken.
pub(crate) fn refs_open_close() {
    let (stage, creator) = Stage::new(REFS);
    let visitor = stage.clone();

    race(move || visitor.visit(), || creator.use_and_close());
    stage.check_gone();
    stage.finish();
}

/// Two want it.
pub(crate) fn refs_open_open_close() {
    let (stage, creator) = Stage::new(REFS);
    let (a, b) = (stage.clone(), stage.clone());

    race3(
        move || a.visit(),
        move || b.visit(),
        || creator.use_and_close(),
    );
    stage.check_gone();
    stage.finish();
}

/// The QP goes, another is made, which may get its number, and somebody opens that number.
pub(crate) fn refs_number_again() {
    let (stage, creator) = Stage::new(REFS);
    let (visitor, domain) = (stage.clone(), stage.domain.clone());

    let (other, _, ()) = race3(
        move || {
            let other = domain.create_now();
            let tgt_qp = other.tgt_qp().clone();

            other.use_and_close();
            tgt_qp
        },
        move || visitor.visit(),
        || creator.close(),
    );
    stage.check_gone();
    assert!(other.is_reclaimed(), "an unreferenced QP stays");
    drop(other);
    stage.finish();
}

/// The QP stays without registrations, and goes with the domain.
pub(crate) fn domain_open_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let visitor = stage.clone();

    let (was_there, ()) = race(move || visitor.visit(), || creator.use_and_close());
    assert!(was_there);
    stage.check_idle();
    stage.finish();
}

/// So it does when two want it.
pub(crate) fn domain_open_open_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (a, b) = (stage.clone(), stage.clone());

    let (a, b, ()) = race3(
        move || a.visit(),
        move || b.visit(),
        || creator.use_and_close(),
    );
    assert!(a && b);
    stage.check_idle();
    stage.finish();
}
