// SPDX-License-Identifier: GPL-2.0

//! To be told of what happens to a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::marker::PhantomPinned;

use kernel::{container_of, prelude::*, types::Opaque};

use super::device::Live;
use crate::bindings;

/// What wants to know the events of a device.
pub(super) trait DeviceEventHandler: Send + Sync {
    /// A port became active, or ceased to be. Process context; may sleep, but must not wait for
    /// the [`DeviceEvents`] to be made or dropped.
    fn port_event(&self, port: u32, active: bool);
}

/// A handler is told of a device's events for as long as this lives.
///
/// Dropping it sleeps, and waits for the handler if it runs. It does not run after that.
///
/// # Invariants
///
/// `raw` is registered on the device, which `live` keeps.
#[pin_data(PinnedDrop)]
pub(super) struct DeviceEvents<H: DeviceEventHandler> {
    #[pin]
    raw: Opaque<bindings::ib_event_handler>,
    handler: H,
    _live: Live,
    /// The handler finds `handler` by the address of `raw`.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: A handler may be unregistered by any thread; `H` is `Send`.
unsafe impl<H: DeviceEventHandler> Send for DeviceEvents<H> {}
// SAFETY: There is nothing to be done with a shared reference; `H` is `Sync`.
unsafe impl<H: DeviceEventHandler> Sync for DeviceEvents<H> {}

impl<H: DeviceEventHandler> DeviceEvents<H> {
    /// Has `handler` told of the events of the device that `live` keeps. Sleeps.
    pub(super) fn new(live: Live, handler: H) -> impl PinInit<Self> {
        let device = live.device().as_raw();

        pin_init!(Self {
            handler,
            _live: live,
            _pin: PhantomPinned,
            // Last, as `handle` may run from now on.
            raw <- Opaque::ffi_init(move |slot: *mut bindings::ib_event_handler| {
                // SAFETY: `slot` is memory for a handler, pinned, and `live` keeps the device,
                // for longer than `drop` has unregistered the handler.
                unsafe {
                    bindings::ib_xrc_helper_init_ib_event_handler(
                        slot,
                        device,
                        Some(Self::handle),
                    );
                    bindings::ib_register_event_handler(slot);
                }
            }),
        })
    }

    /// # Safety
    ///
    /// Called by the core while `raw` is registered: it is that of a `DeviceEvents<H>`, and
    /// `event` is valid.
    unsafe extern "C" fn handle(
        raw: *mut bindings::ib_event_handler,
        event: *mut bindings::ib_event,
    ) {
        // SAFETY: By the requirement of this function. `Opaque` is transparent.
        let this = unsafe { container_of!(raw.cast::<Opaque<_>>(), Self, raw) };
        // SAFETY: `drop` waits for this function before anything of it goes. All that is
        // borrowed here was initialised before `raw` was.
        let handler = unsafe { &(*this).handler };
        // SAFETY: By the requirement of this function.
        let event = unsafe { &*event };

        let active = match event.event {
            bindings::IB_EVENT_PORT_ACTIVE => true,
            bindings::IB_EVENT_PORT_ERR => false,
            _ => return,
        };

        // SAFETY: Events of a port have its number.
        handler.port_event(unsafe { event.element.port_num }, active);
    }
}

#[pinned_drop]
impl<H: DeviceEventHandler> PinnedDrop for DeviceEvents<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants. This waits until no handler of the device runs.
        unsafe { bindings::ib_unregister_event_handler(self.raw.get()) }
    }
}
