// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_EVENT_FILE`.

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
        context::Context,
        event_file::{
            EventFile,
            EventSource, //
        }, //
    },
};

uverbs::method! {
    /// Make an event file.
    pub(super) struct Create for Context, id bindings::IB_XRC_METHOD_EVENT_FILE_CREATE,
        handler create
    {
        fd: NewFd = bindings::IB_XRC_ATTR_EVENT_FILE_CREATE_FD, mandatory;
        depth: In<u32> = bindings::IB_XRC_ATTR_EVENT_FILE_CREATE_DEPTH, optional;
    }
}

fn create(ctx: &Context, args: Create<'_>) -> Result {
    let (xrc_device, _gate) = ctx.enter()?;
    let depth = args.depth.unwrap_or(bindings::IB_XRC_EVENT_FILE_DEPTH);

    if depth == 0 || depth > bindings::IB_XRC_EVENT_FILE_MAX_DEPTH {
        return Err(EINVAL);
    }

    let event_file = EventFile::new(xrc_device.services(), ctx.id(), depth)?;

    // A file releases the object when it goes; without one that is to be done here.
    let file = anon_file::create(event_file.clone()).inspect_err(|_| event_file.release())?;

    args.fd.install(file);
    Ok(())
}

/// Makes an object's way to report to the event file `fd`, if one is given. Its events carry
/// `user_handle`, or 0. `EBADF`: `fd` is not an event file of this context.
pub(super) fn event_source(
    ctx: &Context,
    fd: Option<i32>,
    user_handle: Option<u64>,
) -> Result<Option<EventSource>> {
    let Some(fd) = fd else {
        return Ok(None);
    };
    let file = anon_file::from_fd::<EventFile>(fd)?;

    if file.owner() != ctx.id() {
        return Err(EBADF);
    }

    Ok(Some(EventSource::new(file, user_handle.unwrap_or(0))?))
}
