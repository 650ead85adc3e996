// SPDX-License-Identifier: GPL-2.0

//! The protocols: who meets whom, and what must hold in the end.
//!
//! What must hold at any time is asserted by `world`: nothing is used after it was destroyed, nor
//! destroyed twice, nor left; no QP goes that somebody is registered with, unless the rules say so.

/// Lists the scenarios of a protocol, which are functions.
macro_rules! scenarios {
    ($protocol:ident: $($name:ident $(.$method:ident($($arg:expr)?))*,)*) => {
        pub(super) const SCENARIOS: &[$crate::scenario::Scenario] = &[$(
            $crate::scenario::Scenario::new(concat!(stringify!($protocol), "/", stringify!($name)), $name)
                $(.$method($($arg)?))*,
        )*];
    };
}

pub(crate) mod error;
pub(crate) mod linger;
pub(crate) mod register;
pub(crate) mod removal;
pub(crate) mod srq;
mod stage;

use loom::thread;

use super::{lifetime::members::Rules, world};
use crate::{explore, scenario::Scenario};

/// All of them.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        register::SCENARIOS,
        error::SCENARIOS,
        srq::SCENARIOS,
        linger::SCENARIOS,
        removal::SCENARIOS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .collect()
}

/// `REFS`
const REFS: Rules = Rules {
    keep: false,
    linger_ns: 0,
    reclaim_referenced: false,
    reclaim_with_last_srq: false,
};

/// `DOMAIN`
const DOMAIN: Rules = Rules { keep: true, ..REFS };

/// Runs both at the same time.
fn race<A, B>(a: impl FnOnce() -> A + 'static, b: impl FnOnce() -> B) -> (A, B)
where
    A: 'static,
{
    let a = thread::spawn(a);

    explore::start();

    let b = b();

    (a.join().expect("it did not panic"), b)
}

/// Runs the three at the same time.
fn race3<A, B, C>(
    a: impl FnOnce() -> A + 'static,
    b: impl FnOnce() -> B + 'static,
    c: impl FnOnce() -> C,
) -> (A, B, C)
where
    A: 'static,
    B: 'static,
{
    let a = thread::spawn(a);
    let (b, c) = race(b, c);

    (a.join().expect("it did not panic"), b, c)
}
