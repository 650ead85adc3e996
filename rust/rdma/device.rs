// SPDX-License-Identifier: GPL-2.0

//! RDMA devices.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::ptr::NonNull;

use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
    time::msecs_to_jiffies,
    types::Opaque,
};

use super::gate::{Gate, GateGuard};
use crate::bindings;

/// Bytes of a device's name, with the final NUL.
pub(crate) const DEVICE_NAME_MAX: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// An RDMA device.
///
/// It may outlive the registration of the device with the kernel: what is described here
/// can be read all the same, and [`Device::enter`] fails.
///
/// # Invariants
///
/// - `raw` points to a `struct ib_device`, on whose `struct device` a reference is held. It
///   was registered when this was made, so that what is set up by then stays valid.
/// - `live` is the number of kernel objects on the device plus one until
///   [`Device::wait_idle`] begins. It does not grow any more once it has been zero.
/// - While `live` is not zero, or somebody is inside `gate`, the device is registered and
///   its driver works for this module.
#[pin_data(PinnedDrop)]
pub(crate) struct Device {
    raw: NonNull<bindings::ib_device>,
    max_msg_size: u32,
    #[pin]
    gate: Gate,
    live: Atomic<i64>,
    #[pin]
    idle: Opaque<bindings::completion>,
}

// SAFETY: A reference on a device may be dropped by any thread.
unsafe impl Send for Device {}
// SAFETY: Fields which are read through `raw` are constant, but for the name: see `name`.
unsafe impl Sync for Device {}

impl Device {
    /// Takes a reference on a device. Allocates, may sleep.
    ///
    /// # Safety
    ///
    /// `raw` is a registered device, and stays so until `wait_idle` has returned.
    pub(super) unsafe fn new(raw: NonNull<bindings::ib_device>) -> Result<Arc<Self>> {
        // SAFETY: The caller says that the device is registered.
        let max_msg_size = unsafe { max_msg_size(raw)? };

        Arc::pin_init(
            try_pin_init!(Self {
                max_msg_size,
                gate <- Gate::new(),
                live: Atomic::new(1),
                idle <- Opaque::ffi_init(|slot: *mut bindings::completion| {
                    // SAFETY: `slot` is memory for a completion.
                    unsafe { bindings::init_completion(slot) }
                }),
                // Last, as nothing may fail after it: the reference is put by `drop`.
                raw: {
                    // SAFETY: The caller says that the device is there.
                    unsafe { bindings::ib_xrc_helper_get_device(raw.as_ptr()) };
                    raw
                },
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.raw.as_ptr()
    }

    /// Enters the device's gate: until the guard is dropped the device stays registered.
    /// Fails with `EIO` once it is being removed. Any context.
    pub(crate) fn enter(&self) -> Result<GateGuard<'_>> {
        self.gate.enter()
    }

    /// The gate, for whoever removes the device.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether the device is being removed or has been. Any context.
    pub(crate) fn is_removed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Name as in `rdma(8)`, filled up with NULs, of which there is at least one. A name that
    /// is read while the device is renamed may be a mixture of the two. Any context.
    pub(crate) fn name(&self) -> [u8; DEVICE_NAME_MAX] {
        let mut name = [0; DEVICE_NAME_MAX];

        // SAFETY: By the type invariants. The name of `struct device` is freed when it
        // changes; this is the core's copy of it, an array that stays where it is.
        let source = unsafe { &raw const (*self.as_raw()).name }.cast::<u8>();
        for (i, byte) in name.iter_mut().take(DEVICE_NAME_MAX - 1).enumerate() {
            // SAFETY: `i` is within the array. It may be written meanwhile: a volatile read
            // of a byte reads the old or the new one, as READ_ONCE() does.
            *byte = unsafe { source.add(i).read_volatile() };
            if *byte == 0 {
                break;
            }
        }
        name
    }

    /// Index as in `rdma(8)`. Any context.
    pub(crate) fn index(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).index }
    }

