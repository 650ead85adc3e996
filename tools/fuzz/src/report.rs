// SPDX-License-Identifier: GPL-2.0

//! What was done, in words.

use std::{fmt::Write, io, sync::atomic::Ordering::Relaxed};

use crate::{shared::Shared, table::methods};

/// A line on how it goes.
pub fn progress(shared: &Shared, seconds: f64, before: u64, since: f64) -> String {
    let calls = shared.calls();
    let mut errnos: Vec<_> = shared
        .errnos
        .iter()
        .map(|n| n.load(Relaxed))
        .enumerate()
        .filter(|(_, n)| *n > 0)
        .collect();
    errnos.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let errnos: Vec<_> = errnos
        .iter()
        .map(|(errno, n)| match errno {
            0 => format!("ok {n}"),
            errno => format!("{} {n}", name(*errno as i32)),
        })
        .collect();
    format!(
        "{seconds:.0} s: {calls} calls, {:.0}/s; {} others, {} sends, {} completions, {} forks; {}{}",
        (calls - before) as f64 / since,
        shared.others.load(Relaxed),
        shared.sends.load(Relaxed),
        shared.completions.load(Relaxed),
        shared.forks.load(Relaxed),
        match shared.covered.load(Relaxed) {
            0 => String::new(),
            n => format!(
                "{n} places covered, {} sequences kept; ",
                shared.kept.load(Relaxed)
            ),
        },
        errnos.join(", "),
    )
}

fn name(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    // As "Bad address (os error 14)".
    text.split(" (os").next().unwrap_or_default().to_string()
}

/// How often each method succeeded and failed.
pub fn methods_table(shared: &Shared) -> String {
    let mut text = format!("{:24} {:>10} {:>10}\n", "method", "succeeded", "failed");
    for method in methods() {
        let tally = &shared.methods[method.index];
        let _ = writeln!(
            text,
            "{:24} {:>10} {:>10}",
            method.spec.name(),
            tally.good.load(Relaxed),
            tally.bad.load(Relaxed)
        );
    }
    let strangers = shared.strangers.load(Relaxed);
    let _ = writeln!(text, "{:24} {:>10} {strangers:>10}", "(no method)", "");
    text
}

/// Methods that never succeeded.
pub fn never(shared: &Shared) -> Vec<&'static str> {
    methods()
        .filter(|method| shared.methods[method.index].good.load(Relaxed) == 0)
        .map(|method| method.spec.name())
        .collect()
}
