// SPDX-License-Identifier: GPL-2.0

//! The soft backend: XRC over RC, for devices without XRC.
//!
//! A [`tgt_qp`] is an RC QP of the kernel in its [`domain`]'s PD. What it receives is taken apart
//! by [`wire`], waits as a [`part`] of a message in the [`queue`] of the [`srq`] that it is addressed
//! to, is copied into the buffer posted there, and is completed into the ring of a [`cq`]. RDMA READ,
//! WRITE and atomics are the device's own business: they reach each [`mr`] in that PD.
//!
//! Two rules keep receivers from holding up anything but their own messages. A part has its
//! buffer to itself and nothing of the device, so it may wait as long as it takes. And user
//! memory is touched only by the SRQ's own work item.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    rdma::{
        device::Device,
        gate::GateGuard,
        mr::Pinnable,
        recv_buffer::RECV_BUFFER_SIZE, //
    },
    xrc::{
        backend::{
            Backend,
            SrqAttr,
            Target, //
        },
        comp_channel::CqNotifier,
        device::Services,
        tgt_qp::JobKey, //
    },
};

mod cq;
mod domain;
mod mr;
mod part;
mod queue;
mod receiver;
mod recv_ring;
mod ring;
mod sequence;
mod srq;
mod tallies;
mod tgt_qp;
mod wire;

use self::ring::{
    MAX_CQE,
    MAX_SRQ_SGE,
    MAX_SRQ_WR, //
};

const _: () = assert!(
    wire::PART_SIZE == bindings::IB_XRC_WIRE_PART_SIZE as usize
        && wire::PART_SIZE <= RECV_BUFFER_SIZE
);

/// Receive buffers posted to a TGT QP.
const RECV_WR: u32 = 32;
/// Bytes of these.
const TGT_QP_BYTES: u32 = RECV_WR * RECV_BUFFER_SIZE as u32;
/// Parts of messages that may wait at an SRQ before its senders are held back: 512 KiB of buffers.
const SRQ_BACKLOG: usize = 128;

/// The soft backend.
pub(crate) struct Soft;

impl Backend for Soft {
    type Domain = domain::SoftDomain;
    type TgtQp = tgt_qp::SoftTgtQp;
    type Cq = cq::SoftCq;
    type Srq = srq::SoftSrq;
    type Mr = mr::SoftMr;

    const DEVICE_FLAGS: u32 = bindings::IB_XRC_DEVICE_SOFT;

    fn limits(device: &Device) -> bindings::ib_xrc_limits {
        bindings::ib_xrc_limits {
            max_cqe: MAX_CQE,
            max_srq_wr: MAX_SRQ_WR,
            max_srq_sge: MAX_SRQ_SGE,
            max_msg_size: device.max_msg_size(),
            tgt_qp_recv_wr: RECV_WR,
            tgt_qp_bytes: TGT_QP_BYTES,
            srq_bytes: (SRQ_BACKLOG * RECV_BUFFER_SIZE) as u32,
            reserved: 0,
        }
    }

    fn open_domain(services: &Arc<Services>, gate: &GateGuard<'_>) -> Result<Arc<Self::Domain>> {
        domain::SoftDomain::new(services, gate)
    }

    fn remove_domain(domain: &Self::Domain) {
        domain.remove();
    }

    fn create_tgt_qp(
        domain: &Arc<Self::Domain>,
        gate: &GateGuard<'_>,
        target: Arc<dyn Target>,
        key: Option<JobKey>,
    ) -> Result<Self::TgtQp> {
        tgt_qp::SoftTgtQp::new(domain, gate, target, key)
    }

    fn create_cq(cqe: u32, notifier: Option<CqNotifier>) -> Result<Arc<Self::Cq>> {
        cq::SoftCq::new(cqe, notifier)
    }

    fn create_srq(
        domain: &Arc<Self::Domain>,
        cq: &Arc<Self::Cq>,
        attr: SrqAttr,
    ) -> Result<Arc<Self::Srq>> {
        srq::SoftSrq::new(domain, cq, attr)
    }

    fn reg_mr(
        domain: &Arc<Self::Domain>,
        gate: &GateGuard<'_>,
        memory: Pinnable<'_>,
    ) -> Result<Arc<Self::Mr>> {
        mr::SoftMr::new(domain, gate, memory)
    }
}
