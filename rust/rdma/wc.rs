// SPDX-License-Identifier: GPL-2.0

//! Work completions.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;

/// The completion of a receive.
#[repr(transparent)]
pub(crate) struct WorkCompletion(bindings::ib_wc);

impl WorkCompletion {
    /// # Safety
    ///
    /// `wc` is a completion, and is not written while the result lives.
    pub(super) unsafe fn from_raw<'a>(wc: *const bindings::ib_wc) -> &'a Self {
        // CAST: The type is transparent.
        // SAFETY: The caller says so.
        unsafe { &*wc.cast() }
    }

    pub(super) fn cqe(&self) -> *mut bindings::ib_cqe {
        // SAFETY: CQs of this module have work requests with a `wr_cqe` only.
        unsafe { self.0.__bindgen_anon_1.wr_cqe }
    }

    /// Whether the work request succeeded.
    pub(crate) fn is_success(&self) -> bool {
        self.0.status == bindings::IB_WC_SUCCESS
    }

    /// Whether the work request was given back because the QP was in error already.
    pub(crate) fn is_flushed(&self) -> bool {
        self.0.status == bindings::IB_WC_WR_FLUSH_ERR
    }

    /// Bytes received, of an RDMA WRITE those written.
    pub(crate) fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// Whether the message was an RDMA WRITE, which is not in the buffer.
    pub(crate) fn is_rdma_write(&self) -> bool {
        self.0.opcode == bindings::IB_WC_RECV_RDMA_WITH_IMM
    }

    /// The immediate, in host order, if the message had one.
    pub(crate) fn imm_data(&self) -> Option<u32> {
        if self.0.wc_flags as u32 & bindings::IB_WC_WITH_IMM == 0 {
            return None;
        }
        // SAFETY: Both arms of the union are integers.
        Some(u32::from_be(unsafe { self.0.ex.imm_data }))
    }
}
