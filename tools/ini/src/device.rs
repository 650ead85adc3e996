// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A device opened with libibverbs.

use std::{
    ffi::{c_int, CStr},
    fmt,
    ptr::NonNull,
    sync::Arc,
};

use ibxrc::verbs::*;

use crate::{
    gid::{find_gid_of, GidEntry},
    Error, Result,
};

/// More than this is of no use to anybody.
const MAX_RD_ATOMIC: i32 = 16;

/// # Invariants
///
/// The pointers are of libibverbs, and open.
pub(crate) struct Opened {
    pub(crate) context: NonNull<ibv_context>,
    pub(crate) pd: NonNull<ibv_pd>,
    pub(crate) port: u8,
    pub(crate) gid: GidEntry,
    pub(crate) lid: u16,
    pub(crate) mtu: u32,
    pub(crate) rd_atomic: u8,
    name: String,
}

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for Opened {}
// SAFETY: As above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: Type invariant; whoever uses them keeps `self`.
        unsafe {
            ibv_dealloc_pd(self.pd.as_ptr());
            ibv_close_device(self.context.as_ptr());
        }
    }
}

/// A device opened with libibverbs, with a protection domain, on one port. Clones
/// share it.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Opened>);

impl Device {
    /// Opens the device of this name, on a port (from 1) with a RoCE v2 GID that has an
    /// IPv4 address.
    pub fn open(name: &str, port: u8) -> Result<Self> {
        let gid = find_gid_of(name, port)?;
        let context = open_by_name(name)?;
        // SAFETY: Just opened.
        let pd = unsafe { ibv_alloc_pd(context.as_ptr()) };
        let Some(pd) = NonNull::new(pd) else {
            let error = Error::last("allocate a protection domain");
            // SAFETY: Just opened.
            unsafe { ibv_close_device(context.as_ptr()) };
            return Err(error);
        };
        // INVARIANT: Just opened.
        let mut opened = Opened {
            context,
            pd,
            port,
            gid,
            lid: 0,
            mtu: IBV_MTU_1024,
            rd_atomic: 0,
            name: name.to_string(),
        };
        let mut attr = ibv_port_attr::default();
        // SAFETY: The function writes the part that all versions of the structure have
        // in common.
        let errno = unsafe { ibv_query_port(context.as_ptr(), port, (&raw mut attr).cast()) };
        if errno != 0 {
            return Err(Error::returned("query the port", errno));
        }
        opened.lid = attr.lid;
        opened.mtu = attr.active_mtu;
        let mut attr = ibv_device_attr::default();
        // SAFETY: It writes `attr`.
        let errno = unsafe { ibv_query_device(context.as_ptr(), &mut attr) };
        if errno != 0 {
            return Err(Error::returned("query the device", errno));
        }
        let most = attr.max_qp_rd_atom.min(attr.max_qp_init_rd_atom);
        opened.rd_atomic = most.clamp(0, MAX_RD_ATOMIC) as u8;
        Ok(Device(Arc::new(opened)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The port.
    pub fn port(&self) -> u8 {
        self.0.port
    }

    /// The port's GID, and its index.
    pub fn gid(&self) -> GidEntry {
        self.0.gid
    }

    /// The port's LID; 0 on RoCE.
    pub fn lid(&self) -> u16 {
        self.0.lid
    }

    /// The port's MTU: `enum ibv_mtu`.
    pub fn mtu(&self) -> u32 {
        self.0.mtu
    }

    /// How many RDMA READs and atomics of a QP may be outstanding, in both directions.
    pub fn rd_atomic(&self) -> u8 {
        self.0.rd_atomic
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}

fn open_by_name(name: &str) -> Result<NonNull<ibv_context>> {
    let mut n: c_int = 0;
    // SAFETY: It writes `n`.
    let list = unsafe { ibv_get_device_list(&mut n) };
    if list.is_null() {
        return Err(Error::last("list the devices of libibverbs"));
    }
    // SAFETY: It has `n` elements until it is freed.
    let devices = unsafe { std::slice::from_raw_parts(list, n.max(0) as usize) };
    let device = devices.iter().find(|device| {
        // SAFETY: Devices of the list are good, and have a name.
        let found = unsafe { CStr::from_ptr(ibv_get_device_name(**device)) };
        found.to_bytes() == name.as_bytes()
    });
    let context = match device {
        // SAFETY: A device of the list.
        Some(device) => NonNull::new(unsafe { ibv_open_device(*device) })
            .ok_or_else(|| Error::last("open the device with libibverbs")),
        None => Err(Error::NoDevice {
            name: name.to_string(),
        }),
    };
    // SAFETY: Of `ibv_get_device_list`; an open device does not need it.
    unsafe { ibv_free_device_list(list) };
    context
}
