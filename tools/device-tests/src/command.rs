// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The command `ibxrc`, which has to be on the PATH.

use std::{os::fd::AsFd, path::Path, process::Command, time::Duration};

use anyhow::{ensure, Context as _, Result};
use ibxrc::{Context, DomainFlags, DomainPolicy, Policy, XrcdOptions};
use serde_json::{json, Value};

use crate::{
    setup::{device, Posted},
    Test,
};

pub const TESTS: &[Test] = &[
    ("ibxrc shows a domain", domain),
    ("ibxrc says when there is none", no_domain),
];

/// What it prints, or says if it fails.
fn show(arguments: &[&str], file: &Path) -> Result<Result<String, String>> {
    let output = Command::new("ibxrc")
        .args(arguments)
        .args(["domain", "show"])
        .arg(file)
        .output()
        .context("cannot run ibxrc")?;
    Ok(match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8(output.stderr)?),
    })
}

/// The only domain of its JSON.
fn shown(arguments: &[&str], file: &Path) -> Result<Value> {
    let text = show(arguments, file)?.map_err(anyhow::Error::msg)?;
    let mut domains: Vec<Value> = serde_json::from_str(&text)?;
    ensure!(domains.len() == 1, "{text}");
    Ok(domains.remove(0))
}

fn domain() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let context = Context::open(&device())?;
    let xrcd = context.open_xrcd(XrcdOptions {
        file: Some(file.as_fd()),
        create: true,
        policy: Some(DomainPolicy {
            policy: Policy::Domain,
            // It can look nevertheless.
            flags: DomainFlags::USE_NEEDS_WRITE,
            linger: Duration::from_millis(500),
            max_srqs: 7,
            ..Default::default()
        }),
        ..Default::default()
    })?;
    let tgt = xrcd.create_tgt_qp()?;
    let _opened = xrcd.open_tgt_qp(tgt.qp_num())?;
    let posted = Posted::create(&context, &xrcd, 4)?;

    let shown_short = shown(&["--json"], file.path())?;
    let expected = [
        ("ifname", json!(device())),
        ("policy", json!("domain")),
        ("flags", json!(["use-needs-write"])),
        ("linger_ms", json!(500)),
        ("max_tgt_qps", json!(0)),
        ("max_srqs", json!(7)),
        ("bytes", json!(xrcd.query()?.bytes)),
        ("handles", json!(1)),
        ("srqs", json!(1)),
    ];
    for (name, value) in &expected {
        ensure!(shown_short[name] == *value, "{name}: {}", shown_short[name]);
    }
    let qp = &shown_short["tgt_qps"][0];
    ensure!(qp["lqpn"] == tgt.qp_num() && qp["refs"] == 2, "{qp}");
    ensure!(qp.get("holders").is_none() && shown_short.get("srq_list").is_none());

    let detailed = shown(&["--json", "--details"], file.path())?;
    let holders = &detailed["tgt_qps"][0]["holders"];
    let me = std::process::id();
    ensure!(
        holders[0]["id"] == 1 && holders[0]["pid"] == me,
        "{holders}"
    );
    ensure!(
        holders[1]["id"] == 2 && holders[1]["pid"] == me,
        "{holders}"
    );
    let srq = &detailed["srq_list"][0];
    ensure!(srq["srqn"] == posted.srq.num() && srq["pid"] == me, "{srq}");

    let text = show(&["--details"], file.path())?.map_err(anyhow::Error::msg)?;
    ensure!(text.lines().count() == 5, "{text}");
    ensure!(
        text.contains(" policy domain flags use-needs-write linger-ms 500 max-srqs 7 handles 1 "),
        "{text}"
    );
    Ok(())
}

fn no_domain() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let error = show(&[], file.path())?.err().context("it showed one")?;
    ensure!(error.contains("has no XRC domain on any device"), "{error}");
    Ok(())
}
