// SPDX-License-Identifier: GPL-2.0

//! MRs of the soft backend: those of the device, in the domain's PD.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

use crate::{
    rdma::{
        gate::GateGuard,
        mr::{
            Mr,
            Pinnable, //
        }, //
    },
    xrc::backend, //
};

use super::domain::SoftDomain;

/// An MR on the soft backend. The domain knows it until it is closed.
#[pin_data]
pub(crate) struct SoftMr {
    domain: Arc<SoftDomain>,
    /// Tells it from the domain's others.
    id: u64,
    rkey: u32,
    /// Gone with the device.
    #[pin]
    mr: Mutex<Option<Mr>>,
}

impl SoftMr {
    /// Registers memory of the calling process. Sleeps.
    pub(super) fn new(
        domain: &Arc<SoftDomain>,
        gate: &GateGuard<'_>,
        memory: Pinnable<'_>,
    ) -> Result<Arc<Self>> {
        let mr = Mr::new(gate, &domain.pd()?, memory)?;
        let mr = Arc::pin_init(
            pin_init!(Self {
                domain: domain.clone(),
                id: domain.next_mr_id(),
                rkey: mr.rkey(),
                mr <- new_mutex!(Some(mr), "SoftMr::mr"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;

        domain.add_mr(mr.id, &mr)?;
        Ok(mr)
    }

    /// Deregisters it, unless somebody did. Sleeps.
    pub(super) fn deregister(&self) {
        let mr = self.mr.lock().take();

        drop(mr);
    }
}

impl backend::Mr for SoftMr {
    fn rkey(&self) -> u32 {
        self.rkey
    }

    fn close(&self) {
        self.domain.remove_mr(self.id);
        self.deregister();
    }
}
