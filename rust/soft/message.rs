// SPDX-License-Identifier: GPL-2.0

//! Messages on their way from a TGT QP to an SRQ.

use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        ListArc,
        ListLinks, //
    },
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    rdma::recv_buffer::RecvBuffer, //
};

use super::{
    tgt_qp::Receiver,
    wire::Envelope, //
};

/// A message that was received and is not delivered yet.
#[pin_data(PinnedDrop)]
pub(super) struct Message {
    /// Taken when the message is dropped.
    buffer: Option<RecvBuffer>,
    envelope: Envelope,
    receiver: Arc<Receiver>,
    /// Which of the QP's connections it came on.
    connection: u32,
    /// The buffer was not replaced when the message came: it goes back when the message goes.
    holds_back: bool,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Message { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Message { using ListLinks { self.links }; }
}

impl Message {
    /// Makes a message. `ENOMEM`: the buffer is freed, and the QP must be put in error. Sleeps.
    pub(super) fn new(
        buffer: RecvBuffer,
        envelope: Envelope,
        receiver: Arc<Receiver>,
        holds_back: bool,
    ) -> Result<ListArc<Self>> {
        let connection = receiver.target().connection();

        ListArc::pin_init(
            try_pin_init!(Self {
                buffer: Some(buffer),
                envelope,
                receiver,
                connection,
                holds_back,
                links <- ListLinks::new(),
            }),
            // Small, and not to wait for: see `replace` of the TGT QP.
            GFP_ATOMIC | __GFP_NOWARN,
        )
    }

    /// What the sender sent.
    pub(super) fn payload(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => buffer.data().get(self.envelope.offset..).unwrap_or(&[]),
            None => &[],
        }
    }

    /// Whether the sender asked for a solicited event.
    pub(super) fn solicited(&self) -> bool {
        self.envelope.solicited
    }

    /// The completion of the message, without what the SRQ knows.
    pub(super) fn completion(&self) -> bindings::ib_xrc_cqe {
        let mut wc_flags = 0;

        if self.envelope.imm_data.is_some() {
            wc_flags |= bindings::IB_XRC_WC_WITH_IMM;
        }
        if self.envelope.solicited {
            wc_flags |= bindings::IB_XRC_WC_SOLICITED;
        }

        bindings::ib_xrc_cqe {
            opcode: bindings::IB_XRC_WC_RECV,
            byte_len: self.payload().len() as u32,
            wc_flags,
            imm_data: self.envelope.imm_data.unwrap_or(0).to_be(),
            srq_num: self.envelope.srq_num,
            qp_num: self.receiver.qp_num(),
            src_qp: self.receiver.target().dest_qp_num(),
            ..Default::default()
        }
    }

    /// The message arrived at its receiver.
    pub(super) fn delivered(&self) {
        self.receiver.target().delivered(self.payload().len());
    }

    /// The receiver could not take the message: the TGT QP goes to the error state.
    pub(super) fn refuse(&self) {
        self.receiver.target().clone().refused(self.connection);
    }
}

#[pinned_drop]
impl PinnedDrop for Message {
    fn drop(self: Pin<&mut Self>) {
        let this = self.project();

        if *this.holds_back {
            if let Some(buffer) = this.buffer.take() {
                this.receiver.give_back(buffer, *this.connection);
            }
        }
    }
}
