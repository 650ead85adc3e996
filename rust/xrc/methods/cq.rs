// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_CQ`.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    linux::anon_file,
    soft::Soft,
    uverbs::{
        self,
        attr::*, //
    },
    xrc::{
        backend::{
            Backend,
            Cq as _, //
        },
        comp_channel::CompChannel,
        context::Context,
        object::{
            CqHandle,
            Object, //
        }, //
    },
};

use super::mmap_offset;

uverbs::method! {
    /// Make a CQ.
    pub(super) struct Create for Context, id bindings::IB_XRC_METHOD_CQ_CREATE, handler create {
        handle: New = bindings::IB_XRC_ATTR_CQ_CREATE_HANDLE, mandatory;
        cqe: In<u32> = bindings::IB_XRC_ATTR_CQ_CREATE_CQE, mandatory;
        user_handle: In<u64> = bindings::IB_XRC_ATTR_CQ_CREATE_USER_HANDLE, optional;
        comp_channel: RawFd = bindings::IB_XRC_ATTR_CQ_CREATE_COMP_CHANNEL, optional;
        ring: Out<bindings::ib_xrc_ring_info>
            = bindings::IB_XRC_ATTR_CQ_CREATE_RESP_RING, mandatory;
    }
}

fn create(ctx: &Context, args: Create<'_>) -> Result {
    let (xrc_device, gate) = ctx.enter()?;

    if args.cqe == 0 || args.cqe > Soft::limits(xrc_device.device()).max_cqe {
        return Err(EINVAL);
    }

    let notifier = match args.comp_channel {
        Some(fd) => {
            let channel = anon_file::from_fd::<CompChannel>(fd)?;

            if channel.owner() != ctx.id() {
                return Err(EBADF);
            }
            Some(CompChannel::notifier(
                channel,
                args.user_handle.unwrap_or(0),
            )?)
        }
        None => None,
    };
    let cq = CqHandle::<Soft>::new(xrc_device.services(), args.cqe, notifier)?;

    drop(gate);
    args.ring
        .write(&cq.cq().ring_info(mmap_offset(&args.handle)))?;
    args.handle.commit(Object::Cq(cq));
    Ok(())
}

uverbs::method! {
    /// Destroy a CQ.
    pub(super) struct Destroy for Context, id bindings::IB_XRC_METHOD_CQ_DESTROY,
        handler destroy
    {
        handle: uverbs::attr::Destroy<Arc<CqHandle<Soft>>>
            = bindings::IB_XRC_ATTR_CQ_DESTROY_HANDLE, mandatory;
    }
}

fn destroy(_ctx: &Context, args: Destroy<'_>) -> Result {
    if (**args.handle).as_ref().any() {
        return Err(EBUSY);
    }

    drop(args.handle.remove());
    Ok(())
}
