// SPDX-License-Identifier: GPL-2.0

//! The device.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
        Mutex, MutexGuard,
    },
};

use kernel::{prelude::*, sync::Arc};
use loom::{cell::UnsafeCell, sync::Condvar};

use super::super::gate::{Gate, GateGuard};

/// An RDMA device.
///
/// What it remembers for the checks is in std's types: those are no steps to loom, and order
/// nothing.
pub(crate) struct Device {
    gate: Gate,
    /// QPs on it; as `rdma::Device::live`.
    live: loom::sync::Mutex<u32>,
    idle: Condvar,
    /// Used by whoever is inside the gate or has a QP, and freed when it goes.
    memory: Memory,
    /// Numbers of its QPs.
    qps: Mutex<BTreeSet<u32>>,
    /// `TgtQp`s in memory.
    pub(super) tgt_qps: AtomicU32,
}

impl Device {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::new().init().expect("there is memory"),
            live: loom::sync::Mutex::new(0),
            idle: Condvar::new(),
            memory: Memory::default(),
            qps: Mutex::default(),
            tgt_qps: AtomicU32::new(0),
        })
    }

    /// Enters the gate.
    pub(crate) fn enter(&self) -> Result<GateGuard<'_>> {
        let gate = self.gate.enter()?;

        self.memory.access();
        Ok(gate)
    }

    /// As `retire` in `rdma/client.rs`: `remove` is `Client::remove`.
    pub(crate) fn retire(&self, remove: impl FnOnce()) {
        self.gate.close();
        self.gate.drain();
        remove();
        self.wait_idle();
        assert!(self.qps().is_empty(), "a QP outlives its device");
        self.memory.free();
    }

    fn wait_idle(&self) {
        let mut live = self.live.lock().expect("nobody has panicked");

        while *live != 0 {
            live = self.idle.wait(live).expect("nobody has panicked");
        }
    }

    fn qps(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.qps.lock().expect("nobody has panicked")
    }

    /// Nothing is left.
    pub(super) fn check_unused(&self) {
        assert!(self.qps().is_empty(), "a QP was not destroyed");
        assert_eq!(self.tgt_qps.load(SeqCst), 0, "a TgtQp was not freed");
    }
}

/// A QP of the device.
pub(super) struct Hw {
    device: Arc<Device>,
    num: u32,
}

impl Hw {
    /// Makes one, of the lowest number that is free.
    pub(super) fn new(device: &Arc<Device>, gate: &GateGuard<'_>) -> Self {
        assert!(gate.is_inside(&device.gate));
        device.memory.access();
        *device.live.lock().expect("nobody has panicked") += 1;

        let mut qps = device.qps();
        let num = (1..).find(|num| !qps.contains(num)).expect("one is free");

        qps.insert(num);
        Self {
            device: device.clone(),
            num,
        }
    }

    pub(super) fn num(&self) -> u32 {
        self.num
    }

    /// Uses it.
    pub(super) fn access(&self) {
        assert!(self.device.qps().contains(&self.num), "use after destroy");
        self.device.memory.access();
    }
}

impl Drop for Hw {
    fn drop(&mut self) {
        self.device.memory.access();
        assert!(self.device.qps().remove(&self.num), "destroyed twice");

        let mut live = self.device.live.lock().expect("nobody has panicked");

        *live -= 1;
        if *live == 0 {
            self.device.idle.notify_all();
        }
    }
}

/// loom sees whether accesses are ordered before the freeing, also by the memory model.
#[derive(Default)]
struct Memory {
    cell: UnsafeCell<()>,
    is_freed: AtomicBool,
}

// SAFETY: Nobody uses the pointers.
unsafe impl Sync for Memory {}

impl Memory {
    fn access(&self) {
        assert!(!self.is_freed.load(SeqCst), "use of a device that is gone");
        self.cell.with(|_| ());
    }

    fn free(&self) {
        self.cell.with_mut(|_| ());
        self.is_freed.store(true, SeqCst);
    }
}
