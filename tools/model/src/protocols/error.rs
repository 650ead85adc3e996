// SPDX-License-Identifier: GPL-2.0

//! Errors against whoever modifies, registers or gives back.

use kernel::error::ESTALE;

use super::{
    super::lifetime::{
        members::Rules,
        state::{ERR, RESET},
    },
    race, race3,
    stage::Stage,
    world::Registration,
    DOMAIN, REFS,
};

scenarios!(error:
    refs_close,
    refs_modify_close,
    refs_open_close.preemptions(3),
    domain_close,
    domain_modify_close,
    domain_open,
    domain_open_close.preemptions(3),
    domain_error_close.preemptions(3),
    referenced_refs_modify_close,
    referenced_domain_modify_close,
    referenced_refs_open_close.preemptions(3),
    referenced_domain_open_close.preemptions(3),
    referenced_number_again.preemptions(3),
    reset_late_error,
    reset_late_and_new,
    reset_any_error.preemptions(3),
    reset_close.preemptions(3),
    reset_open,
    asked_close,
    asked_open_close.preemptions(3),
    asked_error_close.preemptions(3),
    asked_reset_close.preemptions(3),
    states_in_order,
);

const REFS_REFERENCED: Rules = Rules {
    reclaim_referenced: true,
    ..REFS
};
const DOMAIN_REFERENCED: Rules = Rules {
    reclaim_referenced: true,
    ..DOMAIN
};

/// `IB_QPS_RTS`
const RTS: u32 = 3;

/// `IB_EVENT_QP_FATAL`
const FATAL: u32 = 1;
/// `IB_EVENT_QP_REQ_ERR`
const REQUEST: u32 = 2;

pub(crate) fn refs_close() {
    close(REFS);
}

pub(crate) fn domain_close() {
    close(DOMAIN);
}

/// The last registration is given back.
fn close(rules: Rules) {
    let (stage, creator) = Stage::new(rules);
    let device = stage.clone();

    race(move || device.fail(FATAL), || creator.use_and_close());
    stage.check_gone();
    stage.finish();
}

pub(crate) fn refs_modify_close() {
    modify_close(REFS);
}

pub(crate) fn domain_modify_close() {
    modify_close(DOMAIN);
}

/// So it is after a modify.
fn modify_close(rules: Rules) {
    let (stage, creator) = Stage::new(rules);
    let device = stage.clone();

    race(
        move || device.fail(FATAL),
        || {
            creator.tgt_qp().modify(RTS).expect("it is there");
            creator.use_and_close();
        },
    );
    stage.check_gone();
    stage.finish();
}

/// Somebody registers with a QP that is unreferenced.
pub(crate) fn domain_open() {
    let (stage, creator) = Stage::new(DOMAIN);
    let device = stage.clone();

    creator.close();
    race(move || device.fail(FATAL), || stage.visit());
    stage.check_gone();
    stage.finish();
}

pub(crate) fn refs_open_close() {
    open_close(REFS);
}

pub(crate) fn domain_open_close() {
    open_close(DOMAIN);
}

