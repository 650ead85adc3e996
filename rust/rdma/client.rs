// SPDX-License-Identifier: GPL-2.0

//! To be told of the devices that come and go.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
    types::Opaque,
};

use super::{
    device::{as_context, Device, Live},
    device_events::{DeviceEventHandler, DeviceEvents},
};
use crate::bindings;

/// What wants to know the RC-capable devices. All its functions are called in process
/// context and may sleep.
pub(crate) trait Client: 'static {
    /// What it keeps for each device.
    type Data: Send + Sync + 'static;

    /// Name of the client.
    const NAME: &'static CStr;

    /// Makes what is kept for a device. If this fails the device is not used.
    fn new_data(device: &Arc<Device>) -> Result<Arc<Self::Data>>;

    /// A device is there, and may be used from now on, unless this fails.
    fn add(data: &Arc<Self::Data>) -> Result;

    /// A port of the device became active, or ceased to be. Runs after `new_data` and before
    /// `remove`, maybe before `add`.
    fn port_event(data: &Self::Data, port: u32, active: bool);

    /// The device is going and its gate is closed: wakes those who sleep inside the gate
    /// for anything but the device.
    fn wake(data: &Self::Data);

    /// Nobody is inside the gate any more: drops all kernel objects that were made on the
    /// device, here or soon in another thread. Removal waits until the last one is gone.
    fn remove(data: Arc<Self::Data>);
}

/// The one client that is registered, or null: the core does not tell `add` for whom it is
/// called.
static CURRENT: Atomic<*mut bindings::ib_client> = Atomic::new(null_mut());

/// A client is registered for as long as this lives.
///
/// # Invariants
///
/// `client` is registered with the core, and [`CURRENT`] points to it.
#[pin_data(PinnedDrop)]
pub(crate) struct ClientRegistration<C: Client> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    _client: PhantomData<C>,
}

// SAFETY: A client may be unregistered by any thread.
unsafe impl<C: Client> Send for ClientRegistration<C> {}
// SAFETY: There is nothing to be done with a shared reference.
unsafe impl<C: Client> Sync for ClientRegistration<C> {}

impl<C: Client> ClientRegistration<C> {
    /// Registers the client, and calls [`Client::add`] for the devices that there are. Fails
    /// with `EBUSY` if a client of this module is registered. Process context, sleeps.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            client <- Opaque::try_ffi_init(|slot: *mut bindings::ib_client| {
                if CURRENT.cmpxchg(null_mut(), slot, Full).is_err() {
                    return Err(EBUSY);
                }
                let client = bindings::ib_client {
                    name: C::NAME.as_char_ptr(),
                    add: Some(Self::add),
                    remove: Some(Self::remove),
                    ..Default::default()
                };
                // SAFETY: `slot` is memory for a client, pinned.
                unsafe { slot.write(client) };
                // SAFETY: The client is set up, and stays until it has been unregistered:
                // here by the core if this fails, else by `drop`.
                to_result(unsafe { bindings::ib_register_client(slot) }).inspect_err(|_| {
                    CURRENT.store(null_mut(), Relaxed);
                })
            }),
            _client: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by the core: `raw` is a registered device, and stays so until `remove`, if
    /// this succeeds, has returned.
    unsafe extern "C" fn add(raw: *mut bindings::ib_device) -> c_int {
        let Some(raw) = NonNull::new(raw) else {
            return EINVAL.to_errno();
        };

        // SAFETY: The device is registered.
        if !unsafe { Device::can_do_rc(raw) } {
            return EOPNOTSUPP.to_errno();
        }
        // SAFETY: The device stays until `add` has failed or `remove` has returned. `retire`
        // comes before both.
        let device = match unsafe { Device::new(raw) } {
            Ok(device) => device,
            Err(e) => {
                pr_err!("cannot use a device: {:?}\n", e);
                return e.to_errno();
            }
        };
        let entry = Entry::<C>::new(&device)
            .inspect_err(|_| retire::<C>(&device, None))
            .and_then(|entry| match C::add(&entry.data) {
                Ok(()) => Ok(entry),
                Err(e) => {
                    retire(&device, Some(entry));
                    Err(e)
                }
            });
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => {
                pr_err!("cannot use device {}: {:?}\n", device.index(), e);
                return e.to_errno();
            }
        };

        // SAFETY: Both are registered.
        unsafe {
            bindings::ib_set_client_data(
                raw.as_ptr(),
                CURRENT.load(Relaxed),
                as_context(KBox::into_raw(entry)),
            )
        };
        0
    }

    /// # Safety
    ///
    /// Called by the core: `data` is what `add` has set, once.
    unsafe extern "C" fn remove(_raw: *mut bindings::ib_device, data: *mut c_void) {
        if data.is_null() {
            return;
        }
        // SAFETY: `add` has made it of a `KBox`, and this is called once.
        let entry = unsafe { KBox::from_raw(data.cast::<Entry<C>>()) };
        let device = entry.device.clone();

        retire(&device, Some(entry));
    }
}

#[pinned_drop]
impl<C: Client> PinnedDrop for ClientRegistration<C> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants. The core calls `remove` for all devices, and after
        // that knows nothing of the client.
        unsafe { bindings::ib_unregister_client(self.client.get()) };
        CURRENT.store(null_mut(), Relaxed);
    }
}

/// A device that the client uses.
struct Entry<C: Client> {
    device: Arc<Device>,
    data: Arc<C::Data>,
    events: Pin<KBox<DeviceEvents<Events<C>>>>,
}

impl<C: Client> Entry<C> {
    /// What may fail is done here, before anybody else knows the device.
    fn new(device: &Arc<Device>) -> Result<KBox<Self>> {
        let data = C::new_data(device)?;
        let live = Live::new(&device.enter()?, device)?;
        let events = KBox::pin_init(DeviceEvents::new(live, Events(data.clone())), GFP_KERNEL)?;
        let entry = Self {
            device: device.clone(),
            data,
            events,
        };

        Ok(KBox::new(entry, GFP_KERNEL)?)
    }
}

/// Passes the events of a device on to the client.
struct Events<C: Client>(Arc<C::Data>);

impl<C: Client> DeviceEventHandler for Events<C> {
    fn port_event(&self, port: u32, active: bool) {
        C::port_event(&self.0, port, active);
    }
}

/// Stops all use of a device. When this returns no kernel object is on it, and none can be
/// made.
fn retire<C: Client>(device: &Device, entry: Option<KBox<Entry<C>>>) {
    device.gate().close();

    let data = entry.map(|entry| {
        let Entry { data, events, .. } = KBox::into_inner(entry);

        // Waits for the handler if it runs, which it does not after this.
        drop(events);
        C::wake(&data);
        data
    });

    device.gate().drain();
    if let Some(data) = data {
        C::remove(data);
    }
    device.wait_idle();
}
