// SPDX-License-Identifier: GPL-2.0

//! Who is told when a device goes, and meanwhile of its ports.

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        Arc,
        Mutex, //
    },
};

/// Something that userspace may be waiting on, or looking at, when the device goes.
pub(crate) trait RemovalListener: Send + Sync {
    /// The device is gone. Must not sleep for long, and is called once at most.
    fn device_removed(&self);

    /// A port became active, or ceased to be. Must not sleep for long.
    fn port_event(&self, _port: u32, _active: bool) {}
}

/// The listeners of a device.
#[pin_data]
pub(crate) struct RemovalListeners {
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    listeners: RBTree<u64, Arc<dyn RemovalListener>>,
    next_id: u64,
    removed: bool,
}

impl RemovalListeners {
    /// Nobody listens.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(
                Inner {
                    listeners: RBTree::new(),
                    next_id: 0,
                    removed: false,
                },
                "RemovalListeners::inner"
            ),
        })
    }

    /// Has `listener` told, until the returned guard is dropped. `EIO`: the device is gone.
    pub(crate) fn listen(
        listeners: &Arc<Self>,
        listener: Arc<dyn RemovalListener>,
    ) -> Result<Listening> {
        let mut inner = listeners.inner.lock();

        if inner.removed {
            return Err(EIO);
        }

        let id = inner.next_id;

        inner
            .listeners
            .try_create_and_insert(id, listener, GFP_KERNEL_ACCOUNT)?;
        inner.next_id = id.wrapping_add(1);
        drop(inner);

        Ok(Listening {
            listeners: listeners.clone(),
            id,
        })
    }

    /// Tells everybody of a port. Sleeps.
    pub(crate) fn port_event(&self, port: u32, active: bool) {
        for listener in self.inner.lock().listeners.values() {
            listener.port_event(port, active);
        }
    }

    /// Tells everybody of the removal. Sleeps.
    pub(crate) fn device_removed(&self) {
        let mut inner = self.inner.lock();

        inner.removed = true;
        for listener in inner.listeners.values() {
            listener.device_removed();
        }
    }
}

/// A listener is told while this exists.
pub(crate) struct Listening {
    listeners: Arc<RemovalListeners>,
    id: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let node = self.listeners.inner.lock().listeners.remove_node(&self.id);

        // The listener may be freed here, outside the lock.
        drop(node);
    }
}
