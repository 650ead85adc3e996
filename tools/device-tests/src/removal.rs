// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The device goes away.

use std::{fs, process::Command, thread, time::Duration};

use anyhow::{anyhow, ensure, Context as _, Result};
use ibxrc::{Errno, EventKind, Receiver, ReceiverAttr};

use crate::{
    setup::{anonymous, connected, device, ensure_errno, send, wait_for, Posted, PATIENCE},
    Test,
};

pub const TESTS: &[Test] = &[("when the device goes, everything says so and closes", gone)];

fn rdma(arguments: &[&str]) -> Result<()> {
    let status = Command::new("rdma")
        .args(arguments)
        .status()
        .context("cannot run rdma")?;
    ensure!(status.success(), "rdma {} failed", arguments.join(" "));
    Ok(())
}

fn gone() -> Result<()> {
    let name = device();
    let parent = format!("/sys/class/infiniband/{name}/parent");
    let netdev = fs::read_to_string(&parent)
        .with_context(|| format!("{name} is no Soft-RoCE device: no {parent}"))?;
    let (context, xrcd) = anonymous()?;
    let (tgt, mut ini) = connected(&xrcd)?;
    let posted = Posted::create(&context, &xrcd, 4)?;
    posted.post(64)?;
    posted.post(64)?;
    send(&mut ini, posted.srq.num(), b"before", None, false)?;
    ini.drain()?;
    let mut receiver = Receiver::new(
        &context,
        &xrcd,
        ReceiverAttr {
            buffers: 2,
            buffer_size: 10,
        },
    )?;
    let events = context.create_event_file(None)?;
    // The user's QP would hold up the removal.
    drop(ini);

    let waiting = thread::spawn(move || receiver.receive(None).map(|m| m.map(|m| m.len())));
    // The port may go before the device does.
    let reading = thread::spawn(move || loop {
        match events.wait() {
            Ok(event) if event.kind != EventKind::DeviceRemoved => (),
            last => return (last, events),
        }
    });
    thread::sleep(Duration::from_millis(100));
    rdma(&["link", "del", &name])?;

    let result = waiting.join().map_err(|_| anyhow!("a thread panicked"))?;
    ensure_errno("a waiting receiver", result, Errno::EIO)?;
    let (last, events) = reading.join().map_err(|_| anyhow!("a thread panicked"))?;
    ensure!(last?.user_handle == 0);
    ensure_errno("events", events.wait(), Errno::EIO)?;
    ensure_errno("event file", context.create_event_file(None), Errno::EIO)?;
    posted.expect(b"before")?;
    ensure_errno("poll", posted.completion_once(), Errno::EIO)?;
    ensure_errno("post", posted.post(64), Errno::EIO)?;
    ensure_errno("channel", posted.channel.wait(), Errno::EIO)?;
    ensure_errno("query", tgt.query(), Errno::EIO)?;
    ensure_errno("list", xrcd.tgt_qps(), Errno::EIO)?;
    ensure_errno("SRQs", xrcd.srqs(), Errno::EIO)?;
    ensure_errno("policy", xrcd.query_policy(), Errno::EIO)?;
    ensure_errno("holders", tgt.holders(), Errno::EIO)?;
    ensure_errno("limit", posted.srq.set_limit(1), Errno::EIO)?;
    ensure_errno("disconnect", tgt.disconnect(PATIENCE), Errno::EIO)?;
    ensure_errno("context", context.query(), Errno::EIO)?;
    let failed = tgt.disconnect_and_close(PATIENCE).err();
    let failed = failed.context("it disconnected")?;
    ensure!(failed.error.errno() == Errno::EIO, "{failed}");
    failed.object.close()?;
    events.close()?;
    posted.srq.close().map_err(ibxrc::Error::from)?;
    posted.cq.close()?;
    xrcd.close()?;

    rdma(&["link", "add", &name, "type", "rxe", "netdev", netdev.trim()])?;
    // The GIDs come a little later.
    wait_for("the device with its address", || {
        Ok(ibxrc_ini::Device::open(&name, 1).ok())
    })?;
    let (_context, xrcd) = anonymous()?;
    connected(&xrcd)?;
    Ok(())
}
