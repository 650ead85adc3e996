// SPDX-License-Identifier: GPL-2.0

//! A misc device whose node has a path and a mode.
//!
//! [`MiscDeviceRegistration`] of the kernel crate makes `/dev/<name>`, mode 0600, and leaves the
//! rest to udev. A device that everybody may open needs both said to devtmpfs.
//!
//! C header: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h)

use core::marker::PhantomData;

use kernel::{
    error::to_result,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    prelude::*,
    types::Opaque, //
};

use crate::bindings;

/// What a device is called and who may open it.
#[derive(Copy, Clone)]
pub(crate) struct Options {
    /// Name of the device, as in `/sys/class/misc`.
    pub(crate) name: &'static CStr,
    /// Path of its node below `/dev`.
    pub(crate) nodename: &'static CStr,
    /// Permissions of the node, `0o666` and the like.
    pub(crate) mode: u16,
}

/// A registered character device.
///
/// # Invariants
///
/// `inner` is a `struct miscdevice` made by [`MiscDeviceOptions::into_raw`] for `T`, and is
/// registered for as long as `self` lives.
#[repr(transparent)]
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: MiscDevice> {
    #[pin]
    inner: Opaque<bindings::miscdevice>,
    _t: PhantomData<T>,
}

// SAFETY: `misc_deregister()` may be called on another thread than `misc_register()`. There is no
// value of `T` in here.
unsafe impl<T: MiscDevice> Send for Registration<T> {}
// SAFETY: There are no `&self` methods.
unsafe impl<T: MiscDevice> Sync for Registration<T> {}

// `MiscDevice::open()` is given a `&MiscDeviceRegistration<T>`, which the kernel crate makes by a
// cast from the `struct miscdevice`. That is right as long as there is nothing else in it.
const _: () = assert!(
    size_of::<MiscDeviceRegistration<()>>() == size_of::<bindings::miscdevice>(),
    "MiscDeviceRegistration is more than its miscdevice"
);

impl<T: MiscDevice> Registration<T> {
    /// Registers the device: from now on it can be opened.
    ///
    /// Fails with `EEXIST` if the name is taken, `EBUSY` if there is no free minor number, `ENOMEM`.
    /// Sleeps, as does dropping the registration. Files which are open by then keep working: they
    /// hold the module.
    pub(crate) fn register(options: Options) -> impl PinInit<Self, Error> {
        let misc = MiscDeviceOptions { name: options.name };

        try_pin_init!(Self {
            // INVARIANT: If this succeeds the device is registered.
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::miscdevice| {
                let mut raw = misc.into_raw::<T>();

                raw.nodename = options.nodename.as_char_ptr();
                raw.mode = options.mode;

                // SAFETY: The initializer may write to `slot`.
                unsafe { slot.write(raw) };

                // SAFETY: `slot` is initialized. It is pinned, and deregistered before it goes.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
            _t: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T: MiscDevice> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant the device is registered.
        unsafe { bindings::misc_deregister(self.inner.get()) };
    }
}
