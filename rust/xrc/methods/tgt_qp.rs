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
        },
        wait::Deadline, //
    },
};

use super::event_source;

uverbs::method! {
    /// Create a TGT QP and register with it.
    pub(super) struct Create for Context, id bindings::IB_XRC_METHOD_TGT_QP_CREATE,
        handler create
    {
        handle: New = bindings::IB_XRC_ATTR_TGT_QP_CREATE_HANDLE, mandatory;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_CREATE_XRCD, mandatory;
        qp_num: Out<u32> = bindings::IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, mandatory;
        event_file: RawFd = bindings::IB_XRC_ATTR_TGT_QP_CREATE_EVENT_FILE, optional;
        user_handle: In<u64> = bindings::IB_XRC_ATTR_TGT_QP_CREATE_USER_HANDLE, optional;
    }
}

fn create(ctx: &Context, args: Create<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let source = event_source(ctx, args.event_file, args.user_handle)?;
    let domain = args.xrcd.domain_to_use()?;
    let registration = Registration::create(domain, &gate, args.xrcd.key(), source)?;
    let handle = TgtQpHandle::new(registration, &args.xrcd)?;

    drop(gate);
    args.qp_num.write(&handle.registration().tgt_qp().num())?;
    handle.registration().told();
    args.handle.commit(Object::TgtQp(handle));
    Ok(())
}

uverbs::method! {
    /// Register with a TGT QP of the domain.
    pub(super) struct Open for Context, id bindings::IB_XRC_METHOD_TGT_QP_OPEN, handler open {
        handle: New = bindings::IB_XRC_ATTR_TGT_QP_OPEN_HANDLE, mandatory;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_OPEN_XRCD, mandatory;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM, mandatory;
        event_file: RawFd = bindings::IB_XRC_ATTR_TGT_QP_OPEN_EVENT_FILE, optional;
        user_handle: In<u64> = bindings::IB_XRC_ATTR_TGT_QP_OPEN_USER_HANDLE, optional;
    }
}

fn open(ctx: &Context, args: Open<'_>) -> Result {
    let (_, _gate) = ctx.enter()?;
    let source = event_source(ctx, args.event_file, args.user_handle)?;
    let domain = args.xrcd.domain_to_use()?;
    let registration = Registration::open(domain, args.qp_num, args.xrcd.key(), source)?;

    args.handle
        .commit(Object::TgtQp(TgtQpHandle::new(registration, &args.xrcd)?));
    Ok(())
}

/// The TGT QP that a call names, and its domain.
struct Named<'a> {
    domain: &'a Arc<Domain<Soft>>,
    tgt_qp: Arc<TgtQp<Soft>>,
    by_num: bool,
}

impl<'a> Named<'a> {
    /// Finds it by handle, or by domain and number, to look at. `EINVAL`: neither or both are
    /// given, or the domain has none of this number.
    fn to_look(
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
                    by_num: false,
                })
            }
            (None, Some(xrcd), Some(qp_num)) => Ok(Self {
                domain: xrcd.domain(),
                tgt_qp: xrcd.domain().find_tgt_qp(qp_num)?,
                by_num: true,
            }),
            _ => Err(EINVAL),
        }
    }

    /// As [`to_look`](Self::to_look), to change it. `EACCES`: the handle of the domain may only
    /// look, or is another job's.
    fn to_use(
        handle: Option<&'a Arc<TgtQpHandle<Soft>>>,
        xrcd: Option<&'a Arc<Xrcd<Soft>>>,
        qp_num: Option<u32>,
    ) -> Result<Self> {
        let named = Self::to_look(handle, xrcd, qp_num)?;

        if let Some(xrcd) = xrcd {
            xrcd.domain_to_use()?;
            if named.tgt_qp.key() != xrcd.key() {
                return Err(EACCES);
            }
        }
        Ok(named)
    }

    /// Who finds a QP by its number may find one that is on its way out: as if it had not.
    fn settle<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(error) if error == ESTALE && self.by_num => Err(EINVAL),
            result => result,
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
    let named = Named::to_use(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;

    named.settle(named.tgt_qp.modify(&gate, &args.attr))
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
    let named = Named::to_look(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;
    let queried = match &args.attr {
        Some(slot) => Some((slot, named.settle(named.tgt_qp.query(&gate))?)),
        None => None,
    };
    let info = named.settle(named.domain.tgt_qp_info(&named.tgt_qp))?;

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
        timeout_ms: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_CONNECT_TIMEOUT_MS, optional;
    }
}

