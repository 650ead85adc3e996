// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What most tests begin with.

use std::{
    cell::RefCell,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use anyhow::{ensure, Context as _, Result};
use ibxrc::{
    CompChannel, Context, Cq, DomainPolicy, Errno, EventFile, EventKind, QpAttr, QpState, Sge, Srq,
    SrqAttr, SrqOptions, TgtQp, Wc, Xrcd, XrcdOptions,
};
use ibxrc_ini::{Address, Device, Send, Sender, SenderAttr};

/// An SRQ number that no domain has.
pub const NO_SRQ: u32 = 0x00ff_ffff;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The name of the device to test on.
pub fn device() -> String {
    std::env::var("XRC_DEVICE").unwrap_or_else(|_| "rxe0".to_string())
}

/// A context and an anonymous domain.
pub fn anonymous() -> Result<(Context, Xrcd)> {
    let context = Context::open(&device())?;
    let xrcd = context.open_xrcd(XrcdOptions::default())?;
    Ok((context, xrcd))
}

/// The domain of a file, which is made if need be.
pub fn named(context: &Context, file: &impl AsFd) -> ibxrc::Result<Xrcd> {
    context.open_xrcd(XrcdOptions {
        file: Some(file.as_fd()),
        create: true,
        ..Default::default()
    })
}

/// A context and an anonymous domain with a policy.
pub fn anonymous_with(policy: DomainPolicy) -> Result<(Context, Xrcd)> {
    let context = Context::open(&device())?;
    let xrcd = context.open_xrcd(XrcdOptions {
        policy: Some(policy),
        ..Default::default()
    })?;
    Ok((context, xrcd))
}

/// A TGT QP and an INI QP that are connected to each other.
pub fn connected(xrcd: &Xrcd) -> Result<(TgtQp, Sender)> {
    let tgt = xrcd.create_tgt_qp()?;
    let ini = connect(&tgt)?;
    Ok((tgt, ini))
}

/// An INI QP that is connected to a TGT QP in the RESET state, and that to it.
pub fn connect(tgt: &TgtQp) -> Result<Sender> {
    let device = Device::open(&device(), 1)?;
    let mut ini = Sender::create(&device, SenderAttr::default())?;
    tgt.connect(&tgt_attr(&device, &ini))?;
    ini.connect(&Address {
        qp_num: tgt.qp_num(),
        psn: 0,
        ..ini.address()
    })?;
    Ok(ini)
}

/// What connects a TGT QP to an INI QP of the same device.
pub fn tgt_attr(device: &Device, ini: &Sender) -> QpAttr {
    ini.address()
        .tgt_attr(device.port(), device.gid().index, device.mtu())
}

/// Sends a message.
pub fn send(
    ini: &mut Sender,
    srq_num: u32,
    contents: &[u8],
    imm: Option<u32>,
    solicited: bool,
) -> Result<()> {
    let slot = ini.free_slot()?;
    ini.buffer(slot)[..contents.len()].copy_from_slice(contents);
    ini.send(Send {
        slot,
        len: contents.len() as u32,
        srq_num,
        imm,
        solicited,
    })?;
    Ok(())
}

/// Sends what the TGT QP refuses, which puts it in error.
pub fn send_refused(ini: &mut Sender) -> Result<()> {
    send(ini, NO_SRQ, b"to nobody", None, false)?;
    // Whether it is acknowledged before the TGT QP is in error is open.
    let _ = ini.drain();
    Ok(())
}

/// Waits for an event, which must be this one.
pub fn expect_event(events: &EventFile, user_handle: u64, kind: EventKind) -> Result<()> {
    let event = events
        .wait_timeout(PATIENCE)?
        .with_context(|| format!("{kind:?} did not come"))?;
    ensure!(
        event.kind == kind && event.user_handle == user_handle,
        "{event:?} instead of {kind:?} for {user_handle:#x}"
    );
    Ok(())
}

/// That there is no event.
pub fn ensure_no_event(events: &EventFile) -> Result<()> {
    let event = events.try_read()?;
    ensure!(event.is_none(), "{event:?}");
    Ok(())
}

/// Asks until the answer is not `None`.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        ensure!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a TGT QP is in a state.
pub fn wait_for_state(tgt: &TgtQp, state: QpState) -> Result<()> {
    wait_for(&format!("state {state}"), || {
        Ok((tgt.query()?.1.state == state).then_some(()))
    })
}

/// That something failed with an errno.
pub fn ensure_errno<T>(
    what: &str,
    result: Result<T, impl Into<ibxrc::Error>>,
    errno: Errno,
) -> Result<()> {
    match result {
        Ok(_) => anyhow::bail!("{what} did not fail"),
        Err(error) => {
            let error = error.into();
            ensure!(
                error.errno() == errno,
                "{what}: {:?} instead of {errno:?}: {error}",
                error.errno()
            );
            Ok(())
        }
    }
}

/// An SRQ whose buffers are posted one by one.
pub struct Posted {
    pub srq: Srq,
    pub cq: Cq,
    pub channel: CompChannel,
    /// They stay until the SRQ is gone.
    buffers: RefCell<Vec<Box<[u8]>>>,
}

impl Posted {
    /// Nothing is posted to it yet. Its CQ is twice as large as the SRQ.
    pub fn create(context: &Context, xrcd: &Xrcd, max_wr: u32) -> Result<Self> {
        Self::create_with(context, xrcd, max_wr, SrqOptions::default())
    }

    /// The same with options.
    pub fn create_with(
        context: &Context,
        xrcd: &Xrcd,
        max_wr: u32,
        options: SrqOptions<'_>,
    ) -> Result<Self> {
        let channel = context.create_comp_channel()?;
        let cq = context.create_cq(max_wr * 2, Some(&channel), 0xc0ffee)?;
        let attr = SrqAttr {
            max_wr,
            max_sge: 2,
            user_handle: 0xbeef,
        };
        let srq = xrcd.create_srq_with(&cq, attr, options)?;
        Ok(Posted {
            srq,
            cq,
            channel,
            buffers: RefCell::default(),
        })
    }

    /// Posts a buffer in two halves. Its id is its number.
    pub fn post(&self, size: usize) -> ibxrc::Result<()> {
        let mut buffers = self.buffers.borrow_mut();
        let mut buffer = vec![0u8; size].into_boxed_slice();
        let (first, second) = buffer.split_at_mut(size / 2);
        let sges = [first, second].map(|half| Sge {
            addr: half.as_mut_ptr(),
            length: half.len() as u32,
        });
        // SAFETY: It is kept, and only looked at after its completion.
        unsafe { self.srq.post_recv(buffers.len() as u64, &sges)? };
        buffers.push(buffer);
        Ok(())
    }

    /// Waits for a completion.
    pub fn completion(&self) -> Result<Wc> {
        wait_for("a completion", || Ok(self.completion_once()?))
    }

    /// A completion, if there is one.
    pub fn completion_once(&self) -> ibxrc::Result<Option<Wc>> {
        let mut wc = [Wc::default()];
        Ok((self.cq.poll(&mut wc)? > 0).then_some(wc[0]))
    }

    /// Waits for a message and compares it.
    pub fn expect(&self, contents: &[u8]) -> Result<Wc> {
        let wc = self.completion()?;
        ensure!(wc.status.is_success(), "a message failed: {}", wc.status);
        let buffers = self.buffers.borrow();
        let buffer = buffers
            .get(wc.wr_id as usize)
            .context("a completion of a buffer that was never posted")?;
        ensure!(
            wc.byte_len as usize == contents.len() && buffer[..contents.len()] == *contents,
            "a wrong message of {} bytes",
            wc.byte_len
        );
        Ok(wc)
    }
}
