// SPDX-License-Identifier: GPL-2.0

//! The linger time of unreferenced QPs is over.

use super::{super::lifetime::members::Rules, race, race3, stage::Stage, DOMAIN};

scenarios!(linger:
    open,
    close,
    open_close,
    expire_open,
    error_open.preemptions(3),
    two_qps,
);

const RULES: Rules = Rules {
    linger_ns: 10,
    ..DOMAIN
};

impl Stage {
    fn expire(&self, now_ns: i64) -> Option<i64> {
        self.domain.members.expire(now_ns)
    }

    /// Registers with the QP if it is there, until it is 5. Returns whether it was.
    fn visit_until_5(&self) -> bool {
        match self.open() {
            Ok(registration) => {
                registration.tgt_qp().query().expect("it has a holder");
                assert_eq!(registration.close_at(5), Some(15));
                true
            }
            Err(_) => false,
        }
    }

    /// It was used until 5, and goes at 15.
    fn check_expires_at_15(&self) {
        self.check_idle();
        assert_eq!(self.expire(14), Some(15));
        self.check_idle();
        assert_eq!(self.expire(15), None);
    }
}

/// Somebody registers, and gives back before the time.
pub(crate) fn open() {
    let (stage, creator) = Stage::new(RULES);
    let timer = stage.clone();

    assert_eq!(creator.close_at(0), Some(10));
    let (next, was_there) = race(move || timer.expire(10), || stage.visit_until_5());
    if was_there {
        assert!(matches!(next, None | Some(15)));
        stage.check_expires_at_15();
    } else {
        assert_eq!(next, None);
    }
    stage.check_gone();
    stage.finish();
}

/// The last registration is given back just then.
pub(crate) fn close() {
    let (stage, creator) = Stage::new(RULES);
    let timer = stage.clone();

    let (next, deadline) = race(move || timer.expire(10), || creator.close_at(0));
    assert_eq!((next, deadline), (None, Some(10)));
    if !stage.tgt_qp.is_reclaimed() {
        stage.check_idle();
        assert_eq!(stage.expire(10), None);
    }
    stage.check_gone();
    stage.finish();
}

/// One registers, another gives back.
pub(crate) fn open_close() {
    let (stage, creator) = Stage::new(RULES);
    let (timer, visitor) = (stage.clone(), stage.clone());

    let (_, was_there, deadline) = race3(
        move || timer.expire(10),
        move || match visitor.open() {
            Ok(registration) => {
                registration.use_and_close();
                true
            }
            Err(_) => false,
        },
        || creator.close_at(0),
    );
    // If not, the other had it then.
    assert!(matches!(deadline, None | Some(10)));
    if !stage.tgt_qp.is_reclaimed() {
        assert!(was_there || deadline == Some(10));
        stage.check_idle();
        assert_eq!(stage.expire(10), None);
    }
    stage.check_gone();
    stage.finish();
}

/// It is over twice.
pub(crate) fn expire_open() {
    let (stage, creator) = Stage::new(RULES);
    let (a, b) = (stage.clone(), stage.clone());

    creator.close_at(0);
    let (_, _, was_there) = race3(
        move || a.expire(10),
        move || b.expire(10),
        || stage.visit_until_5(),
    );
    if was_there {
        stage.check_expires_at_15();
    }
    stage.check_gone();
    stage.finish();
}

/// An error hits the QP.
pub(crate) fn error_open() {
    let (stage, creator) = Stage::new(RULES);
    let (timer, device) = (stage.clone(), stage.clone());

    creator.close_at(0);
    race3(
        move || timer.expire(10),
        move || device.fail(1),
        || stage.visit(),
    );
    stage.check_gone();
    stage.finish();
}

/// Another QP has some time left, and somebody registers with it.
pub(crate) fn two_qps() {
    let (stage, creator) = Stage::new(RULES);
    let (timer, domain) = (stage.clone(), stage.domain.clone());
    let second = domain.create_now();
    let tgt_qp = second.tgt_qp().clone();

    creator.close_at(0);
    second.close_at(5);
    let (next, deadline) = race(
        move || timer.expire(10),
        || {
            let registration = domain.open(tgt_qp.qp_num()).expect("it has time left");

            registration
                .tgt_qp()
                .query()
                .expect("a QP with holders stays");
            registration.close_at(8)
        },
    );
    assert_eq!(deadline, Some(18));
    assert!(matches!(next, Some(15) | None | Some(18)));
    stage.check_gone();
    assert!(!tgt_qp.is_reclaimed(), "a QP is gone that stays");
    assert_eq!(domain.members.expire(17), Some(18));
    assert_eq!(domain.members.expire(18), None);
    assert!(tgt_qp.is_reclaimed(), "an unreferenced QP stays");
    drop((tgt_qp, domain));
    stage.finish();
}
