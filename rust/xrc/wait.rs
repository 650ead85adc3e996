// SPDX-License-Identifier: GPL-2.0

//! How long a call may wait.

use kernel::{
    prelude::*,
    time::NSEC_PER_MSEC, //
};

use crate::{
    linux::sleep::{
        fatal_signal_pending,
        sleep_killable, //
    },
    rdma::gate::GateGuard, //
};

use super::linger::now_ns;

/// The time by which a call is to be over, on the clock of [`now_ns`].
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<i64>);

/// Milliseconds as nanoseconds.
fn to_ns(ms: u32) -> i64 {
    i64::from(ms).saturating_mul(NSEC_PER_MSEC)
}

impl Deadline {
    /// The caller waits for as long as it takes.
    pub(crate) const NEVER: Self = Self(None);

    /// So many milliseconds from now.
    pub(crate) fn after_ms(ms: u32) -> Self {
        Self(Some(now_ns().saturating_add(to_ns(ms))))
    }

    /// So much later.
    pub(crate) fn extended_ms(self, ms: u32) -> Self {
        Self(self.0.map(|at_ns| at_ns.saturating_add(to_ns(ms))))
    }

    fn check(self) -> Result {
        match self.0 {
            Some(at_ns) if now_ns() >= at_ns => Err(ETIMEDOUT),
            _ => Ok(()),
        }
    }

    /// Whether a call that has not reached its end may go on. `ETIMEDOUT`, `EINTR`, `EIO`: see
    /// [`poll`](Self::poll).
    pub(crate) fn proceed(self, gate: &GateGuard<'_>) -> Result {
        if gate.is_closing() {
            return Err(EIO);
        }
        if fatal_signal_pending() {
            return Err(EINTR);
        }
        self.check()
    }

    /// Asks `poll` about every millisecond until it has something. Sleeps.
    ///
    /// `ETIMEDOUT`: the time has passed. `EINTR`: a fatal signal came. `EIO`: the device goes.
    pub(crate) fn poll<T>(
        self,
        gate: &GateGuard<'_>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        loop {
            if let Some(result) = poll() {
                return Ok(result);
            }
            self.proceed(gate)?;
            sleep_killable();
        }
    }
}
