// SPDX-License-Identifier: GPL-2.0

//! Where work runs that its cause cannot wait for.

use kernel::prelude::*;

use crate::linux::workqueue::Workqueue;

/// The workqueues of the module.
pub(crate) struct Workqueues {
    delivery: Workqueue,
    errors: Workqueue,
}

impl Workqueues {
    /// Makes them. Sleeps.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            delivery: Workqueue::new(c"ib_xrc_delivery")?,
            errors: Workqueue::new(c"ib_xrc_errors")?,
        })
    }

    /// For delivering messages, which may be as slow as a receiver's memory.
    pub(crate) fn delivery(&self) -> &Workqueue {
        &self.delivery
    }

    /// For putting TGT QPs in error, for which no receiver is waited for.
    pub(super) fn errors(&self) -> &Workqueue {
        &self.errors
    }

    /// Waits until no work is left. Sleeps.
    pub(super) fn drain(&self) {
        // Deliveries cause errors, not the other way round.
        self.delivery.drain();
        self.errors.drain();
    }
}
