// SPDX-License-Identifier: GPL-2.0

//! Messages on their way from a TGT QP to an SRQ.
//!
//! A message needs a place in a list and, in its QP's receive queue, another buffer in exchange for
//! the one that it is in. Both are allocated beforehand: an SRQ has a number of empty messages with
//! a spare buffer each, charged to who made the SRQ, and a TGT QP one without for each of its
//! buffers. So nothing is allocated, and nothing can fail, when a message comes.

use core::ptr;

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
    rdma::{
        qp::QpError,
        recv_buffer::RecvBuffer, //
    },
};

use super::{
    tgt_qp::Receiver,
    wire::Envelope, //
};

/// A message, or the place for one.
#[pin_data]
pub(super) struct Message {
    /// What was received; if there is no message, a spare buffer or none.
    buffer: Option<RecvBuffer>,
    content: Option<Content>,
    #[pin]
    links: ListLinks,
}

/// What is known about a message.
pub(super) struct Content {
    /// Where it came from.
    pub(super) receiver: Arc<Receiver>,
    /// Which of the QP's connections it came on.
    pub(super) connection: u32,
    /// The INI QP that it came from.
    pub(super) src_qp: u32,
    /// What the wire said of it.
    pub(super) envelope: Envelope,
    /// Its buffer was not replaced in the QP's receive queue: that has one less until this is over.
    pub(super) holds_back: bool,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Message { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Message { using ListLinks { self.links }; }
}

impl Message {
    /// Makes an empty one, `with_spare` buffer or without. Sleeps.
    pub(super) fn new(with_spare: bool) -> Result<ListArc<Self>> {
        let buffer = if with_spare {
            Some(RecvBuffer::new(GFP_KERNEL_ACCOUNT)?)
        } else {
            None
        };

        ListArc::pin_init(
            try_pin_init!(Self {
                buffer,
                content: None,
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Replaces what is in it, and returns what was.
    fn replace(
        this: ListArc<Self>,
        buffer: Option<RecvBuffer>,
        content: Option<Content>,
    ) -> Option<(ListArc<Self>, Option<RecvBuffer>, Option<Content>)> {
        // There is no other reference.
        let mut this = Arc::into_unique_or_drop(this.into_arc())?;
        let fields = this.as_mut().project();
        let old_buffer = core::mem::replace(fields.buffer, buffer);
        let old_content = core::mem::replace(fields.content, content);

        Some((this.into(), old_buffer, old_content))
    }

    /// Puts a message in, in exchange for the spare buffer, if there is one.
    pub(super) fn fill(
        this: ListArc<Self>,
        buffer: RecvBuffer,
        content: Content,
    ) -> Option<(ListArc<Self>, Option<RecvBuffer>)> {
        let (this, spare, _) = Self::replace(this, Some(buffer), Some(content))?;

        Some((this, spare))
    }

    /// Takes the message out. The buffer stays as the spare one, unless the QP is to have it back.
    pub(super) fn finish(
        this: ListArc<Self>,
    ) -> Option<(ListArc<Self>, Content, Option<RecvBuffer>)> {
        let (this, buffer, content) = Self::replace(this, None, None)?;
        let content = content?;

        if content.holds_back {
            Some((this, content, buffer))
        } else {
            let (this, _, _) = Self::replace(this, buffer, None)?;

            Some((this, content, None))
        }
    }

    /// What the sender sent.
    pub(super) fn payload(&self) -> &[u8] {
        match (&self.buffer, &self.content) {
            (Some(buffer), Some(content)) => {
                buffer.data().get(content.envelope.offset..).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Whether the sender asked for a solicited event.
    pub(super) fn solicited(&self) -> bool {
        self.content
            .as_ref()
            .is_some_and(|content| content.envelope.solicited)
    }

    /// The completion of the message, without what the SRQ knows.
    pub(super) fn completion(&self) -> bindings::ib_xrc_cqe {
        let Some(content) = &self.content else {
            return Default::default();
        };
        let mut wc_flags = 0;

        if content.envelope.imm_data.is_some() {
            wc_flags |= bindings::IB_XRC_WC_WITH_IMM;
        }
        if content.envelope.solicited {
            wc_flags |= bindings::IB_XRC_WC_SOLICITED;
        }

        bindings::ib_xrc_cqe {
            opcode: bindings::IB_XRC_WC_RECV,
            byte_len: self.payload().len() as u32,
            wc_flags,
            imm_data: content.envelope.imm_data.unwrap_or(0).to_be(),
            srq_num: content.envelope.srq_num,
            qp_num: content.receiver.qp_num(),
            src_qp: content.src_qp,
            ..Default::default()
        }
    }

    /// The message arrived at its receiver.
    pub(super) fn delivered(&self) {
        if let Some(content) = &self.content {
            content
                .receiver
                .delivered(content.connection, self.payload().len());
        }
    }

    /// The message could not be taken: the TGT QP goes to the error state.
    pub(super) fn refuse(&self, error: QpError) {
        if let Some(content) = &self.content {
            content.receiver.refuse(content.connection, error);
        }
    }

    /// Whether it came from there, before the end of a connection.
    pub(super) fn is_from(&self, receiver: &Receiver, connection: u32) -> bool {
        self.content.as_ref().is_some_and(|content| {
            ptr::eq(&*content.receiver, receiver) && content.connection <= connection
        })
    }
}
