// SPDX-License-Identifier: GPL-2.0

//! A device that domains can be opened on.

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Mutex, //
    },
};

use crate::{
    bindings,
    linux::inode::{
        InodeKey,
        InodeRef, //
    },
    rdma::{
        device::Device,
        gate::GateGuard, //
    },
};

use super::{
    backend::Backend,
    domain::Domain,
    policy::Policy,
    removal::RemovalListeners,
    srq_num::SrqNums,
    workqueues::Workqueues, //
};

/// What every object of a device may need.
pub(crate) struct Services {
    device: Arc<Device>,
    workqueues: Arc<Workqueues>,
    srq_nums: Arc<SrqNums>,
    removal: Arc<RemovalListeners>,
}

impl Services {
    fn new(device: Arc<Device>, workqueues: Arc<Workqueues>) -> Result<Arc<Self>> {
        let services = Self {
            device,
            workqueues,
            srq_nums: Arc::pin_init(SrqNums::new(), GFP_KERNEL)?,
            removal: Arc::pin_init(RemovalListeners::new(), GFP_KERNEL)?,
        };

        Ok(Arc::new(services, GFP_KERNEL)?)
    }

    /// The RDMA device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Where work runs that its cause cannot wait for; drained before the module goes.
    pub(crate) fn workqueues(&self) -> &Workqueues {
        &self.workqueues
    }

    /// The SRQ numbers in use.
    pub(crate) fn srq_nums(&self) -> &Arc<SrqNums> {
        &self.srq_nums
    }

    /// Who is told of the removal.
    pub(crate) fn removal(&self) -> &Arc<RemovalListeners> {
        &self.removal
    }
}

/// How a domain is found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DomainKey {
    Inode(InodeKey),
    /// Never looked for; the number keeps the keys apart.
    Anonymous(u64),
}

struct DomainEntry<B: Backend> {
    domain: Arc<Domain<B>>,
    /// XRCD handles open on it.
    handles: u32,
}

struct Domains<B: Backend> {
    tree: RBTree<DomainKey, DomainEntry<B>>,
    next_anonymous: u64,
}

/// A handle on a domain; the domain goes with the last.
///
/// # Invariants
///
/// It is counted in the `handles` of the domain's entry, unless the device was removed.
pub(crate) struct DomainHandle<B: Backend> {
    xrc_device: Arc<XrcDevice<B>>,
    domain: Arc<Domain<B>>,
    key: DomainKey,
}

/// A device and its domains.
#[pin_data]
pub(crate) struct XrcDevice<B: Backend> {
    services: Arc<Services>,
    /// Taken for lookups and counting only, never while hardware is touched.
    #[pin]
    domains: Mutex<Domains<B>>,
}

