// SPDX-License-Identifier: GPL-2.0

//! How long a call may wait.

use kernel::{
    prelude::*,
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};

use crate::{
    linux::sleep::{
        fatal_signal_pending,
        sleep_killable, //
    },
    rdma::gate::GateGuard, //
};

/// The time by which a call is to be over.
///
/// Times are nanoseconds since boot in 63 bits, and what is added to one is less than 50 days: their
/// sums and differences do not overflow within centuries.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant<Monotonic>>);

impl Deadline {
    /// The caller waits for as long as it takes.
    pub(crate) const NEVER: Self = Self(None);

    /// So many milliseconds from now.
    #[expect(clippy::arithmetic_side_effects, reason = "see the type")]
    pub(crate) fn after_ms(ms: u32) -> Self {
        Self(Some(
            Instant::<Monotonic>::now() + Delta::from_millis(ms.into()),
        ))
    }

    /// So much later.
    #[expect(clippy::arithmetic_side_effects, reason = "see the type")]
    pub(crate) fn extended_ms(self, ms: u32) -> Self {
        Self(self.0.map(|at| at + Delta::from_millis(ms.into())))
    }

    #[expect(clippy::arithmetic_side_effects, reason = "see the type")]
    fn check(self) -> Result {
        match self.0 {
            Some(at) if (Instant::<Monotonic>::now() - at) >= Delta::ZERO => Err(ETIMEDOUT),
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
