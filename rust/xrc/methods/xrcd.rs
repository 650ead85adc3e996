// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_XRCD`.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    linux::inode::InodeRef,
    soft::Soft,
    uverbs::{
        self,
        attr::*, //
    },
    xrc::{
        context::Context,
        object::{
            Object,
            Xrcd, //
        }, //
    },
};

uverbs::method! {
    /// Open a domain.
    pub(super) struct Open for Context, id bindings::IB_XRC_METHOD_XRCD_OPEN, handler open {
        handle: New = bindings::IB_XRC_ATTR_XRCD_OPEN_HANDLE, mandatory;
        fd: RawFd = bindings::IB_XRC_ATTR_XRCD_OPEN_FD, optional;
        oflags: In<u32> = bindings::IB_XRC_ATTR_XRCD_OPEN_OFLAGS, optional;
    }
}

fn open(ctx: &Context, args: Open<'_>) -> Result {
    let (xrc_device, gate) = ctx.enter()?;
    let inode = match args.fd {
        None | Some(-1) => None,
        Some(fd) => Some(InodeRef::of_fd(fd)?),
    };
    let handle = xrc_device.open_domain(&gate, inode, args.oflags.unwrap_or(0))?;

    args.handle.commit(Object::Xrcd(Xrcd::new(handle)?));
    Ok(())
}

uverbs::method! {
    /// Close a handle on a domain.
    pub(super) struct Close for Context, id bindings::IB_XRC_METHOD_XRCD_CLOSE, handler close {
        handle: Destroy<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_XRCD_CLOSE_HANDLE, mandatory;
    }
}

fn close(_ctx: &Context, args: Close<'_>) -> Result {
    if (**args.handle).as_ref().any() {
        return Err(EBUSY);
    }

    drop(args.handle.remove());
    Ok(())
}

uverbs::method! {
    /// Describe a domain.
    pub(super) struct Query for Context, id bindings::IB_XRC_METHOD_XRCD_QUERY, handler query {
        handle: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_XRCD_QUERY_HANDLE, mandatory;
        info: Out<bindings::ib_xrc_xrcd_info>
            = bindings::IB_XRC_ATTR_XRCD_QUERY_RESP_INFO, mandatory;
    }
}

fn query(ctx: &Context, args: Query<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let mut info = args.handle.domain().info();

    info.handles = args.handle.handle().count();
    drop(gate);
    args.info.write(&info)
}

uverbs::method! {
    /// List the TGT QPs of a domain.
    pub(super) struct ListTgtQps for Context, id bindings::IB_XRC_METHOD_XRCD_LIST_TGT_QPS,
        handler list_tgt_qps
    {
        handle: Handle<Arc<Xrcd<Soft>>>
            = bindings::IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE, mandatory;
        tgt_qps: OutArray<bindings::ib_xrc_tgt_qp_info>
            = bindings::IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS, optional;
        count: Out<u32> = bindings::IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT, mandatory;
        after: In<u32> = bindings::IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER, optional;
    }
}

fn list_tgt_qps(ctx: &Context, args: ListTgtQps<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let capacity = args.tgt_qps.as_ref().map_or(0, OutArraySlot::capacity);
    let (infos, count) = args.handle.domain().list_tgt_qps(args.after, capacity)?;

    drop(gate);
    if let Some(tgt_qps) = &args.tgt_qps {
        tgt_qps.write(&infos)?;
    }
    args.count.write(&count)
}
