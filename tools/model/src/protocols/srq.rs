// SPDX-License-Identifier: GPL-2.0

//! The last SRQ goes.

use super::{super::lifetime::members::Rules, race, race3, stage::Stage, DOMAIN};

scenarios!(srq:
    last_open,
    last_close,
    last_open_close,
    last_error_close,
    both_open,
    again_open,
    again_close,
    two_qps,
);

const RULES: Rules = Rules {
    reclaim_with_last_srq: true,
    ..DOMAIN
};

/// Somebody registers with a QP that is unreferenced.
pub(crate) fn last_open() {
    let (stage, creator) = Stage::new(RULES);
    let domain = stage.domain.clone();

    domain.members.add_srq();
    creator.close();
    stage.check_idle();
    race(move || domain.members.remove_srq(), || stage.visit());
    stage.check_gone();
    stage.finish();
}

/// The last registration is given back.
pub(crate) fn last_close() {
    let (stage, creator) = Stage::new(RULES);
    let domain = stage.domain.clone();

    domain.members.add_srq();
    race(
        move || domain.members.remove_srq(),
        || creator.use_and_close(),
    );
    stage.check_gone();
    stage.finish();
}

/// One registers, another gives back.
pub(crate) fn last_open_close() {
    let (stage, creator) = Stage::new(RULES);
    let (domain, visitor) = (stage.domain.clone(), stage.clone());

    domain.members.add_srq();
    race3(
        move || domain.members.remove_srq(),
        move || visitor.visit(),
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// An error hits the QP while its last registration is given back.
pub(crate) fn last_error_close() {
    let (stage, creator) = Stage::new(RULES);
    let (domain, device) = (stage.domain.clone(), stage.clone());

    domain.members.add_srq();
    race3(
        move || domain.members.remove_srq(),
        move || device.fail(1),
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// The last two SRQs go.
pub(crate) fn both_open() {
    let (stage, creator) = Stage::new(RULES);
    let (a, b) = (stage.domain.clone(), stage.domain.clone());

    a.members.add_srq();
    a.members.add_srq();
    creator.close();
    race3(
        move || a.members.remove_srq(),
        move || b.members.remove_srq(),
        || stage.visit(),
    );
    stage.check_gone();
    stage.finish();
}

/// Another SRQ is made; a QP that is still there afterwards stays.
pub(crate) fn again_open() {
    let (stage, creator) = Stage::new(RULES);
    let domain = stage.domain.clone();

    domain.members.add_srq();
    creator.close();
    let ((), was_there) = race(
        move || domain.members.remove_srq(),
        || {
            stage.domain.members.add_srq();
            stage.visit()
        },
    );
    if was_there {
        stage.check_idle();
        stage.domain.members.remove_srq();
    }
    stage.check_gone();
    stage.finish();
}

/// Another SRQ is made before the last registration is given back.
pub(crate) fn again_close() {
    let (stage, creator) = Stage::new(RULES);
    let domain = stage.domain.clone();

    domain.members.add_srq();
    race(
        move || domain.members.remove_srq(),
        || {
            stage.domain.members.add_srq();
            creator.close();
        },
    );
    stage.check_idle();
    stage.domain.members.remove_srq();
    stage.check_gone();
    stage.finish();
}

/// Two QPs; somebody registers with the second.
pub(crate) fn two_qps() {
    let (stage, creator) = Stage::new(RULES);
    let domain = stage.domain.clone();
    let second = domain.create_now();
    let (tgt_qp, visitor) = (second.tgt_qp().clone(), domain.clone());

    domain.members.add_srq();
    creator.close();
    second.close();
    race(
        move || domain.members.remove_srq(),
        || {
            if let Ok(registration) = visitor.open(tgt_qp.qp_num()) {
                registration.use_and_close();
            }
        },
    );
    stage.check_gone();
    assert!(tgt_qp.is_reclaimed(), "an unreferenced QP stays");
    drop((tgt_qp, visitor));
    stage.finish();
}
