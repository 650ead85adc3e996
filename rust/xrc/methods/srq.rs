// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_SRQ`.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    soft::Soft,
    uverbs::{
        self,
        attr::*, //
    },
    xrc::{
        backend::{
            Backend,
            Srq as _,
            SrqAttr, //
        },
        context::Context,
        object::{
            CqHandle,
            Object,
            SrqHandle,
            Xrcd, //
        }, //
    },
};

use super::{
    event_source,
    mmap_offset, //
};

uverbs::method! {
    /// Make an SRQ.
    pub(super) struct Create for Context, id bindings::IB_XRC_METHOD_SRQ_CREATE, handler create {
        handle: New = bindings::IB_XRC_ATTR_SRQ_CREATE_HANDLE, mandatory;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_SRQ_CREATE_XRCD, mandatory;
        cq: Handle<Arc<CqHandle<Soft>>> = bindings::IB_XRC_ATTR_SRQ_CREATE_CQ, mandatory;
        max_wr: In<u32> = bindings::IB_XRC_ATTR_SRQ_CREATE_MAX_WR, mandatory;
        max_sge: In<u32> = bindings::IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, mandatory;
        user_handle: In<u64> = bindings::IB_XRC_ATTR_SRQ_CREATE_USER_HANDLE, optional;
        srq_num: Out<u32> = bindings::IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM, mandatory;
        ring: Out<bindings::ib_xrc_ring_info>
            = bindings::IB_XRC_ATTR_SRQ_CREATE_RESP_RING, mandatory;
        event_file: RawFd = bindings::IB_XRC_ATTR_SRQ_CREATE_EVENT_FILE, optional;
    }
}

fn create(ctx: &Context, args: Create<'_>) -> Result {
    let (xrc_device, gate) = ctx.enter()?;
    let limits = Soft::limits(xrc_device.device());

    if args.max_wr == 0
        || args.max_wr > limits.max_srq_wr
        || args.max_sge == 0
        || args.max_sge > limits.max_srq_sge
    {
        return Err(EINVAL);
    }

    let attr = SrqAttr {
        max_wr: args.max_wr,
        max_sge: args.max_sge,
        user_handle: args.user_handle.unwrap_or(0),
        key: args.xrcd.key(),
        events: event_source(ctx, args.event_file, args.user_handle)?,
    };
    let srq = SrqHandle::new(&gate, &args.xrcd, &args.cq, attr)?;

    drop(gate);
    args.srq_num.write(&srq.srq().num())?;
    args.ring
        .write(&srq.srq().ring_info(mmap_offset(&args.handle)))?;
    args.handle.commit(Object::Srq(srq));
    Ok(())
}

uverbs::method! {
    /// Look at the posting ring.
    pub(super) struct Kick for Context, id bindings::IB_XRC_METHOD_SRQ_KICK, handler kick {
        handle: Handle<Arc<SrqHandle<Soft>>> = bindings::IB_XRC_ATTR_SRQ_KICK_HANDLE, mandatory;
    }
}

fn kick(ctx: &Context, args: Kick<'_>) -> Result {
    let (_, _gate) = ctx.enter()?;

    args.handle.srq().clone().kick();
    Ok(())
}

uverbs::method! {
    /// Destroy an SRQ.
    pub(super) struct Destroy for Context, id bindings::IB_XRC_METHOD_SRQ_DESTROY,
        handler destroy
    {
        handle: uverbs::attr::Destroy<Arc<SrqHandle<Soft>>>
            = bindings::IB_XRC_ATTR_SRQ_DESTROY_HANDLE, mandatory;
    }
}

fn destroy(_ctx: &Context, args: Destroy<'_>) -> Result {
    drop(args.handle.remove());
    Ok(())
}

uverbs::method! {
    /// Set the limit.
    pub(super) struct Modify for Context, id bindings::IB_XRC_METHOD_SRQ_MODIFY, handler modify {
        handle: Handle<Arc<SrqHandle<Soft>>> = bindings::IB_XRC_ATTR_SRQ_MODIFY_HANDLE, mandatory;
        limit: In<u32> = bindings::IB_XRC_ATTR_SRQ_MODIFY_LIMIT, mandatory;
    }
}

fn modify(ctx: &Context, args: Modify<'_>) -> Result {
    let (_, gate) = ctx.enter()?;

    // It waits for a delivery, and does nothing on the device.
    drop(gate);
    args.handle.srq().set_limit(args.limit)
}

uverbs::method! {
    /// Describe an SRQ.
    pub(super) struct Query for Context, id bindings::IB_XRC_METHOD_SRQ_QUERY, handler query {
        handle: Handle<Arc<SrqHandle<Soft>>> = bindings::IB_XRC_ATTR_SRQ_QUERY_HANDLE, mandatory;
        attr: Out<bindings::ib_xrc_srq_attr>
            = bindings::IB_XRC_ATTR_SRQ_QUERY_RESP_ATTR, mandatory;
    }
}

fn query(ctx: &Context, args: Query<'_>) -> Result {
    let (_, gate) = ctx.enter()?;

    // As above.
    drop(gate);
    args.attr.write(&args.handle.srq().attr())
}
