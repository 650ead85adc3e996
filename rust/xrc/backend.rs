// SPDX-License-Identifier: GPL-2.0

//! The seam between the domain logic and what carries the messages.
//!
//! The domain logic decides who may use a TGT QP and when it dies; a backend makes TGT QPs, SRQs
//! and CQs on a device. Everything that a backend makes for a domain is gone when the domain has
//! dropped it.

use kernel::{prelude::*, sync::Arc};

use crate::{
    bindings,
    linux::shared_memory::SharedMemory,
    rdma::{
        device::Device,
        gate::GateGuard,
        mr::Pinnable,
        qp::QpError,
        qp_attr::{
            QpAttr,
            QpAttrMask,
            QpState, //
        }, //
    },
};

use super::{
    comp_channel::CqNotifier,
    device::Services,
    event_file::EventSource,
    removal::RemovalListener,
    tgt_qp::JobKey, //
};

/// What a TGT QP tells the domain logic.
pub(crate) trait Target: Send + Sync {
    /// An error hit this connection of the QP, which the device puts in the error state. Called in
    /// any context.
    fn failed(self: Arc<Self>, connection: u32, error: QpError);

    /// This connection cannot go on: the QP is to be put in the error state, unless there is another
    /// connection by now. Called in any context.
    fn give_up(self: Arc<Self>, connection: u32, error: QpError);

    /// Tells one connection of the QP from the next: a RESET is between them. Called in any
    /// context.
    fn connection(&self) -> u32;

    /// The number of the INI QP at the other end. Called in any context.
    fn dest_qp_num(&self) -> u32;

    /// A message of `bytes` bytes was handed to an SRQ. Called in any context.
    fn delivered(&self, bytes: u64);

    /// A message could not be accepted. Called in any context.
    fn refused(&self);
}

/// A step of a TGT QP's state machine.
#[derive(Clone, Copy)]
pub(crate) struct Transition {
    /// The state that the QP is in.
    pub(crate) from: QpState,
    /// The state to go to.
    pub(crate) to: QpState,
    /// The attributes that count.
    pub(crate) mask: QpAttrMask,
}

/// A TGT QP of a backend. Dropping it destroys it; that sleeps, but never waits for userspace.
pub(crate) trait TgtQp: Send + Sync + Sized {
    /// The QP number, 24 bits.
    fn num(&self) -> u32;

    /// The port that it uses; 0 before INIT.
    fn port(&self) -> u32;

    /// Goes from a state to the next, or stays in it: the caller has found `mask` right for that
    /// on an XRC TGT QP, and calls one at a time. On failure [`query`](Self::query) says which
    /// state the QP is in: mostly that it was in. Sleeps.
    fn modify(&self, gate: &GateGuard<'_>, transition: Transition, attr: QpAttr) -> Result;

    /// Reads the attributes as the device has them. Sleeps.
    fn query(&self, gate: &GateGuard<'_>) -> Result<QpAttr>;

    /// What it has received, which may be asked when the QP is gone.
    fn arrivals(&self) -> Arc<dyn Arrivals>;
}

/// What became of messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Neither delivered nor dropped yet.
    pub(crate) waiting: u64,
    /// Delivered.
    pub(crate) delivered: u64,
}

impl Tally {
    /// One more was delivered.
    pub(crate) fn add_delivered(&mut self) {
        self.delivered = self.delivered.saturating_add(1);
    }
}

/// The messages that a TGT QP has received, up to the end of a connection: there may be another one
/// by now. Called in process context.
pub(crate) trait Arrivals: Send + Sync {
    /// Whether the device has handed over everything: then no message comes any more, and one that
    /// is not complete is over.
    fn have_ended(&self, connection: u32) -> bool;

    /// What became of them.
    fn tally(&self, connection: u32) -> Tally;

