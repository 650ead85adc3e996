// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_TGT_QP`.

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
        context::Context,
        domain::Domain,
        object::{
            Object,
            TgtQpHandle,
            Xrcd, //
        },
        tgt_qp::{
            Registration,
            TgtQp, //
        }, //
    },
};

uverbs::method! {
    /// Create a TGT QP and register with it.
    pub(super) struct Create for Context, id bindings::IB_XRC_METHOD_TGT_QP_CREATE,
        handler create
    {
        handle: New = bindings::IB_XRC_ATTR_TGT_QP_CREATE_HANDLE, mandatory;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_CREATE_XRCD, mandatory;
        qp_num: Out<u32> = bindings::IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, mandatory;
    }
}

fn create(ctx: &Context, args: Create<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let registration = Registration::create(args.xrcd.domain(), &gate)?;
    let handle = TgtQpHandle::new(registration, &args.xrcd)?;

    drop(gate);
    args.qp_num.write(&handle.registration().tgt_qp().num())?;
    args.handle.commit(Object::TgtQp(handle));
    Ok(())
}

uverbs::method! {
    /// Register with a TGT QP of the domain.
    pub(super) struct Open for Context, id bindings::IB_XRC_METHOD_TGT_QP_OPEN, handler open {
        handle: New = bindings::IB_XRC_ATTR_TGT_QP_OPEN_HANDLE, mandatory;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_OPEN_XRCD, mandatory;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM, mandatory;
    }
}

fn open(ctx: &Context, args: Open<'_>) -> Result {
    let (_, _gate) = ctx.enter()?;
    let registration = Registration::open(args.xrcd.domain(), args.qp_num)?;

    args.handle
        .commit(Object::TgtQp(TgtQpHandle::new(registration, &args.xrcd)?));
    Ok(())
}

/// The TGT QP that a call names, and its domain.
struct Named<'a> {
    domain: &'a Domain<Soft>,
    tgt_qp: Arc<TgtQp<Soft>>,
}

impl<'a> Named<'a> {
    /// Finds it by handle, or by domain and number. `EINVAL`: neither or both are given, or the
    /// domain has none of this number.
    fn new(
        handle: Option<&'a Arc<TgtQpHandle<Soft>>>,
        xrcd: Option<&'a Arc<Xrcd<Soft>>>,
        qp_num: Option<u32>,
    ) -> Result<Self> {
        match (handle, xrcd, qp_num) {
            (Some(handle), None, None) => {
                let registration = handle.registration();

                Ok(Self {
                    domain: registration.domain(),
                    tgt_qp: registration.tgt_qp().clone(),
                })
            }
            (None, Some(xrcd), Some(qp_num)) => Ok(Self {
                domain: xrcd.domain(),
                tgt_qp: xrcd.domain().find_tgt_qp(qp_num)?,
            }),
            _ => Err(EINVAL),
        }
    }
}

uverbs::method! {
    /// Make one transition.
    pub(super) struct Modify for Context, id bindings::IB_XRC_METHOD_TGT_QP_MODIFY,
        handler modify
    {
        handle: Handle<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE, optional;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_MODIFY_XRCD, optional;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_MODIFY_QP_NUM, optional;
        attr: InStruct<bindings::ib_uverbs_qp_attr>
            = bindings::IB_XRC_ATTR_TGT_QP_MODIFY_ATTR, mandatory;
    }
}

fn modify(ctx: &Context, args: Modify<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let named = Named::new(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;

    named.tgt_qp.modify(&gate, &args.attr)
}

uverbs::method! {
    /// Read the attributes.
    pub(super) struct Query for Context, id bindings::IB_XRC_METHOD_TGT_QP_QUERY, handler query {
        handle: Handle<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_QUERY_HANDLE, optional;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_QUERY_XRCD, optional;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_QUERY_QP_NUM, optional;
        attr: Out<bindings::ib_uverbs_qp_attr>
            = bindings::IB_XRC_ATTR_TGT_QP_QUERY_RESP_ATTR, optional;
        info: Out<bindings::ib_xrc_tgt_qp_info>
            = bindings::IB_XRC_ATTR_TGT_QP_QUERY_RESP_INFO, optional;
    }
}

fn query(ctx: &Context, args: Query<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let named = Named::new(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;

    let queried = match &args.attr {
        Some(slot) => Some((slot, named.tgt_qp.query(&gate)?)),
        None => None,
    };
    let info = named.domain.tgt_qp_info(&named.tgt_qp);

    drop(gate);
    if let Some((slot, attr)) = queried {
        slot.write(&attr)?;
    }
    if let Some(slot) = &args.info {
        slot.write(&info)?;
    }
    Ok(())
}

uverbs::method! {
    /// Make several transitions.
    pub(super) struct Connect for Context, id bindings::IB_XRC_METHOD_TGT_QP_CONNECT,
        handler connect
    {
        handle: Handle<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_CONNECT_HANDLE, optional;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_CONNECT_XRCD, optional;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_CONNECT_QP_NUM, optional;
        attr: InStruct<bindings::ib_uverbs_qp_attr>
            = bindings::IB_XRC_ATTR_TGT_QP_CONNECT_ATTR, mandatory;
        state: Out<u32> = bindings::IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE, optional;
    }
}

fn connect(ctx: &Context, args: Connect<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let named = Named::new(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;
    let (result, state) = named.tgt_qp.connect(&gate, &args.attr);

    drop(gate);
    // Transitions cannot be taken back, so their outcome is worth more than a bad pointer.
    let written = match &args.state {
        Some(slot) => slot.write(&state.raw()),
        None => Ok(()),
    };

    result.and(written)
}

uverbs::method! {
    /// Give a registration back.
    pub(super) struct Close for Context, id bindings::IB_XRC_METHOD_TGT_QP_CLOSE, handler close {
        handle: Destroy<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_CLOSE_HANDLE, mandatory;
    }
}

fn close(_ctx: &Context, args: Close<'_>) -> Result {
    drop(args.handle.remove());
    Ok(())
}
