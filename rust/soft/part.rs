// SPDX-License-Identifier: GPL-2.0

//! Parts of messages on their way from a TGT QP to an SRQ. A short message has one part.
//!
//! A part needs a place in a list and, in its QP's receive queue, another buffer in exchange for
//! the one that it is in. Both are allocated beforehand: an SRQ has a number of empty places with
//! a spare buffer each, charged to who made the SRQ, and a TGT QP one without for each of its
//! buffers. So nothing is allocated, and nothing can fail, when a part comes.

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
    receiver::Receiver,
    wire::Envelope, //
};

/// A part of a message, or the place for one.
#[pin_data]
pub(super) struct Part {
    /// What was received; if there is nothing, a spare buffer or none.
    buffer: Option<RecvBuffer>,
    content: Option<Content>,
    #[pin]
    links: ListLinks,
}

/// What is known about a part.
pub(super) struct Content {
    /// Where it came from, and with what message.
    pub(super) origin: Origin,
    /// The INI QP that it came from.
    pub(super) src_qp: u32,
    /// What the wire said of it.
    pub(super) envelope: Envelope,
    /// Its buffer was not replaced in the QP's receive queue: that has one less until this is over.
    pub(super) holds_back: bool,
}

/// Which message it is.
#[derive(Clone)]
pub(super) struct Origin {
    /// Where it came from.
    pub(super) receiver: Arc<Receiver>,
    /// Which of the QP's connections it came on.
    pub(super) connection: u32,
    /// Tells the messages of the QP apart.
    pub(super) message: u64,
}

/// What tells it from other messages of the QP.
#[derive(Clone, Copy)]
pub(super) struct MessageId {
    /// As in [`Origin`].
    pub(super) connection: u32,
    /// As in [`Origin`].
    pub(super) message: u64,
}

impl Origin {
    /// Without where it came from.
    pub(super) fn id(&self) -> MessageId {
        MessageId {
            connection: self.connection,
            message: self.message,
        }
    }

    /// Whether it came from there.
    pub(super) fn is_from(&self, receiver: &Receiver) -> bool {
        ptr::eq(&*self.receiver, receiver)
    }

    /// Whether it is the same message.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.is_from(&other.receiver) && self.message == other.message
    }

    /// The message could not be taken: the TGT QP goes to the error state, and what has come after
    /// it on its connection is dropped. Sleeps.
    pub(super) fn refuse(&self, error: QpError) {
        self.receiver.refuse(self, error);
    }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Part { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Part { using ListLinks { self.links }; }
}

impl Part {
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

    /// Puts a part in, in exchange for the spare buffer, if there is one.
    pub(super) fn fill(
        this: ListArc<Self>,
        buffer: RecvBuffer,
        content: Content,
    ) -> Option<(ListArc<Self>, Option<RecvBuffer>)> {
        let (this, spare, _) = Self::replace(this, Some(buffer), Some(content))?;

        Some((this, spare))
    }

    /// Takes the part out. The buffer stays as the spare one, unless the QP is to have it back.
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

    /// Which message it is of; `None`: it is an empty place.
    pub(super) fn origin(&self) -> Option<&Origin> {
        self.content.as_ref().map(|content| &content.origin)
    }

    /// Whether a message begins here.
    pub(super) fn is_first(&self) -> bool {
        self.content
            .as_ref()
            .is_some_and(|content| content.envelope.first)
    }

    /// Whether a message ends here.
    pub(super) fn is_last(&self) -> bool {
        self.content
            .as_ref()
            .is_some_and(|content| content.envelope.last)
    }

    /// What is in it of the message.
    pub(super) fn payload(&self) -> &[u8] {
        match (&self.buffer, &self.content) {
            (Some(buffer), Some(content)) => {
                buffer.data().get(content.envelope.offset..).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Whether the sender asked for a solicited event, which the last part says.
    pub(super) fn solicited(&self) -> bool {
        self.content
            .as_ref()
            .is_some_and(|content| content.envelope.solicited)
    }

    /// What the first part says of the completion of its message.
    pub(super) fn completion(&self) -> bindings::ib_xrc_cqe {
        let Some(content) = &self.content else {
            return Default::default();
        };
        let envelope = &content.envelope;

        bindings::ib_xrc_cqe {
            opcode: match envelope.write_len {
                None => bindings::IB_XRC_WC_RECV,
                Some(_) => bindings::IB_XRC_WC_RECV_RDMA_WITH_IMM,
            },
            byte_len: envelope.write_len.unwrap_or(0),
            wc_flags: match envelope.imm_data {
                None => 0,
                Some(_) => bindings::IB_XRC_WC_WITH_IMM,
            },
            imm_data: envelope.imm_data.unwrap_or(0).to_be(),
            srq_num: envelope.srq_num,
            qp_num: content.origin.receiver.qp_num(),
            src_qp: content.src_qp,
            ..Default::default()
        }
    }
}
