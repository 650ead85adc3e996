// SPDX-License-Identifier: GPL-2.0

//! The state of a QP which may fail at any moment.

use kernel::sync::atomic::{
    ordering::{
        Full,
        Relaxed, //
    },
    Atomic, //
};

/// `IB_QPS_RESET`
pub(crate) const RESET: u32 = 0;
/// `IB_QPS_ERR`
pub(crate) const ERR: u32 = 6;

/// What is known of a QP's state without asking the device.
///
/// Who modifies the QP, one at a time, writes the state; whoever sees it fail, in any context, notes
/// the error, which outweighs the state until a RESET. So none of the two is lost when they come at
/// the same time.
pub(crate) struct StateCell {
    /// `enum ib_qp_state` that the QP was last modified to.
    state: Atomic<u32>,
    /// Counts the RESETs, from 1 on: an error that is told late does not hit the next connection.
    connection: Atomic<u32>,
    /// The first error, with the connection that it hit in the upper half.
    error: Atomic<u64>,
}

impl StateCell {
    /// A QP in RESET.
    pub(crate) fn new() -> Self {
        Self {
            state: Atomic::new(RESET),
            connection: Atomic::new(1),
            error: Atomic::new(0),
        }
    }

    /// `enum ib_qp_state`. Any context.
    pub(crate) fn get(&self) -> u32 {
        match self.error() {
            Some(_) => ERR,
            None => self.state.load(Relaxed),
        }
    }

    /// Tells one connection of the QP from the next. Any context.
    pub(crate) fn connection(&self) -> u32 {
        self.connection.load(Relaxed)
    }

    /// The error that the present connection has hit. Any context.
    pub(crate) fn error(&self) -> Option<u32> {
        let error = self.error.load(Relaxed);

        // CAST: The two halves.
        (error >> 32 == u64::from(self.connection())).then_some(error as u32)
    }

    /// Notes an error of a connection. Returns whether it is the first: then somebody is to see to
    /// it. Any context.
    pub(crate) fn fail(&self, connection: u32, error: u32) -> bool {
        let new = u64::from(connection) << 32 | u64::from(error);
        let mut old = self.error.load(Relaxed);

        loop {
            if connection != self.connection() || old >> 32 == u64::from(connection) {
                return false;
            }
            match self.error.cmpxchg(old, new, Full) {
                Ok(_) => return true,
                Err(current) => old = current,
            }
        }
    }

    /// The QP was modified to `state`. For whoever may modify it.
    pub(crate) fn entered(&self, state: u32) {
        self.state.store(state, Relaxed);
        if state == RESET {
            // What is noted was of the old connection. After the state, which would otherwise seem
            // to be the one before the error.
            let _ = self.connection.fetch_add(1u32, Full);
        }
    }
}