/// One registers, another gives back.
fn open_close(rules: Rules) {
    let (stage, creator) = Stage::new(rules);
    let (device, visitor) = (stage.clone(), stage.clone());

    race3(
        move || device.fail(FATAL),
        move || visitor.visit(),
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// Two errors: it is reclaimed for one of them.
pub(crate) fn domain_error_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (a, b) = (stage.clone(), stage.clone());

    race3(
        move || a.fail(FATAL),
        move || b.fail(REQUEST),
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// A call on a QP that an error may take at any time.
fn try_modify(registration: &Registration) {
    if let Err(error) = registration.tgt_qp().modify(RTS) {
        assert_eq!(error, ESTALE);
        assert!(registration.tgt_qp().is_reclaimed());
    }
}

pub(crate) fn referenced_refs_modify_close() {
    referenced_modify_close(REFS_REFERENCED);
}

pub(crate) fn referenced_domain_modify_close() {
    referenced_modify_close(DOMAIN_REFERENCED);
}

/// The error takes it from its user.
fn referenced_modify_close(rules: Rules) {
    let (stage, creator) = Stage::new(rules);
    let device = stage.clone();

    race(
        move || device.fail(FATAL),
        || {
            try_modify(&creator);
            creator.close();
        },
    );
    stage.check_gone();
    stage.finish();
}

pub(crate) fn referenced_refs_open_close() {
    referenced_open_close(REFS_REFERENCED);
}

pub(crate) fn referenced_domain_open_close() {
    referenced_open_close(DOMAIN_REFERENCED);
}

/// And from two.
fn referenced_open_close(rules: Rules) {
    let (stage, creator) = Stage::new(rules);
    let (device, visitor) = (stage.clone(), stage.clone());

    race3(
        move || device.fail(FATAL),
        move || {
            if let Ok(registration) = visitor.open() {
                try_modify(&registration);
                registration.close();
            }
        },
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// A QP is made that may get the number of the one that went, whose registration is given back
/// after that.
pub(crate) fn referenced_number_again() {
    let (stage, creator) = Stage::new(REFS_REFERENCED);
    let (device, domain) = (stage.clone(), stage.domain.clone());

    let (_, other, ()) = race3(
        move || device.fail(FATAL),
        move || {
            let other = domain.create_now();
            let tgt_qp = other.tgt_qp().clone();

            other.use_and_close();
            tgt_qp
        },
        || creator.close(),
    );
    stage.check_gone();
    assert!(other.is_reclaimed(), "an unreferenced QP stays");
    drop(other);
    stage.finish();
}

/// An error of the connection before the RESET is told whenever it likes.
pub(crate) fn reset_late_error() {
    let (stage, creator) = Stage::new(DOMAIN);
    let device = stage.clone();
    let connection = stage.tgt_qp.connection();

    race(
        move || device.fail_at(connection, FATAL),
        || {
            creator.tgt_qp().modify(RESET).expect("it is there");
            creator.tgt_qp().modify(RTS).expect("it is there");
        },
    );
    stage.check_state(RTS, None);
    creator.close();
    stage.check_idle();
    stage.finish();
}

/// And one of the connection after it.
pub(crate) fn reset_late_and_new() {
    let (stage, creator) = Stage::new(DOMAIN);
    let device = stage.clone();
    let connection = stage.tgt_qp.connection();

    race(
        move || device.fail_at(connection, FATAL),
        || {
            creator.tgt_qp().modify(RESET).expect("it is there");
            creator.tgt_qp().modify(RTS).expect("it is there");
            stage.fail(REQUEST);
        },
    );
    stage.check_state(ERR, Some(REQUEST));
    creator.close();
    stage.check_gone();
    stage.finish();
}

/// And one of whichever there is.
pub(crate) fn reset_any_error() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (late, device) = (stage.clone(), stage.clone());
    let connection = stage.tgt_qp.connection();

    let (_, hit, ()) = race3(
        move || late.fail_at(connection, FATAL),
        move || {
            let stage = device;
            let connection = stage.tgt_qp.connection();

            stage.fail_at(connection, REQUEST);
            connection
        },
        || {
            creator.tgt_qp().modify(RESET).expect("it is there");
            creator.tgt_qp().modify(RTS).expect("it is there");
        },
    );
    if hit == connection {
        stage.check_state(RTS, None);
    } else {
        // If it was before the modify to RTS, the device refuses that, and the model does not.
        assert_eq!(stage.tgt_qp.state(), ERR);
        assert_eq!(stage.tgt_qp.news().error, Some(REQUEST));
    }
    creator.close();
    stage.finish();
}

/// The last registration is given back while somebody without one makes a RESET.
pub(crate) fn reset_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (device, user) = (stage.clone(), stage.clone());

    race3(
        move || device.fail(FATAL),
        move || user.modify(RESET),
        || creator.close(),
    );
    stage.check_gone_or_reset();
    stage.finish();
}

/// Somebody registers after a RESET; then the error before that has no effect any more.
pub(crate) fn reset_open() {
    let (stage, creator) = Stage::new(DOMAIN);
    let device = stage.clone();

    creator.close();
    let connection = stage.tgt_qp.connection();
    let ((), was_there) = race(
        move || device.fail_at(connection, FATAL),
        || stage.modify(RESET) && stage.visit(),
    );
    if was_there {
        stage.check_idle();
    }
    stage.check_gone_or_reset();
    stage.finish();
}

/// Somebody without a registration asks for ERR while the last one is given back.
pub(crate) fn asked_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let user = stage.clone();

    race(move || user.modify(ERR), || creator.use_and_close());
    stage.check_gone();
    stage.finish();
}

/// One registers, another gives back.
pub(crate) fn asked_open_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (user, visitor) = (stage.clone(), stage.clone());

    race3(
        move || user.modify(ERR),
        move || visitor.visit(),
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// And an error hits it.
pub(crate) fn asked_error_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (user, device) = (stage.clone(), stage.clone());

    race3(
        move || user.modify(ERR),
        move || device.fail(FATAL),
        || creator.close(),
    );
    stage.check_gone();
    stage.finish();
}

/// And somebody else asks for RESET.
pub(crate) fn asked_reset_close() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (user, other) = (stage.clone(), stage.clone());

    race3(
        move || user.modify(ERR),
        move || other.modify(RESET),
        || creator.close(),
    );
    stage.check_gone_or_reset();
    stage.finish();
}

/// Who looks on sees no state again that has been left.
pub(crate) fn states_in_order() {
    let (stage, creator) = Stage::new(DOMAIN);
    let (device, onlooker) = (stage.clone(), stage.clone());

    creator.tgt_qp().modify(RTS).expect("it is there");
    let ((), (first, second)) = race(
        move || {
            let stage = device;
            let tgt_qp = &stage.tgt_qp;

            // The work comes too late.
            assert!(tgt_qp.note(tgt_qp.connection(), FATAL));
            tgt_qp.modify(RESET).expect("it is there");
            tgt_qp.handle_error();
        },
        || (onlooker.tgt_qp.state(), onlooker.tgt_qp.state()),
    );
    let place = |state| {
        [RTS, ERR, RESET]
            .iter()
            .position(|&other| other == state)
            .expect("one of these")
    };
    assert!(
        place(first) <= place(second),
        "states go back: {first}, then {second}"
    );
    drop(onlooker);
    creator.close();
    stage.check_idle();
    stage.finish();
}

impl Stage {
    /// Unreferenced it stays unless it is in error, or in ERR.
    fn check_gone_or_reset(&self) {
        if self.tgt_qp.is_reclaimed() {
            self.check_gone();
        } else {
            self.check_state(RESET, None);
            self.check_idle();
        }
    }

    /// What the device, the core and the holders say.
    fn check_state(&self, state: u32, error: Option<u32>) {
        assert_eq!(self.tgt_qp.query(), Ok(state));
        assert_eq!(self.tgt_qp.state(), state);
        assert_eq!(self.tgt_qp.error(), error);
        assert_eq!(self.tgt_qp.news().error, error);
    }
}
