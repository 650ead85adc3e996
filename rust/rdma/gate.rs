// SPDX-License-Identifier: GPL-2.0

//! The gate that every operation on a device passes.

use kernel::{
    new_srcu,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        srcu, Srcu,
    },
};

/// A door that closes once.
///
/// Whoever is inside may sleep. Entering takes no lock and writes to no memory that CPUs
/// share.
///
/// C header: [`include/linux/srcu.h`](srctree/include/linux/srcu.h)
#[pin_data]
pub(crate) struct Gate {
    closed: Atomic<bool>,
    #[pin]
    inside: Srcu,
}

impl Gate {
    /// Creates an open gate. Allocates, may sleep.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            closed: Atomic::new(false),
            inside <- new_srcu!("ib_xrc_gate"),
        })
    }

    /// Enters. Fails with `EIO` once the gate is closed. Any context.
    pub(crate) fn enter(&self) -> Result<GateGuard<'_>> {
        let inside = self.inside.read_lock();

        // A reader that `drain` does not wait for began after `drain` did, and SRCU orders
        // its load after the store of `close` before it.
        if self.closed.load(Relaxed) {
            return Err(EIO);
        }
        Ok(GateGuard {
            gate: self,
            _inside: inside,
        })
    }

    /// Lets nobody in any more. Any context.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Whether the gate is closed: a hint for those inside who wait for something. Any
    /// context.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Waits for those inside to leave. Sleeps; must not be called from inside.
    pub(crate) fn drain(&self) {
        self.inside.synchronize();
    }
}

/// Proof that one is inside a gate.
///
/// It belongs to the thread that entered.
#[must_use = "one leaves the gate at once if it is not used"]
pub(crate) struct GateGuard<'a> {
    gate: &'a Gate,
    _inside: srcu::Guard<'a>,
}

impl GateGuard<'_> {
    /// Whether one is inside `gate`, and not another one.
    pub(crate) fn is_inside(&self, gate: &Gate) -> bool {
        core::ptr::eq(self.gate, gate)
    }

    /// Whether the gate was closed after one entered: whoever waits inside should stop.
    pub(crate) fn is_closing(&self) -> bool {
        self.gate.is_closed()
    }
}