fn connect(ctx: &Context, args: Connect<'_>) -> Result {
    let deadline = args.timeout_ms.map_or(Deadline::NEVER, Deadline::after_ms);
    let (_, gate) = ctx.enter()?;
    let named = Named::to_use(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;
    let (result, state) = named.tgt_qp.connect(&gate, &args.attr, deadline);
    let result = named.settle(result);

    drop(gate);
    // Transitions cannot be taken back, so their outcome is worth more than a bad pointer.
    let written = match &args.state {
        Some(slot) => slot.write(&state.raw()),
        None => Ok(()),
    };

    result.and(written)
}

uverbs::method! {
    /// Stop receiving.
    pub(super) struct Disconnect for Context, id bindings::IB_XRC_METHOD_TGT_QP_DISCONNECT,
        handler disconnect
    {
        handle: Handle<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_DISCONNECT_HANDLE, optional;
        release: Destroy<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_DISCONNECT_RELEASE, optional;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_DISCONNECT_XRCD, optional;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_DISCONNECT_QP_NUM, optional;
        timeout_ms: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_DISCONNECT_TIMEOUT_MS, mandatory;
        info: Out<bindings::ib_xrc_disconnect_info>
            = bindings::IB_XRC_ATTR_TGT_QP_DISCONNECT_RESP_INFO, optional;
    }
}

fn disconnect(ctx: &Context, args: Disconnect<'_>) -> Result {
    let deadline = Deadline::after_ms(args.timeout_ms);
    let (_, gate) = ctx.enter()?;
    let handle = match (&args.handle, &args.release) {
        (Some(_), Some(_)) => return Err(EINVAL),
        (None, Some(release)) => Some(&**release),
        (handle, None) => handle.as_deref(),
    };
    let named = Named::to_use(handle, args.xrcd.as_deref(), args.qp_num)?;
    let info = named.settle(named.tgt_qp.disconnect(&gate, deadline))?;

    drop((named, gate));
    if let Some(slot) = &args.info {
        slot.write(&info)?;
    }
    if let Some(release) = args.release {
        drop(release.remove());
    }
    Ok(())
}

uverbs::method! {
    /// List the registrations.
    pub(super) struct ListHolders for Context, id bindings::IB_XRC_METHOD_TGT_QP_LIST_HOLDERS,
        handler list_holders
    {
        handle: Handle<Arc<TgtQpHandle<Soft>>>
            = bindings::IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE, optional;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_XRCD, optional;
        qp_num: In<u32> = bindings::IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_QP_NUM, optional;
        holders: OutArray<bindings::ib_xrc_holder_info>
            = bindings::IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_HOLDERS, optional;
        count: Out<u32> = bindings::IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT, mandatory;
        after: In<u64> = bindings::IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_AFTER, optional;
    }
}

fn list_holders(ctx: &Context, args: ListHolders<'_>) -> Result {
    let (_, gate) = ctx.enter()?;
    let named = Named::to_look(args.handle.as_deref(), args.xrcd.as_deref(), args.qp_num)?;
    let capacity = args.holders.as_ref().map_or(0, OutArraySlot::capacity);
    let listed = named
        .tgt_qp
        .holders()
        .list(args.after.unwrap_or(0), capacity);
    let (infos, count) = named.settle(listed)?;

    drop(gate);
    if let Some(holders) = &args.holders {
        holders.write(&infos)?;
    }
    args.count.write(&count)
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
