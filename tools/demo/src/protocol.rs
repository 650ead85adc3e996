// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What the story and its processes say to each other: a line of JSON each.

use ibxrc_ini::Address;
use serde::{Deserialize, Serialize};

/// An order of the story. The process answers each with one report; it exits when
/// there are no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// To A: create a TGT QP and connect it to the sender's QP. To S: connect to the
    /// TGT QP.
    Connect(Address),
    /// To B and C: register with the TGT QP of this number.
    Register { qp_num: u32 },
    /// To B and C: receive the next messages of your stream.
    Receive { messages: u64 },
    /// To S: send messages, in an order of your own choice.
    Send(Vec<Target>),
}

/// One receiver and how many messages it shall get.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Number of its stream of messages.
    pub stream: u32,
    /// Number of its SRQ.
    pub srq_num: u32,
    /// How many messages.
    pub messages: u64,
}

/// What a process reports: once when it is ready, then for each order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A is ready.
    Ready,
    /// B or C is ready, and waits for messages on this SRQ.
    Listening { srq_num: u32 },
    /// S is ready; its QP has this address.
    Address(Address),
    /// A: the TGT QP is connected, and has this address. S: connected.
    Connected(Option<Address>),
    /// B or C: so many are registered with the TGT QP now.
    Registered { refs: u32 },
    /// B or C: everything came as it should.
    Received(Traffic),
    /// S: everything was acknowledged.
    Sent(Traffic),
    /// It did not work.
    Failed(String),
}

/// What was sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Of these, with immediate data.
    pub with_imm: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Bytes of the longest.
    pub longest: u32,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Traffic {
    /// Counts a message.
    pub fn add(&mut self, len: u32, with_imm: bool) {
        self.messages += 1;
        self.with_imm += u64::from(with_imm);
        self.bytes += u64::from(len);
        self.longest = self.longest.max(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_lines() {
        let order = Order::Send(vec![Target {
            stream: 0,
            srq_num: 5,
            messages: 10,
        }]);
        let line = serde_json::to_string(&order).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
    }
}
