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
        },
        policy::Policy,
        tgt_qp::JobKey, //
    },
};

use super::event_source;

uverbs::method! {
    /// Open a domain.
    pub(super) struct Open for Context, id bindings::IB_XRC_METHOD_XRCD_OPEN, handler open {
        handle: New = bindings::IB_XRC_ATTR_XRCD_OPEN_HANDLE, mandatory;
        fd: RawFd = bindings::IB_XRC_ATTR_XRCD_OPEN_FD, optional;
        oflags: In<u32> = bindings::IB_XRC_ATTR_XRCD_OPEN_OFLAGS, optional;
        policy: InStruct<bindings::ib_xrc_policy>
            = bindings::IB_XRC_ATTR_XRCD_OPEN_POLICY, optional;
        job_key: In<u64> = bindings::IB_XRC_ATTR_XRCD_OPEN_JOB_KEY, optional;
        event_file: RawFd = bindings::IB_XRC_ATTR_XRCD_OPEN_EVENT_FILE, optional;
        user_handle: In<u64> = bindings::IB_XRC_ATTR_XRCD_OPEN_USER_HANDLE, optional;
    }
}

fn open(ctx: &Context, args: Open<'_>) -> Result {
    let (xrc_device, gate) = ctx.enter()?;
    let inode = match args.fd {
        None | Some(-1) => None,
        Some(fd) => Some(InodeRef::of_fd(fd)?),
    };
    // Nobody else gets at an anonymous domain.
    let writable = inode.as_ref().is_none_or(InodeRef::is_writable);
    let policy = args.policy.map(Policy::new).transpose()?;
    let key = args.job_key.map(JobKey::new);
    let source = event_source(ctx, args.event_file, args.user_handle)?;
    let handle = xrc_device.open_domain(&gate, inode, args.oflags.unwrap_or(0), policy)?;
    let xrcd = Xrcd::new(handle, writable, key, source)?;

    args.handle.commit(Object::Xrcd(xrcd));
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
            = bindings::IB_XRC_ATTR_XRCD_QUERY_RESP_INFO, optional;
        policy: Out<bindings::ib_xrc_policy>
            = bindings::IB_XRC_ATTR_XRCD_QUERY_RESP_POLICY, optional;
    }
}

fn query(ctx: &Context, args: Query<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let domain = args.handle.domain();
    let info = bindings::ib_xrc_xrcd_info {
        handles: args.handle.handle().count(),
        ..domain.info()
    };

    drop(gate);
    if let Some(slot) = &args.info {
        slot.write(&info)?;
    }
    if let Some(slot) = &args.policy {
        slot.write(domain.policy().raw())?;
    }
    Ok(())
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

uverbs::method! {
    /// List the SRQs of a domain.
    pub(super) struct ListSrqs for Context, id bindings::IB_XRC_METHOD_XRCD_LIST_SRQS,
        handler list_srqs
    {
        handle: Handle<Arc<Xrcd<Soft>>>
            = bindings::IB_XRC_ATTR_XRCD_LIST_SRQS_HANDLE, mandatory;
        srqs: OutArray<bindings::ib_xrc_srq_info>
            = bindings::IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_SRQS, optional;
        count: Out<u32> = bindings::IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_COUNT, mandatory;
        after: In<u32> = bindings::IB_XRC_ATTR_XRCD_LIST_SRQS_AFTER, optional;
    }
}

fn list_srqs(ctx: &Context, args: ListSrqs<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let capacity = args.srqs.as_ref().map_or(0, OutArraySlot::capacity);
    let (infos, count) = args.handle.domain().list_srqs(args.after, capacity)?;

    drop(gate);
    if let Some(srqs) = &args.srqs {
        srqs.write(&infos)?;
    }
    args.count.write(&count)
}
