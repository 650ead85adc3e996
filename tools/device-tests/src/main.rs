// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Tests of the library, and of the command `ibxrc`, that need the kernel module and a
//! Soft-RoCE device, with the output that kselftest wants (TAP). Exits with 4 if there is no module.
//!
//! From the environment: `XRC_DEVICE` (default rxe0). Arguments name the tests to run.

mod access;
mod command;
mod completion;
mod disconnect;
mod domain;
mod event;
mod flush;
mod initiator;
mod mr;
mod one_sided;
mod policy;
mod receive;
mod reclaim;
mod removal;
mod send;
mod setup;
mod srq;
mod tgt_qp;

use std::{panic, process::ExitCode};

use anyhow::Result;

/// A test: what it shows, and how.
type Test = (&'static str, fn() -> Result<()>);

const SKIP: u8 = 4;

fn main() -> ExitCode {
    println!("TAP version 13");
    if let Err(error) = ibxrc::Context::open(&setup::device()) {
        println!("1..0 # SKIP {error}");
        return ExitCode::from(SKIP);
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let tests: Vec<Test> = [
        domain::TESTS,
        policy::TESTS,
        access::TESTS,
        tgt_qp::TESTS,
        completion::TESTS,
        srq::TESTS,
        mr::TESTS,
        receive::TESTS,
        send::TESTS,
        one_sided::TESTS,
        flush::TESTS,
        event::TESTS,
        reclaim::TESTS,
        disconnect::TESTS,
        command::TESTS,
        // Last, since it takes the device away for a while.
        removal::TESTS,
    ]
    .concat()
    .into_iter()
    .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())))
    .collect();

    println!("1..{}", tests.len());
    let mut failed = 0;
    for (number, (name, test)) in tests.iter().enumerate() {
        let result =
            panic::catch_unwind(*test).unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")));
        let number = number + 1;
        match result {
            Ok(()) => println!("ok {number} {name}"),
            Err(error) => {
                for line in format!("{error:#}").lines() {
                    println!("# {line}");
                }
                println!("not ok {number} {name}");
                failed += 1;
            }
        }
    }
    println!(
        "# Totals: pass:{} fail:{failed} xfail:0 xpass:0 skip:0 error:0",
        tests.len() - failed
    );
    ExitCode::from(u8::from(failed > 0))
}