    /// Drops those that wait for a buffer. Returns how many. Sleeps.
    fn flush(&self, connection: u32) -> u64;
}

/// What an SRQ is created with; validated against [`Backend::limits`] by the caller.
pub(crate) struct SrqAttr {
    /// Work requests posted at a time.
    pub(crate) max_wr: u32,
    /// Scatter entries of one.
    pub(crate) max_sge: u32,
    /// What completions carry.
    pub(crate) user_handle: u64,
    /// Whose messages it takes.
    pub(crate) key: Option<JobKey>,
    /// Who is told of its limit, its backlog and its error.
    pub(crate) events: Option<EventSource>,
}

/// An SRQ of a backend.
pub(crate) trait Srq: Send + Sync {
    /// The SRQ number, 24 bits.
    fn num(&self) -> u32;

    /// The posting ring.
    fn ring(&self) -> &SharedMemory;

    /// Whether the posted addresses are those of the calling process.
    fn is_of_current(&self) -> bool;

    /// Where the posting ring is.
    fn ring_info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info;

    /// Userspace has posted while messages were waiting. Does not sleep.
    fn kick(self: Arc<Self>);

    /// Raises `IB_XRC_EVENT_SRQ_LIMIT` once fewer than `limit` work requests are posted, which may
    /// be so now; 0: never. `EINVAL`: that is more than can be. Sleeps.
    fn set_limit(&self, limit: u32) -> Result;

    /// What it is like. Sleeps.
    fn attr(&self) -> bindings::ib_xrc_srq_attr;

    /// The SRQ as userspace sees it, but for the process. Does not sleep.
    fn info(&self) -> bindings::ib_xrc_srq_info;

    /// Takes no more messages and drops those that wait. Sleeps, never waits for userspace.
    fn close(&self);
}

/// An MR of a backend.
pub(crate) trait Mr: Send + Sync {
    /// The key by which senders name it.
    fn rkey(&self) -> u32;

    /// Lets nobody access the memory any more, unless that is so. Sleeps, never waits for
    /// userspace.
    fn close(&self);
}

/// A CQ of a backend.
pub(crate) trait Cq: RemovalListener {
    /// The completion ring.
    fn ring(&self) -> &SharedMemory;

    /// Where the completion ring is.
    fn ring_info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info;
}

/// What carries the TGT QPs, SRQs, CQs and MRs of a device's domains.
pub(crate) trait Backend: Send + Sync + Sized + 'static {
    /// What is kept for a domain.
    type Domain: Send + Sync;
    /// A TGT QP.
    type TgtQp: TgtQp + Unpin + 'static;
    /// A CQ.
    type Cq: Cq + 'static;
    /// An SRQ.
    type Srq: Srq + 'static;
    /// An MR.
    type Mr: Mr + 'static;

    /// `enum ib_xrc_device_flags` of a device with this backend.
    const DEVICE_FLAGS: u32;

    /// What the backend takes at most on a device.
    fn limits(device: &Device) -> bindings::ib_xrc_limits;

    /// Makes what a domain needs. Sleeps.
    fn open_domain(services: &Arc<Services>, gate: &GateGuard<'_>) -> Result<Arc<Self::Domain>>;

    /// The device goes: lets go of everything that the domain has on it, closes its MRs, and takes
    /// its SRQs out of use. The TGT QPs were dropped before. Sleeps.
    fn remove_domain(domain: &Self::Domain);

    /// Makes a TGT QP in the RESET state, whose messages reach SRQs with the same `key` only.
    /// Sleeps.
    fn create_tgt_qp(
        domain: &Arc<Self::Domain>,
        gate: &GateGuard<'_>,
        target: Arc<dyn Target>,
        key: Option<JobKey>,
    ) -> Result<Self::TgtQp>;

    /// Makes a CQ of `cqe` entries, which notifies `notifier`. Sleeps.
    fn create_cq(cqe: u32, notifier: Option<CqNotifier>) -> Result<Arc<Self::Cq>>;

    /// Makes an SRQ whose posted addresses are those of the calling process. Sleeps.
    fn create_srq(
        domain: &Arc<Self::Domain>,
        cq: &Arc<Self::Cq>,
        attr: SrqAttr,
    ) -> Result<Arc<Self::Srq>>;

    /// Registers memory of the calling process. Sleeps, until all of it is there.
    fn reg_mr(
        domain: &Arc<Self::Domain>,
        gate: &GateGuard<'_>,
        memory: Pinnable<'_>,
    ) -> Result<Arc<Self::Mr>>;
}
