// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! RDMA and atomics of an INI QP.

use anyhow::{ensure, Result};
use ibxrc::{
    verbs::{
        IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS,
    },
    MrAccess, WcOpcode,
};
use ibxrc_ini::{IniQpAttr, Op, Work};

use crate::{
    initiator::{completions, connected, expect_done, message, pattern, work},
    mr::{Memory, PAGE},
    setup::{anonymous, Posted},
    Test,
};

pub const TESTS: &[Test] = &[
    ("what is written can be read back", write_and_read),
    ("atomics", atomics),
    ("a fenced message has what was read before", fenced),
];

fn write_and_read() -> Result<()> {
    const HALF: usize = 1 << 19;
    const PAGES: usize = 26;
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd, IniQpAttr::default())?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    let memory = Memory::new(PAGES)?;
    let mr = memory.reg(&xrcd, PAGES, MrAccess::ALL)?;
    let number = posted.srq.num();
    let (addr, rkey) = (memory.addr() + 3, mr.rkey());
    for (id, len) in [0, 1, PAGE, 100_000].into_iter().enumerate() {
        for imm in [None, Some(0x0a0b_0c0d)] {
            let id = id as u64;
            let contents = pattern(len as u32 + u32::from(imm.is_some()), len);
            ini.memory_mut(0..len).copy_from_slice(&contents);
            if imm.is_some() {
                posted.post(16)?;
            }
            let write = Op::Write { addr, rkey, imm };
            ini.post(&work(id, number, write, 0..len))?;
            expect_done(&mut ini, id, IBV_WC_RDMA_WRITE, len)?;
            ensure!(memory.read(3, len) == contents, "{len} bytes are wrong");
            ensure!(memory.read(3 + len, 1) == [0], "a byte too many");
            if imm.is_some() {
                let wc = posted.completion()?;
                ensure!(wc.status.is_success(), "{wc:?}");
                ensure!(wc.opcode == WcOpcode::RECV_RDMA_WITH_IMM && wc.imm == imm);
                ensure!(wc.byte_len as usize == len && wc.qp_num == tgt.qp_num());
            }

            ini.memory_mut(HALF..HALF + len + 1).fill(0x11);
            let read = Op::Read { addr, rkey };
            ini.post(&work(id, 0, read, HALF..HALF + len))?;
            expect_done(&mut ini, id, IBV_WC_RDMA_READ, len)?;
            ensure!(*ini.memory(HALF..HALF + len) == contents);
            ensure!(*ini.memory(HALF + len..HALF + len + 1) == [0x11]);
        }
    }
    ensure!(posted.completion_once()?.is_none(), "a message too many");
    Ok(())
}

fn atomics() -> Result<()> {
    let (_context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd, IniQpAttr::default())?;
    let memory = Memory::new(1)?;
    let mr = memory.reg(&xrcd, 1, MrAccess::ALL)?;
    let (addr, rkey) = (memory.addr() + 16, mr.rkey());
    let add = |add| Op::FetchAdd { addr, rkey, add };
    let swap = |compare, swap| Op::CompareSwap {
        addr,
        rkey,
        compare,
        swap,
    };
    let big = 0x0102_0304_0506_0708;
    let (fetch_add, compare_swap) = (IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP);
    // What was there before, and what is after.
    for (id, (op, opcode, before, after)) in [
        (add(5), fetch_add, 0, 5),
        (swap(5, big), compare_swap, 5, big),
        (swap(5, 99), compare_swap, big, big),
        (add(u64::MAX), fetch_add, big, big - 1),
    ]
    .into_iter()
    .enumerate()
    {
        ini.post(&work(id as u64, 0, op, 8..16))?;
        expect_done(&mut ini, id as u64, opcode, 8)?;
        ensure!(*ini.memory(8..16) == u64::to_ne_bytes(before), "{op:?}");
        ensure!(memory.read(16, 8) == u64::to_ne_bytes(after), "{op:?}");
    }
    ensure!(memory.read(0, 16) == [0; 16] && memory.read(24, 16) == [0; 16]);
    Ok(())
}

/// Each round writes, reads it back elsewhere, and sends that on, without waiting.
fn fenced() -> Result<()> {
    const ROUNDS: usize = 8;
    const LEN: usize = 2 * PAGE;
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd, IniQpAttr::default())?;
    let posted = Posted::create(&context, &xrcd, ROUNDS as u32)?;
    let memory = Memory::new(2 * ROUNDS)?;
    let mr = memory.reg(&xrcd, 2 * ROUNDS, MrAccess::ALL)?;
    let (number, rkey) = (posted.srq.num(), mr.rkey());
    for i in 0..ROUNDS {
        posted.post(LEN)?;
        let range = 2 * i * LEN..(2 * i + 1) * LEN;
        ini.memory_mut(range)
            .copy_from_slice(&pattern(i as u32, LEN));
    }
    for i in 0..ROUNDS {
        let [from, to] = [2 * i, 2 * i + 1].map(|n| n * LEN..(n + 1) * LEN);
        let addr = memory.addr() + (i * LEN) as u64;
        let imm = None;
        let id = 3 * i as u64;
        ini.post(&work(id, 0, Op::Write { addr, rkey, imm }, from))?;
        ini.post(&work(id + 1, 0, Op::Read { addr, rkey }, to.clone()))?;
        ini.post(&Work {
            fence: true,
            ..message(id + 2, number, to)
        })?;
    }
    let done = completions(&mut ini, 3 * ROUNDS)?;
    for (i, wc) in done.iter().enumerate() {
        ensure!(wc.status == IBV_WC_SUCCESS && wc.wr_id == i as u64);
    }
    for i in 0..ROUNDS {
        posted.expect(&pattern(i as u32, LEN))?;
    }
    Ok(())
}
