// SPDX-License-Identifier: GPL-2.0

//! What ties an open file to a device.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

use crate::rdma::cgroup::Charge;

use super::{
    backend::Backend,
    device::XrcDevice,
    removal::{
        Listening,
        RemovalListener,
        RemovalListeners, //
    }, //
};

/// A device that is bound to, which the rdma cgroup counts as long as the device is there.
pub(crate) struct Binding<B: Backend> {
    xrc_device: Arc<XrcDevice<B>>,
    _listening: Listening,
}

impl<B: Backend> Binding<B> {
    /// Binds to a device. `EAGAIN`: the rdma cgroup of the calling process has as many handles of the
    /// device as it may. `EIO`: the device is gone. `ENOMEM`. Sleeps.
    pub(crate) fn new(xrc_device: Arc<XrcDevice<B>>) -> Result<Self> {
        let device = xrc_device.device();
        let charge = Charge::handle(&device.enter()?, device)?;
        let counted = Arc::pin_init(
            pin_init!(Counted {
                charge <- new_mutex!(Some(charge), "Counted::charge"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let listening = RemovalListeners::listen(xrc_device.services().removal(), counted)?;

        Ok(Self {
            xrc_device,
            _listening: listening,
        })
    }

    /// The device.
    pub(crate) fn xrc_device(&self) -> &Arc<XrcDevice<B>> {
        &self.xrc_device
    }
}

/// Counts a file until it is closed or the device goes.
#[pin_data]
struct Counted {
    #[pin]
    charge: Mutex<Option<Charge>>,
}

impl RemovalListener for Counted {
    fn device_removed(&self) {
        let charge = self.charge.lock().take();

        drop(charge);
    }
}