    /// `enum rdma_driver_id`. Any context.
    pub(crate) fn driver_id(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).ops.driver_id }
    }

    /// Node GUID, big endian in memory as on the wire. Any context.
    pub(crate) fn node_guid(&self) -> u64 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).node_guid }
    }

    /// Number of ports, which are numbered from 1. Any context.
    pub(crate) fn port_count(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).phys_port_cnt }
    }

    /// Work requests that a queue of a QP takes at most. Any context.
    pub(crate) fn max_qp_wr(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).attrs.max_qp_wr }
    }

    /// Entries that a CQ has at most. Any context.
    pub(crate) fn max_cqe(&self) -> u32 {
        // SAFETY: By the type invariants; it is constant.
        unsafe { (*self.as_raw()).attrs.max_cqe }
    }

    /// Bytes of a message at most, on any of its ports. Any context.
    pub(crate) fn max_msg_size(&self) -> u32 {
        self.max_msg_size
    }

    /// Whether its driver registers memory of a process for a user in the kernel. Any context.
    pub(super) fn can_reg_user_mr(&self) -> bool {
        // The core passes no `struct ib_udata`. Two drivers use it all the same, and one takes it to
        // mean that the memory is to be the kernel's.
        !matches!(
            self.driver_id(),
            bindings::RDMA_DRIVER_IRDMA | bindings::RDMA_DRIVER_MTHCA | bindings::RDMA_DRIVER_HNS
        )
    }

    /// Whether the device has a port of this number. Any context.
    pub(crate) fn is_port_valid(&self, port: u32) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_xrc_helper_rdma_is_port_valid(self.as_raw(), port) }
    }

    /// Whether the network name space of the calling task may use the device. Process
    /// context.
    pub(crate) fn accessible_from_current_netns(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_xrc_helper_rdma_dev_access_current_netns(self.as_raw()) }
    }

    /// Whether the calling task may use what needs `CAP_NET_RAW` on the device. Process
    /// context.
    pub(super) fn current_has_raw_cap(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_dev_has_raw_cap(self.as_raw()) }
    }

    /// Whether `raw` can have RC QPs that the kernel uses, and which are connected with no
    /// more than a modify. Any context.
    ///
    /// # Safety
    ///
    /// `raw` is a registered device.
    pub(super) unsafe fn can_do_rc(raw: NonNull<bindings::ib_device>) -> bool {
        // SAFETY: The caller says so.
        unsafe { bindings::ib_xrc_helper_can_do_rc(raw.as_ptr()) }
    }

    /// Waits until there are no kernel objects on the device any more. Sleeps. To be called
    /// once, after the gate has been closed and drained.
    pub(super) fn wait_idle(&self) {
        const PATIENCE_MS: u32 = 10_000;

        self.put_live();
        // SAFETY: By the type invariants it is an initialised completion.
        let left = unsafe {
            bindings::wait_for_completion_timeout(self.idle.get(), msecs_to_jiffies(PATIENCE_MS))
        };
        if left != 0 {
            return;
        }
        pr_err!(
            "removal of device {} waits for {} objects\n",
            self.index(),
            self.live.load(Relaxed)
        );
        // SAFETY: As above.
        unsafe { bindings::wait_for_completion(self.idle.get()) }
    }

    fn put_live(&self) {
        if self.live.fetch_sub(1, Full) == 1 {
            // SAFETY: By the type invariants it is an initialised completion.
            unsafe { bindings::complete_all(self.idle.get()) }
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Device {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants a reference is held, and this was the last use.
        unsafe { bindings::ib_xrc_helper_put_device(self.as_raw()) }
    }
}

/// A kernel object lives on a device: as long as this does, the device does not go.
///
/// # Invariants
///
/// The device's `live` counts it.
pub(super) struct Live(Arc<Device>);

impl Live {
    /// Fails with `EINVAL` if `gate` is not the device's.
    pub(super) fn new(gate: &GateGuard<'_>, device: &Arc<Device>) -> Result<Self> {
        if !gate.is_inside(&device.gate) {
            return Err(EINVAL);
        }
        // INVARIANT: As the caller is inside the gate, `wait_idle` has not begun.
        device.live.fetch_add(1, Relaxed);
        Ok(Self(device.clone()))
    }

    /// Another one.
    pub(super) fn again(&self) -> Self {
        // INVARIANT: It is not zero, as it counts `self`.
        self.0.live.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        &self.0
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.put_live();
    }
}

/// The least of what the ports take. Sleeps. Fails as the driver does.
///
/// # Safety
///
/// `raw` is a registered device.
unsafe fn max_msg_size(raw: NonNull<bindings::ib_device>) -> Result<u32> {
    let mut least = u32::MAX;

    // SAFETY: The caller says that the device is there; it is constant.
    let ports = unsafe { (*raw.as_ptr()).phys_port_cnt };

    for port in 1..=ports {
        let mut attr = bindings::ib_port_attr::default();

        // SAFETY: The caller says that the device is registered, and it has this port.
        to_result(unsafe { bindings::ib_query_port(raw.as_ptr(), port, &mut attr) })?;
        least = least.min(attr.max_msg_sz);
    }
    Ok(least)
}

/// For `void *` arguments of C functions.
pub(super) fn as_context<T>(context: *const T) -> *mut c_void {
    context.cast_mut().cast()
}
