// SPDX-License-Identifier: GPL-2.0

//! The methods of the ABI, a table for each.
//!
//! A handler leaves the gate before it writes to memory of the caller: that may be a file whose pages
//! another process provides, or does not, and removal waits for everybody inside.

use crate::{
    bindings,
    soft::Soft,
    uverbs::{
        attr::NewHandle,
        ObjectSpec, //
    },
};

use super::{
    context::Context,
    object::Object, //
};

mod comp_channel;
mod context;
mod cq;
mod event_file;
mod mr;
mod srq;
mod tgt_qp;
mod xrcd;

use event_file::event_source;

/// All objects and their methods.
pub(crate) static OBJECTS: &[ObjectSpec<Context>] = &[
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_CONTEXT as u16,
        methods: &[
            context::Bind::METHOD,
            context::QueryContext::METHOD,
            context::ListDevices::METHOD,
        ],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_XRCD as u16,
        methods: &[
            xrcd::Open::METHOD,
            xrcd::Close::METHOD,
            xrcd::Query::METHOD,
            xrcd::ListTgtQps::METHOD,
            xrcd::ListSrqs::METHOD,
        ],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_TGT_QP as u16,
        methods: &[
            tgt_qp::Create::METHOD,
            tgt_qp::Open::METHOD,
            tgt_qp::Modify::METHOD,
            tgt_qp::Query::METHOD,
            tgt_qp::Connect::METHOD,
            tgt_qp::Close::METHOD,
            tgt_qp::Disconnect::METHOD,
            tgt_qp::ListHolders::METHOD,
        ],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_COMP_CHANNEL as u16,
        methods: &[comp_channel::Create::METHOD],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_CQ as u16,
        methods: &[cq::Create::METHOD, cq::Destroy::METHOD],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_SRQ as u16,
        methods: &[
            srq::Create::METHOD,
            srq::Kick::METHOD,
            srq::Destroy::METHOD,
            srq::Modify::METHOD,
            srq::Query::METHOD,
        ],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_EVENT_FILE as u16,
        methods: &[event_file::Create::METHOD],
    },
    ObjectSpec {
        id: bindings::IB_XRC_OBJECT_MR as u16,
        methods: &[mr::Reg::METHOD, mr::Dereg::METHOD],
    },
];

/// Where the ring of a new object is mapped: see `Context::mmap`.
fn mmap_offset(handle: &NewHandle<'_, Object<Soft>>) -> u64 {
    u64::from(handle.id()) << bindings::PAGE_SHIFT
}

/// Whether a method works before the file is bound to a device.
pub(super) fn needs_no_device(object_id: u16, method_id: u16) -> bool {
    object_id == bindings::IB_XRC_OBJECT_CONTEXT as u16
        && (method_id == context::Bind::METHOD.id || method_id == context::ListDevices::METHOD.id)
}

/// Whether a method closes something, which works when the device is gone too.
pub(super) fn closes(object_id: u16, method_id: u16) -> bool {
    let method = match u32::from(object_id) {
        bindings::IB_XRC_OBJECT_XRCD => xrcd::Close::METHOD.id,
        bindings::IB_XRC_OBJECT_TGT_QP => tgt_qp::Close::METHOD.id,
        bindings::IB_XRC_OBJECT_CQ => cq::Destroy::METHOD.id,
        bindings::IB_XRC_OBJECT_SRQ => srq::Destroy::METHOD.id,
        bindings::IB_XRC_OBJECT_MR => mr::Dereg::METHOD.id,
        _ => return false,
    };

    method_id == method
}
