// SPDX-License-Identifier: GPL-2.0

//! The module's lifetime core under a model checker: `rust/xrc/lifetime/` and `rust/rdma/gate.rs`,
//! compiled as they are, in all orders that their steps can come in.
//!
//! See `Documentation/locking.rst`.

mod explore;
#[allow(dead_code, unused, clippy::all, reason = "they are wrong anyway")]
mod mutants;
#[allow(
    dead_code,
    clippy::precedence,
    reason = "the module's lints are the kernel's"
)]
mod original;
mod runner;
mod scenario;

use std::{env, process::ExitCode};

use self::runner::Selection;

fn main() -> ExitCode {
    let mut selection = Selection::default();
    let mut args = env::args().skip(1);

    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--explore" => return explore::main(args),
            "--preemptions" => {
                selection.preemptions = args.next().and_then(|count| count.parse().ok());
            }
            // Those of libtest mean nothing here.
            flag if flag.starts_with('-') => {}
            filter => selection.filter = Some(filter.to_owned()),
        }
    }
    runner::main(&selection)
}
