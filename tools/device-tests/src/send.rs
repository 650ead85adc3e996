// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Messages of an INI QP.

use std::{ops::Range, time::Duration};

use anyhow::{ensure, Context as _, Result};
use ibxrc::{
    verbs::{IBV_WC_SEND, IBV_WC_SUCCESS},
    wire::{HEADER_LEN, PART_SIZE},
    Errno, WcOpcode,
};
use ibxrc_ini::{IniQpAttr, Op, Work};

use crate::{
    initiator::{completions, connected, ensure_refused, expect_done, message, pattern, work},
    setup::{anonymous, Posted, PATIENCE},
    Test,
};

pub const TESTS: &[Test] = &[
    ("messages of all lengths", lengths),
    ("long messages through a short send queue", short_queue),
    ("inline data may be overwritten", inline),
    ("a message from several places", scattered),
    ("only the end of a solicited message wakes", solicited),
    ("bad work requests change nothing", bad),
];

const MIB: usize = 1 << 20;

/// That nothing comes for a while.
const A_WHILE: Duration = Duration::from_millis(200);

fn lengths() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd, IniQpAttr::default())?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    // Around the ends of parts, which a header moves.
    let first = PART_SIZE - HEADER_LEN;
    let ends = [first, PART_SIZE, first + PART_SIZE, 2 * PART_SIZE];
    let around = ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
    let others = [0, 1, 100_000, MIB];
    for (id, len) in around.chain(others).enumerate() {
        for imm in [None, Some(0x0102_0304)] {
            let contents = pattern(id as u32, len);
            ini.memory_mut(0..len).copy_from_slice(&contents);
            posted.post(len)?;
            let op = Op::Send { imm };
            ini.post(&work(id as u64, posted.srq.num(), op, 0..len))?;
            // Before anything else: a long one gets on only if it is waited for.
            expect_done(&mut ini, id as u64, IBV_WC_SEND, len)
                .with_context(|| format!("{len} bytes, immediate {imm:?}"))?;
            let wc = posted
                .expect(&contents)
                .with_context(|| format!("{len} bytes, immediate {imm:?}"))?;
            ensure!(wc.imm == imm && wc.opcode == WcOpcode::RECV, "{wc:?}");
            ensure!(wc.src_qp == ini.address().qp_num && wc.qp_num == tgt.qp_num());
        }
    }
    ensure!(posted.completion_once()?.is_none(), "a message too many");
    Ok(())
}

fn short_queue() -> Result<()> {
    const MESSAGES: usize = 5;
    for depth in [1, 2] {
        let (context, xrcd) = anonymous()?;
        let attr = IniQpAttr {
            depth,
            memory: MESSAGES * MIB,
            ..Default::default()
        };
        let (_tgt, mut ini) = connected(&xrcd, attr)?;
        let posted = Posted::create(&context, &xrcd, MESSAGES as u32)?;
        let range = |i: usize| i * MIB..(i + 1) * MIB;
        for i in 0..MESSAGES {
            posted.post(MIB)?;
            let contents = pattern(i as u32, MIB);
            ini.memory_mut(range(i)).copy_from_slice(&contents);
        }
        for i in 0..MESSAGES {
            ini.post(&Work {
                signaled: i == 1 || i + 1 == MESSAGES,
                ..message(i as u64, posted.srq.num(), range(i))
            })?;
        }
        let done = completions(&mut ini, 2)?;
        ensure!(done.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        ensure!(done[0].wr_id == 1 && done[1].wr_id == MESSAGES as u64 - 1);
        for i in 0..MESSAGES {
            posted.expect(&pattern(i as u32, MIB))?;
        }
    }
    Ok(())
}

fn inline() -> Result<()> {
    const MESSAGES: usize = 6;
    const LEN: usize = PART_SIZE + 100;
    let (context, xrcd) = anonymous()?;
    let attr = IniQpAttr {
        // Some are not even posted when they are overwritten.
        depth: 2,
        max_wr: MESSAGES as u32,
        max_inline: LEN as u32,
        ..Default::default()
    };
    let (_tgt, mut ini) = connected(&xrcd, attr)?;
    let posted = Posted::create(&context, &xrcd, MESSAGES as u32)?;
    // Each area of the copies is used more than once.
    for round in 0..2 {
        for i in 0..MESSAGES {
            let contents = pattern((round * MESSAGES + i) as u32, LEN);
            ini.memory_mut(0..LEN).copy_from_slice(&contents);
            let op = Op::Send {
                imm: (i % 2 == 1).then_some(i as u32),
            };
            let halves = [0..LEN / 2, LEN / 2..LEN];
            let work = work(i as u64, posted.srq.num(), op, 0..0);
            ini.post_scattered(&work, &halves, true)?;
            ini.memory_mut(0..LEN).fill(0xee);
        }
        for _ in 0..MESSAGES {
            posted.post(LEN)?;
        }
        let done = completions(&mut ini, MESSAGES)?;
        for (i, wc) in done.iter().enumerate() {
            ensure!(wc.status == IBV_WC_SUCCESS && wc.wr_id == i as u64);
            posted.expect(&pattern((round * MESSAGES + i) as u32, LEN))?;
        }
    }
    Ok(())
}

fn scattered() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd, IniQpAttr::default())?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let memory = pattern(1, MIB);
    ini.memory_mut(0..MIB).copy_from_slice(&memory);
    // With an immediate, one element is for the header.
    let lists: [(Option<u32>, &[Range<usize>]); 5] = [
        (None, &[]),
        (None, &[500_000..504_095, 10..11, 7..8, 20..4120]),
        (None, &[9..9, 300_000..309_000, 1..2, 30_000..42_289]),
        (Some(1), &[10..4000, 100_000..100_100, 50_000..58_200]),
        (Some(2), &[0..4088, 77..77, 600_000..604_096]),
    ];
    for (id, (imm, list)) in lists.into_iter().enumerate() {
        let contents = list.iter().map(|r| &memory[r.clone()]).collect::<Vec<_>>();
        let contents = contents.concat();
        posted.post(contents.len())?;
        let work = work(id as u64, posted.srq.num(), Op::Send { imm }, 0..0);
        ini.post_scattered(&work, list, false)?;
        ensure!(posted.expect(&contents)?.imm == imm);
        expect_done(&mut ini, id as u64, IBV_WC_SEND, contents.len())?;
    }
    Ok(())
}

