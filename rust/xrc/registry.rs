// SPDX-License-Identifier: GPL-2.0

//! The devices that domains can be opened on, and how they come and go.

use kernel::{
    prelude::*,
    sync::{
        global_lock,
        Arc, //
    },
};

use crate::{
    bindings,
    rdma::{
        client::Client,
        device::Device, //
    },
    soft::Soft, //
};

use super::{
    device::XrcDevice,
    workqueues::Workqueues, //
};

/// The devices of the module, in the order in which they came, and its workqueues.
pub(crate) struct Registry {
    devices: KVec<Arc<XrcDevice<Soft>>>,
    workqueues: Option<Arc<Workqueues>>,
}

global_lock! {
    // SAFETY: The module's `init` initialises it before it registers the client and the character
    // device, and nothing else leads here.
    pub(crate) unsafe(uninit) static REGISTRY: Mutex<Registry> = Registry {
        devices: KVec::new(),
        workqueues: None,
    };
}

/// The module's workqueues, which go with the module.
pub(crate) struct ModuleWorkqueues(Arc<Workqueues>);

impl ModuleWorkqueues {
    /// Makes the workqueues that devices to come will use. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let workqueues = Arc::new(Workqueues::new()?, GFP_KERNEL)?;

        REGISTRY.lock().workqueues = Some(workqueues.clone());
        Ok(Self(workqueues))
    }
}

impl Drop for ModuleWorkqueues {
    fn drop(&mut self) {
        // Items keep what they work on, and that keeps the workqueues: they must be gone before the
        // last reference is given back here, since a workqueue cannot be destroyed from itself.
        self.0.drain();

        // A static is never dropped: what it has is to be freed here.
        let mut registry = REGISTRY.lock();
        let devices = core::mem::replace(&mut registry.devices, KVec::new());
        let workqueues = registry.workqueues.take();

        drop(registry);
        drop((devices, workqueues));
    }
}

/// How a device is named in a bind.
pub(crate) enum Selector<'a> {
    /// By name, without the NUL.
    Name(&'a [u8]),
    /// By index.
    Index(u32),
}

impl Selector<'_> {
    fn selects(&self, device: &Device) -> bool {
        match *self {
            Selector::Name(name) => {
                let mut name_of_device = device.name();
                let len = name_of_device.iter().position(|&byte| byte == 0);

                len.and_then(|len| name_of_device.get_mut(..len))
                    .is_some_and(|name_of_device| name_of_device == name)
            }
            Selector::Index(index) => device.index() == index,
        }
    }
}

/// Whether the caller's network namespace may use the device, which must not be on its way out.
fn is_usable(device: &Device) -> bool {
    device.enter().is_ok() && device.accessible_from_current_netns()
}

/// Finds a device which the caller's network namespace may use. `ENODEV`: there is none. Sleeps.
pub(crate) fn find(selector: &Selector<'_>) -> Result<Arc<XrcDevice<Soft>>> {
    REGISTRY
        .lock()
        .devices
        .iter()
        .find(|xrc_device| selector.selects(xrc_device.device()) && is_usable(xrc_device.device()))
        .cloned()
        .ok_or(ENODEV)
}

/// Describes the devices which the caller's network namespace may use. Sleeps.
pub(crate) fn list() -> Result<KVec<bindings::ib_xrc_device_info>> {
    let registry = REGISTRY.lock();
    let mut infos = KVec::with_capacity(registry.devices.len(), GFP_KERNEL_ACCOUNT)?;

    for xrc_device in &registry.devices {
        if is_usable(xrc_device.device()) {
            infos.push(xrc_device.info(), GFP_KERNEL_ACCOUNT)?;
        }
    }
    Ok(infos)
}

/// The module as a client of the RDMA core.
pub(crate) struct XrcClient;

impl Client for XrcClient {
    type Data = XrcDevice<Soft>;

    const NAME: &'static CStr = c"ib_xrc";

    fn new_data(device: &Arc<Device>) -> Result<Arc<Self::Data>> {
        let workqueues = REGISTRY.lock().workqueues.clone().ok_or(ENODEV)?;

        XrcDevice::new(device.clone(), workqueues)
    }

    fn add(xrc_device: &Arc<Self::Data>) -> Result {
        REGISTRY
            .lock()
            .devices
            .push(xrc_device.clone(), GFP_KERNEL)?;
        Ok(())
    }

    fn port_event(xrc_device: &Self::Data, port: u32, active: bool) {
        xrc_device.services().removal().port_event(port, active);
    }

    fn wake(_xrc_device: &Self::Data) {
        // Who waits inside the gate for anything but the device looks each millisecond whether it
        // closes: see `wait`.
    }

    fn remove(xrc_device: Arc<Self::Data>) {
        let mut registry = REGISTRY.lock();
        let position = registry
            .devices
            .iter()
            .position(|other| Arc::ptr_eq(other, &xrc_device));
        let removed = position.map(|position| registry.devices.remove(position));

        drop(registry);
        drop(removed);
        xrc_device.remove();
    }
}
