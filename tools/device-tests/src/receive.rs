// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Receiving messages.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        Mutex,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, ensure, Context as _, Result};
use ibxrc::{
    wire::{HEADER_LEN, PART_SIZE},
    Errno, Receiver, ReceiverAttr, Wc,
};

use crate::{
    setup::{anonymous, connected, send, Posted, PATIENCE},
    Test,
};

pub const TESTS: &[Test] = &[
    ("a receiver receives everything in order", in_order),
    ("a receiver waits no longer than it should", timeout),
    (
        "a receiver goes on after a message that is too long",
        too_long,
    ),
    ("counters count", counters),
    ("several threads may poll and post", threads),
];

fn in_order() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    // In one part, with an immediate.
    let max = PART_SIZE - HEADER_LEN;
    let attr = ReceiverAttr {
        // Fewer than there are messages.
        buffers: 4,
        buffer_size: max as u32,
    };
    let mut receivers = [
        Receiver::new(&context, &xrcd, attr)?,
        Receiver::new(&context, &xrcd, attr)?,
    ];
    let lens = [0, 1, 7, 8, 9, 1023, 1024, 1025, max - 1, max];
    let contents = |i: usize| vec![i as u8 + 1; lens[i]];
    let mut sent = 0;
    for i in 0..lens.len() {
        for receiver in &receivers {
            let imm = (i % 2 == 1).then_some(i as u32);
            send(&mut ini, receiver.srq_num(), &contents(i), imm, false)?;
            sent += 1;
        }
    }
    for receiver in &mut receivers {
        let number = receiver.srq_num();
        for i in 0..lens.len() {
            let message = receiver
                .receive(Some(PATIENCE))?
                .with_context(|| format!("message {i} is missing"))?;
            ensure!(message[..] == contents(i), "message {i} is wrong");
            let wc = message.wc();
            ensure!(wc.imm == (i % 2 == 1).then_some(i as u32));
            ensure!(wc.srq_num == number && wc.qp_num == tgt.qp_num());
            ensure!(wc.src_qp == ini.address().qp_num);
        }
    }
    ensure!(tgt.query()?.1.recv_msgs == sent);
    Ok(())
}

fn timeout() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let attr = ReceiverAttr {
        buffers: 1,
        buffer_size: 1,
    };
    let mut receiver = Receiver::new(&context, &xrcd, attr)?;
    for timeout in [Duration::ZERO, Duration::from_millis(100)] {
        let start = Instant::now();
        ensure!(receiver.receive(Some(timeout))?.is_none());
        ensure!(start.elapsed() >= timeout && start.elapsed() < timeout + PATIENCE);
    }
    Ok(())
}

fn too_long() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let attr = ReceiverAttr {
        buffers: 1,
        buffer_size: 10,
    };
    let mut receiver = Receiver::new(&context, &xrcd, attr)?;
    send(&mut ini, receiver.srq_num(), &[1; 11], None, false)?;
    match receiver.receive(Some(PATIENCE)) {
        Err(e) if e.errno() == Errno::EMSGSIZE => (),
        other => return Err(anyhow!("{other:?}")),
    }
    // The TGT QP is in error, but another one may deliver.
    let (_tgt, mut ini) = connected(&xrcd)?;
    send(&mut ini, receiver.srq_num(), &[2; 10], None, false)?;
    let message = receiver.receive(Some(PATIENCE))?.context("no message")?;
    ensure!(message[..] == [2; 10]);
    Ok(())
}

fn counters() -> Result<()> {
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    for len in 1..4u8 {
        posted.post(10)?;
        send(
            &mut ini,
            posted.srq.num(),
            &vec![len; len.into()],
            Some(1),
            false,
        )?;
        posted.expect(&vec![len; len.into()])?;
    }
    let (_, info) = tgt.query()?;
    ensure!(
        info.recv_msgs == 3 && info.recv_bytes == 6 && info.refused_msgs == 0,
        "{info:?}"
    );
    ensure!(xrcd.tgt_qps()? == [info]);
    Ok(())
}

/// Each message is taken once, whoever takes it.
fn threads() -> Result<()> {
    const MESSAGES: usize = 400;
    let (context, xrcd) = anonymous()?;
    let (_tgt, mut ini) = connected(&xrcd)?;
    let cq = context.create_cq(64, None, 0)?;
    let srq = xrcd.create_srq(
        &cq,
        ibxrc::SrqAttr {
            max_wr: 16,
            max_sge: 1,
            user_handle: 0,
        },
    )?;
    let taken = AtomicUsize::new(0);
    let seen = Mutex::new(vec![0u32; MESSAGES]);
    thread::scope(|scope| {
        let receive = || -> Result<()> {
            let start = Instant::now();
            let mut wcs = [Wc::default(); 4];
            while taken.load(Ordering::Relaxed) < MESSAGES {
                ensure!(start.elapsed() < PATIENCE, "messages are missing");
                // SAFETY: No memory at all. Full is fine.
                let _ = unsafe { srq.post_recv(0, &[]) };
                let n = cq.poll(&mut wcs)?;
                for wc in &wcs[..n] {
                    ensure!(wc.status.is_success(), "{wc:?}");
                    let number = wc.imm.context("no immediate data")? as usize;
                    if let Ok(mut seen) = seen.lock() {
                        seen[number] += 1;
                    }
                }
                taken.fetch_add(n, Ordering::Relaxed);
                thread::yield_now();
            }
            Ok(())
        };
        let receivers = [
            scope.spawn(receive),
            scope.spawn(receive),
            scope.spawn(receive),
        ];
        for i in 0..MESSAGES {
            send(&mut ini, srq.num(), b"", Some(i as u32), false)?;
        }
        ini.drain()?;
        for receiver in receivers {
            receiver
                .join()
                .map_err(|_| anyhow!("a thread panicked"))??;
        }
        anyhow::Ok(())
    })?;
    let seen = seen.into_inner()?;
    ensure!(seen.iter().all(|n| *n == 1), "{seen:?}");
    Ok(())
}
