// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_COMP_CHANNEL`.

use kernel::prelude::*;

use crate::{
    bindings,
    linux::anon_file::{
        self,
        AnonFile, //
    },
    uverbs::{
        self,
        attr::*, //
    },
    xrc::{
        comp_channel::CompChannel,
        context::Context, //
    },
};

uverbs::method! {
    /// Make a completion channel.
    pub(super) struct Create for Context, id bindings::IB_XRC_METHOD_COMP_CHANNEL_CREATE,
        handler create
    {
        fd: NewFd = bindings::IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD, mandatory;
    }
}

fn create(ctx: &Context, args: Create<'_>) -> Result {
    let (xrc_device, _gate) = ctx.enter()?;
    let channel = CompChannel::new(xrc_device.services(), ctx.id())?;

    // A file releases the channel when it goes; without one that is to be done here.
    let file = anon_file::create(channel.clone()).inspect_err(|_| channel.release())?;

    args.fd.install(file);
    Ok(())
}
