// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Work requests.

use std::ops::Range;

use ibxrc::verbs::*;

/// What a work request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// SEND, or SEND_WITH_IMM. `imm` is in host byte order, here and below.
    Send {
        /// Immediate data, if it is to have any.
        imm: Option<u32>,
    },
    /// RDMA WRITE, or RDMA_WRITE_WITH_IMM.
    Write {
        /// Where to.
        addr: u64,
        /// Key of the memory there.
        rkey: u32,
        /// Immediate data, if it is to have any.
        imm: Option<u32>,
    },
    /// RDMA READ.
    Read {
        /// Where from.
        addr: u64,
        /// Key of the memory there.
        rkey: u32,
    },
    /// Compare and swap 8 bytes. The range gets what was there.
    CompareSwap {
        /// Where.
        addr: u64,
        /// Key of the memory there.
        rkey: u32,
        /// Swap if this is there.
        compare: u64,
        /// What shall be there then.
        swap: u64,
    },
    /// Add to 8 bytes. The range gets what was there.
    FetchAdd {
        /// Where.
        addr: u64,
        /// Key of the memory there.
        rkey: u32,
        /// How much.
        add: u64,
    },
}

/// A work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// `wr_id` of its completion.
    pub id: u64,
    /// The SRQ that it is for, if it takes one of its work requests.
    pub srq_num: u32,
    /// What it does.
    pub op: Op,
    /// Bytes of the QP's memory that it sends from or reads into.
    pub range: Range<usize>,
    /// Ask for a solicited event.
    pub solicited: bool,
    /// Wait for the RDMA READs and atomics before it.
    pub fence: bool,
    /// Complete even on success.
    pub signaled: bool,
}

impl Work {
    /// As libibverbs has it, but for where the data is.
    pub(crate) fn wr(&self) -> ibv_send_wr {
        let mut wr = ibv_send_wr {
            wr_id: self.id,
            ..Default::default()
        };
        for (set, flag) in [
            (self.solicited, IBV_SEND_SOLICITED),
            (self.fence, IBV_SEND_FENCE),
            (self.signaled, IBV_SEND_SIGNALED),
        ] {
            if set {
                wr.send_flags |= flag;
            }
        }
        wr.qp_type.xrc.remote_srqn = self.srq_num;
        let (opcode, imm) = match self.op {
            Op::Send { imm: None } => (IBV_WR_SEND, None),
            Op::Send { imm } => (IBV_WR_SEND_WITH_IMM, imm),
            Op::Write { imm: None, .. } => (IBV_WR_RDMA_WRITE, None),
            Op::Write { imm, .. } => (IBV_WR_RDMA_WRITE_WITH_IMM, imm),
            Op::Read { .. } => (IBV_WR_RDMA_READ, None),
            Op::CompareSwap { .. } => (IBV_WR_ATOMIC_CMP_AND_SWP, None),
            Op::FetchAdd { .. } => (IBV_WR_ATOMIC_FETCH_AND_ADD, None),
        };
        wr.opcode = opcode;
        wr.__bindgen_anon_1.imm_data = imm.unwrap_or(0).to_be();
        match self.op {
            Op::Send { .. } => (),
            Op::Write { addr, rkey, .. } | Op::Read { addr, rkey } => {
                wr.wr.rdma.remote_addr = addr;
                wr.wr.rdma.rkey = rkey;
            }
            Op::CompareSwap {
                addr,
                rkey,
                compare,
                swap,
            } => {
                wr.wr.atomic.remote_addr = addr;
                wr.wr.atomic.rkey = rkey;
                wr.wr.atomic.compare_add = compare;
                wr.wr.atomic.swap = swap;
            }
            Op::FetchAdd { addr, rkey, add } => {
                wr.wr.atomic.remote_addr = addr;
                wr.wr.atomic.rkey = rkey;
                wr.wr.atomic.compare_add = add;
            }
        }
        wr
    }
}
