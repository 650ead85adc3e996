// SPDX-License-Identifier: GPL-2.0

//! What the rings need of the module's core.

pub(crate) mod backend {
    use crate::{bindings, linux::shared_memory::SharedMemory};

    /// As the module's.
    pub(crate) trait Cq: super::removal::RemovalListener {
        fn ring(&self) -> &SharedMemory;
        fn ring_info(&self, mmap_offset: u64) -> bindings::ib_xrc_ring_info;
    }
}

pub(crate) mod comp_channel {
    use std::sync::mpsc::Sender;

    /// As the module's; what it tells goes to a test.
    pub(crate) struct CqNotifier(pub(crate) Sender<()>);

    impl CqNotifier {
        pub(crate) fn notify(&self) {
            // A test that is over does not listen.
            let _ = self.0.send(());
        }
    }
}

pub(crate) mod removal {
    /// As the module's.
    pub(crate) trait RemovalListener: Send + Sync {
        fn device_removed(&self);
    }
}