impl<B: Backend> XrcDevice<B> {
    /// A device without domains. Sleeps.
    pub(crate) fn new(device: Arc<Device>, workqueues: Arc<Workqueues>) -> Result<Arc<Self>> {
        let services = Services::new(device, workqueues)?;

        Arc::pin_init(
            pin_init!(Self {
                services,
                domains <- new_mutex!(
                    Domains {
                        tree: RBTree::new(),
                        next_anonymous: 0,
                    },
                    "XrcDevice::domains"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// What the objects of the device need.
    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// The RDMA device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.services.device
    }

    /// The device as userspace sees it.
    pub(crate) fn info(&self) -> bindings::ib_xrc_device_info {
        let device = self.device();

        bindings::ib_xrc_device_info {
            name: device.name(),
            node_guid: device.node_guid(),
            index: device.index(),
            driver_id: device.driver_id(),
            phys_port_cnt: device.port_count(),
            flags: B::DEVICE_FLAGS,
            abi_version: bindings::IB_XRC_ABI_VERSION,
            reserved: 0,
        }
    }

    /// Opens the domain of `inode`, or a new anonymous one. Sleeps.
    ///
    /// The errnos are those of `ib_uverbs_open_xrcd()` in `drivers/infiniband/core/uverbs_cmd.c`:
    /// `EAGAIN` if the inode has no domain and `O_CREAT` is not in `oflags`, `EINVAL` if it has
    /// one and `O_EXCL` is. `EEXIST` if its policy is not `policy`, `EACCES` if the file was not
    /// opened in a mode that allows it.
    pub(crate) fn open_domain(
        self: &Arc<Self>,
        gate: &GateGuard<'_>,
        inode: Option<InodeRef>,
        oflags: u32,
        policy: Option<Policy>,
    ) -> Result<DomainHandle<B>> {
        let named = inode.as_ref().map(|inode| DomainKey::Inode(inode.key()));

        if let (Some(key), Some(inode)) = (named, &inode) {
            if !inode.is_readable() {
                return Err(EACCES);
            }
            if let Some(handle) = self.find_domain(&mut self.domains.lock(), key, oflags, policy)? {
                return Ok(handle);
            }
            if oflags & bindings::O_CREAT == 0 {
                return Err(EAGAIN);
            }
            // Else anybody could make it first, for those who cannot be kept from reading the file.
            if !inode.is_writable() && (policy.is_some() || !inode.is_owner()) {
                return Err(EACCES);
            }
        }

        // Made without the lock, since it touches hardware; if somebody else was faster, theirs
        // counts and this one is dropped again.
        let domain = Domain::new(&self.services, gate, inode, policy.unwrap_or_default())?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut domains = self.domains.lock();
        let key = match named {
            Some(key) => {
                if let Some(handle) = self.find_domain(&mut domains, key, oflags, policy)? {
                    return Ok(handle);
                }
                key
            }
            None => {
                let number = domains.next_anonymous;

                domains.next_anonymous = number.wrapping_add(1);
                DomainKey::Anonymous(number)
            }
        };
        let entry = DomainEntry {
            domain: domain.clone(),
            handles: 1,
        };

        domains.tree.insert(node.into_node(key, entry));
        drop(domains);

        // INVARIANT: The entry was made with one handle.
        Ok(DomainHandle {
            xrc_device: self.clone(),
            domain,
            key,
        })
    }

    fn find_domain(
        self: &Arc<Self>,
        domains: &mut Domains<B>,
        key: DomainKey,
        oflags: u32,
        policy: Option<Policy>,
    ) -> Result<Option<DomainHandle<B>>> {
        let Some(entry) = domains.tree.get_mut(&key) else {
            return Ok(None);
        };

        if oflags & bindings::O_EXCL != 0 {
            return Err(EINVAL);
        }
        if policy.is_some_and(|policy| policy != *entry.domain.policy()) {
            return Err(EEXIST);
        }

        entry.handles = entry.handles.checked_add(1).ok_or(EOVERFLOW)?;

        // INVARIANT: Just counted.
        Ok(Some(DomainHandle {
            xrc_device: self.clone(),
            domain: entry.domain.clone(),
            key,
        }))
    }

    /// The device goes: tears everything on it down. Called once the gate is closed and nobody
    /// is inside. Sleeps, but never waits for userspace.
    pub(crate) fn remove(&self) {
        // One at a time, so that no memory is needed.
        while let Some(entry) = self.pop_domain() {
            entry.domain.remove();
        }
        self.services.removal.device_removed();
    }

    fn pop_domain(&self) -> Option<DomainEntry<B>> {
        let mut domains = self.domains.lock();
        let (_, node) = domains.tree.cursor_front_mut()?.remove_current();

        Some(node.to_key_value().1)
    }
}

impl<B: Backend> DomainHandle<B> {
    /// The domain.
    pub(crate) fn domain(&self) -> &Arc<Domain<B>> {
        &self.domain
    }

    /// How many handles the domain has; 0 if the device is gone.
    pub(crate) fn count(&self) -> u32 {
        match self.xrc_device.domains.lock().tree.get(&self.key) {
            Some(entry) => entry.handles,
            None => 0,
        }
    }
}

impl<B: Backend> Drop for DomainHandle<B> {
    fn drop(&mut self) {
        let mut domains = self.xrc_device.domains.lock();

        // INVARIANT: Without an entry the device was removed, and the domain with it.
        let Some(entry) = domains.tree.get_mut(&self.key) else {
            return;
        };

        entry.handles = entry.handles.saturating_sub(1);
        if entry.handles != 0 {
            return;
        }

        let node = domains.tree.remove_node(&self.key);

        // What the domain has on the device goes here, outside the lock.
        drop(domains);
        drop(node);
        self.domain.close();
    }
}
