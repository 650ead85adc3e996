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
/// Who modifies the QP, one at a time, enters the state; whoever sees it fail, in any context, notes
/// the error, which outweighs the state until a RESET. So none of the two is lost when they come at
/// the same time. All is in one word, so that everybody sees the changes in one order.
pub(crate) struct StateCell(Atomic<u64>);

/// What is in the word.
#[derive(Clone, Copy)]
struct Known {
    /// Counts the RESETs, from 1 on: an error that is told late does not hit the next connection.
    connection: u32,
    /// `enum ib_qp_state` that the QP was last modified to, 8 bits.
    state: u32,
    /// The first error of the connection, 24 bits; 0: none.
    error: u32,
}

impl Known {
    const STATE_SHIFT: u32 = 24;
    const STATE_MASK: u32 = 0xff;
    const ERROR_MASK: u32 = 0xff_ffff;

    fn unpack(word: u64) -> Self {
        // CAST: The two halves.
        let (connection, low) = ((word >> 32) as u32, word as u32);

        Self {
            connection,
            state: low >> Self::STATE_SHIFT,
            error: low & Self::ERROR_MASK,
        }
    }

    fn pack(self) -> u64 {
        let low =
            (self.state & Self::STATE_MASK) << Self::STATE_SHIFT | (self.error & Self::ERROR_MASK);

        u64::from(self.connection) << 32 | u64::from(low)
    }
}

impl StateCell {
    /// A QP in RESET.
    pub(crate) fn new() -> Self {
        let known = Known {
            connection: 1,
            state: RESET,
            error: 0,
        };

        Self(Atomic::new(known.pack()))
    }

    fn known(&self) -> Known {
        Known::unpack(self.0.load(Relaxed))
    }

    /// Makes what is known what `f` makes of it, unless that is nothing. Returns whether it did.
    fn update(&self, f: impl Fn(Known) -> Option<Known>) -> bool {
        let mut old = self.0.load(Relaxed);

        while let Some(new) = f(Known::unpack(old)) {
            match self.0.cmpxchg(old, new.pack(), Full) {
                Ok(_) => return true,
                Err(current) => old = current,
            }
        }
        false
    }

    /// `enum ib_qp_state`. Any context.
    pub(crate) fn get(&self) -> u32 {
        let known = self.known();

        if known.error != 0 {
            ERR
        } else {
            known.state
        }
    }

    /// Tells one connection of the QP from the next. Any context.
    pub(crate) fn connection(&self) -> u32 {
        self.known().connection
    }

    /// The error that the present connection has hit. Any context.
    pub(crate) fn error(&self) -> Option<u32> {
        let error = self.known().error;

        (error != 0).then_some(error)
    }

    /// Notes an error, which is not 0, of a connection. Returns whether it is the first: then
    /// somebody is to see to it. Any context.
    pub(crate) fn fail(&self, connection: u32, error: u32) -> bool {
        self.update(|known| {
            (known.connection == connection && known.error == 0).then_some(Known { error, ..known })
        })
    }

    /// The QP was modified to `state`. For whoever may modify it.
    pub(crate) fn entered(&self, state: u32) {
        self.update(|known| {
            Some(if state == RESET {
                // What is noted was of the old connection.
                Known {
                    connection: known.connection.wrapping_add(1),
                    state,
                    error: 0,
                }
            } else {
                Known { state, ..known }
            })
        });
    }
}