fn solicited() -> Result<()> {
    const LEN: usize = 3 * PART_SIZE;
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd, IniQpAttr::default())?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let contents = pattern(1, LEN);
    ini.memory_mut(0..LEN).copy_from_slice(&contents);
    for imm in [None, Some(5)] {
        ensure!(!posted.cq.arm(true), "it is empty");
        for solicited in [false, true] {
            posted.post(LEN)?;
            ini.post(&Work {
                solicited,
                ..work(9, posted.srq.num(), Op::Send { imm }, 0..LEN)
            })?;
            expect_done(&mut ini, 9, IBV_WC_SEND, LEN)?;
            let patience = if solicited { PATIENCE } else { A_WHILE };
            let woken = posted.channel.wait_timeout(patience)?.is_some();
            ensure!(woken == solicited, "woken: {woken}");
            ensure!(posted.expect(&contents)?.solicited == solicited);
        }
    }
    Ok(())
}

fn bad() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let attr = IniQpAttr {
        max_wr: 2,
        max_inline: 100,
        ..Default::default()
    };
    let (_tgt, mut ini) = connected(&xrcd, attr)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let number = posted.srq.num();
    ini.memory_mut(0..MIB).copy_from_slice(&pattern(1, MIB));
    let read = Op::Read { addr: 0, rkey: 0 };
    let too_long = context.query()?.1.max_msg_size as usize / MIB + 1;

    for first in [true, false] {
        let good = message(if first { 1 } else { 2 }, number, 0..5000);
        for (what, errno, work, ranges, inline) in [
            (
                "an SRQ number of 25 bits",
                Errno::EINVAL,
                message(90, number | (1 << 24), 0..0),
                vec![0..1; 2],
                false,
            ),
            (
                "a message longer than the port's",
                Errno::EMSGSIZE,
                good.clone(),
                vec![0..MIB; too_long],
                false,
            ),
            (
                "too much inline data",
                Errno::EINVAL,
                good.clone(),
                vec![0..60, 0..41],
                true,
            ),
            (
                "an RDMA READ into inline data",
                Errno::EINVAL,
                work(91, 0, read, 0..0),
                vec![0..1; 2],
                true,
            ),
            (
                "too many elements",
                Errno::EINVAL,
                good.clone(),
                vec![0..1; 5],
                false,
            ),
            (
                "no element for the header",
                Errno::EINVAL,
                work(92, number, Op::Send { imm: Some(1) }, 0..0),
                vec![0..1; 4],
                false,
            ),
        ] {
            ensure_refused(what, ini.post_scattered(&work, &ranges, inline), errno)?;
        }
        posted.post(5000)?;
        ini.post(&good)?;
    }
    // Both are outstanding until they are polled.
    let third = ini.post(&message(93, number, 0..1));
    ensure_refused("a third one", third, Errno::ENOMEM)?;
    let done = completions(&mut ini, 2)?;
    for (i, wc) in done.iter().enumerate() {
        ensure!(wc.status == IBV_WC_SUCCESS && wc.wr_id == i as u64 + 1);
        posted.expect(&pattern(1, 5000))?;
    }
    ensure!(posted.completion_once()?.is_none(), "a message too many");
    Ok(())
}
