// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What becomes of the work requests of an INI QP when something fails.

use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use ibxrc::{
    verbs::{ibv_wc, IBV_WC_SEND, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR},
    QpState, WcStatus,
};
use ibxrc_ini::{IniQp, IniQpAttr, Work};

use crate::{
    initiator::{completions, connect, connected, ensure_idle, expect_done, message, pattern},
    setup::{anonymous, device, wait_for, wait_for_state, Posted},
    Test,
};

pub const TESTS: &[Test] = &[
    ("a refused message flushes those behind it", refused),
    ("an INI QP in error flushes everything", failed),
    ("a reset INI QP is as good as new", reset),
    ("an INI QP in use can be dropped", dropped),
];

const MIB: usize = 1 << 20;

/// Of so many messages.
const MESSAGES: usize = 6;

/// Few of the messages get to the RC QP at a time.
const ATTR: IniQpAttr = IniQpAttr {
    depth: 2,
    max_wr: 256,
    max_inline: 0,
    memory: MIB,
    psn: 0,
    timeout: 16,
    retry_cnt: 6,
    rnr_retry: 7,
};

/// Posts messages that are longer than what may wait for a buffer, so that they stay
/// outstanding while there is none. Every second one is signaled.
fn post_stuck(ini: &mut IniQp, srq_num: u32) -> Result<()> {
    for i in 0..MESSAGES {
        ini.post(&Work {
            signaled: i % 2 == 1,
            ..message(i as u64, srq_num, 0..MIB)
        })?;
    }
    ensure_idle(ini)
}

/// Sends a message to an SRQ, which must come.
fn works(ini: &mut IniQp, posted: &Posted) -> Result<()> {
    let contents = pattern(7, 10_000);
    ini.memory_mut(0..10_000).copy_from_slice(&contents);
    posted.post(10_000)?;
    ini.post(&message(42, posted.srq.num(), 0..10_000))?;
    posted.expect(&contents)?;
    expect_done(ini, 42, IBV_WC_SEND, 10_000)
}

/// That these are flushed messages, from the one of this number on.
fn ensure_flushed(done: &[ibv_wc], first: usize) -> Result<()> {
    for (i, wc) in done.iter().enumerate() {
        ensure!(
            wc.wr_id == (first + i) as u64 && wc.status == IBV_WC_WR_FLUSH_ERR,
            "id {}, status {} at {i}",
            wc.wr_id,
            wc.status
        );
    }
    Ok(())
}

fn refused() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd, ATTR)?;
    let posted = Posted::create(&context, &xrcd, MESSAGES as u32)?;
    let number = posted.srq.num();
    // The first one is too long for its buffer.
    posted.post(5000)?;
    for _ in 1..MESSAGES {
        posted.post(MIB)?;
    }
    ini.post(&message(0, number, 0..9000))?;
    for i in 1..MESSAGES {
        ini.post(&Work {
            signaled: i % 2 == 1,
            ..message(i as u64, number, 0..MIB)
        })?;
    }
    // RC has acknowledged it when it is found out.
    let done = completions(&mut ini, MESSAGES)?;
    ensure!(done[0].wr_id == 0 && done[0].status == IBV_WC_SUCCESS);
    ensure!(
        done[1].wr_id == 1 && ![IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR].contains(&done[1].status),
        "id {}, status {}",
        done[1].wr_id,
        done[1].status
    );
    ensure_flushed(&done[2..], 2)?;

    let wc = posted.completion()?;
    ensure!(
        wc.status == WcStatus::LOC_LEN_ERR && wc.wr_id == 0,
        "{wc:?}"
    );
    ensure!(posted.completion_once()?.is_none(), "more was received");
    wait_for_state(&tgt, QpState::Err)?;

    // What comes now is flushed at once.
    ini.post(&Work {
        signaled: false,
        ..message(50, number, 0..MIB)
    })?;
    ensure_flushed(&completions(&mut ini, 1)?, 50)
}

fn failed() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd, ATTR)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    post_stuck(&mut ini, posted.srq.num())?;
    ini.fail()?;
    ensure_flushed(&completions(&mut ini, MESSAGES)?, 0)?;

    ini.reset()?;
    // What is there of the first message goes with its connection.
    tgt.close()?;
    let _tgt = connect(&xrcd, &mut ini)?;
    works(&mut ini, &posted)
}

fn reset() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (mut tgt, mut ini) = connected(&xrcd, ATTR)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    for _ in 0..3 {
        post_stuck(&mut ini, posted.srq.num())?;
        ini.reset()?;
        ensure_idle(&mut ini)?;
        tgt.close()?;
        tgt = connect(&xrcd, &mut ini)?;
        works(&mut ini, &posted)?;
    }
    Ok(())
}

/// How many objects the device has of each kind.
fn objects() -> Result<String> {
    let output = Command::new("rdma")
        .args(["resource", "show", &device()])
        .output()
        .context("rdma")?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

fn dropped() -> Result<()> {
    let before = objects()?;
    for poll in [false, true] {
        let (context, xrcd) = anonymous()?;
        let (_tgt, mut ini) = connected(&xrcd, ATTR)?;
        let posted = Posted::create(&context, &xrcd, 4)?;
        post_stuck(&mut ini, posted.srq.num())?;
        ensure!(objects()? != before, "nothing is there");
        if poll {
            // They are in its CQ.
            ini.fail()?;
        }
    }
    let what = format!("that again is what it was: {before}");
    wait_for(&what, || Ok((objects()? == before).then_some(())))
}
