// SPDX-License-Identifier: GPL-2.0

//! Methods of `IB_XRC_OBJECT_CONTEXT`.

use kernel::prelude::*;

use crate::{
    bindings,
    soft::Soft,
    uverbs::{
        self,
        attr::*, //
    },
    xrc::{
        backend::Backend,
        binding::Binding,
        context::Context,
        registry::{
            self,
            Selector, //
        }, //
    },
};

uverbs::method! {
    /// Bind the file to a device.
    pub(super) struct Bind for Context, id bindings::IB_XRC_METHOD_BIND, handler bind {
        abi_version: In<u32> = bindings::IB_XRC_ATTR_BIND_ABI_VERSION, mandatory;
        name: InStr<{ bindings::IB_XRC_DEVICE_NAME_MAX as usize }>
            = bindings::IB_XRC_ATTR_BIND_NAME, optional;
        index: In<u32> = bindings::IB_XRC_ATTR_BIND_INDEX, optional;
        device: Out<bindings::ib_xrc_device_info>
            = bindings::IB_XRC_ATTR_BIND_RESP_DEVICE, mandatory;
    }
}

fn bind(ctx: &Context, args: Bind<'_>) -> Result {
    if ctx.is_bound() {
        return Err(EINVAL);
    }
    if args.abi_version != bindings::IB_XRC_ABI_VERSION {
        return Err(EPROTO);
    }

    let selector = match (&args.name, args.index) {
        (Some(name), None) => Selector::Name(name.as_bytes()),
        (None, Some(index)) => Selector::Index(index),
        _ => return Err(EINVAL),
    };
    let binding = Binding::new(registry::find(&selector)?)?;

    args.device.write(&binding.xrc_device().info())?;
    ctx.bind(binding)
}

uverbs::method! {
    /// Describe the device that the file is bound to.
    pub(super) struct QueryContext for Context, id bindings::IB_XRC_METHOD_QUERY_CONTEXT,
        handler query
    {
        device: Out<bindings::ib_xrc_device_info>
            = bindings::IB_XRC_ATTR_QUERY_CONTEXT_RESP_DEVICE, optional;
        limits: Out<bindings::ib_xrc_limits>
            = bindings::IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS, optional;
    }
}

fn query(ctx: &Context, args: QueryContext<'_>) -> Result {
    let (xrc_device, gate) = ctx.enter()?;
    let info = xrc_device.info();
    let soft_limits = Soft::limits(xrc_device.device());

    drop(gate);
    if let Some(device) = &args.device {
        device.write(&info)?;
    }
    if let Some(limits) = &args.limits {
        limits.write(&soft_limits)?;
    }
    Ok(())
}

uverbs::method! {
    /// List the devices that the caller may bind a file to.
    pub(super) struct ListDevices for Context, id bindings::IB_XRC_METHOD_LIST_DEVICES,
        handler list
    {
        devices: OutArray<bindings::ib_xrc_device_info>
            = bindings::IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES, optional;
        count: Out<u32> = bindings::IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, mandatory;
    }
}

fn list(_ctx: &Context, args: ListDevices<'_>) -> Result {
    let infos = registry::list()?;

    if let Some(devices) = &args.devices {
        devices.write(&infos)?;
    }
    args.count.write(&u32::try_from(infos.len())?)
}
