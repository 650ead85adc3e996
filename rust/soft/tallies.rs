// SPDX-License-Identifier: GPL-2.0

//! Counting the messages of a TGT QP.

use crate::xrc::backend::Tally;

/// What became of the messages of a TGT QP.
#[derive(Default)]
pub(super) struct Tallies {
    /// The connection of the last message.
    connection: u32,
    /// Those of this connection.
    present: Tally,
    /// Those of earlier ones.
    earlier: Tally,
}

impl Tallies {
    /// A message of this connection has arrived.
    pub(super) fn arrived(&mut self, connection: u32) {
        if connection != self.connection {
            self.earlier = self.up_to(self.connection);
            self.present = Tally::default();
            self.connection = connection;
        }
        self.present.waiting = self.present.waiting.saturating_add(1);
    }

    /// That of a connection, from which a message has arrived.
    pub(super) fn of(&mut self, connection: u32) -> &mut Tally {
        if connection == self.connection {
            &mut self.present
        } else {
            &mut self.earlier
        }
    }

    /// All up to the end of a connection.
    pub(super) fn up_to(&self, connection: u32) -> Tally {
        if self.connection > connection {
            return self.earlier;
        }
        Tally {
            waiting: self.present.waiting.saturating_add(self.earlier.waiting),
            delivered: self
                .present
                .delivered
                .saturating_add(self.earlier.delivered),
        }
    }
}
