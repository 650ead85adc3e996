// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_MR`.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    rdma::mr::{
        Access,
        Region, //
    },
    soft::Soft,
    uverbs::{
        self,
        attr::*, //
    },
    xrc::{
        backend::Mr as _,
        context::Context,
        object::{
            MrHandle,
            Object,
            Xrcd, //
        }, //
    },
};

uverbs::method! {
    /// Register memory.
    pub(super) struct Reg for Context, id bindings::IB_XRC_METHOD_MR_REG, handler reg {
        handle: New = bindings::IB_XRC_ATTR_MR_REG_HANDLE, mandatory;
        xrcd: Handle<Arc<Xrcd<Soft>>> = bindings::IB_XRC_ATTR_MR_REG_XRCD, mandatory;
        addr: In<u64> = bindings::IB_XRC_ATTR_MR_REG_ADDR, mandatory;
        length: In<u64> = bindings::IB_XRC_ATTR_MR_REG_LENGTH, mandatory;
        iova: In<u64> = bindings::IB_XRC_ATTR_MR_REG_IOVA, optional;
        access_flags: In<u32> = bindings::IB_XRC_ATTR_MR_REG_ACCESS_FLAGS, mandatory;
        rkey: Out<u32> = bindings::IB_XRC_ATTR_MR_REG_RESP_RKEY, mandatory;
    }
}

fn reg(ctx: &Context, args: Reg<'_>) -> Result {
    let (xrc_device, gate) = ctx.enter()?;
    let region = Region::new(args.addr, args.length, args.iova.unwrap_or(args.addr))?;
    let access = Access::new(xrc_device.device(), args.access_flags)?;
    // Before memory is touched, of which there may be a lot.
    let charge = MrHandle::charge(&args.xrcd, region.pinned())?;

    drop(gate);

    // Memory may take its time, which the removal of the device is not to wait for: so the pages are
    // seen to before one is inside the gate.
    let mr = loop {
        region.prefault(access)?;

        let (_, gate) = ctx.enter()?;

        if let Some(memory) = region.pinnable(&gate, access)? {
            break MrHandle::new(&gate, &args.xrcd, memory, charge)?;
        }
    };

    args.rkey.write(&mr.mr().rkey())?;
    args.handle.commit(Object::Mr(mr));
    Ok(())
}

uverbs::method! {
    /// Deregister memory.
    pub(super) struct Dereg for Context, id bindings::IB_XRC_METHOD_MR_DEREG, handler dereg {
        handle: Destroy<Arc<MrHandle<Soft>>> = bindings::IB_XRC_ATTR_MR_DEREG_HANDLE, mandatory;
    }
}

fn dereg(_ctx: &Context, args: Dereg<'_>) -> Result {
    drop(args.handle.remove());
    Ok(())
}
