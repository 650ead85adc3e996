// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What those who take part say to each other: a line of JSON each.

use std::io::{self, BufRead, Write};

use clap::Args;
use ibxrc_ini::Address;
use serde::{de::DeserializeOwned, Deserialize, Serialize};

use crate::{
    layout::{DOMAINS, PROCESSES, SENDERS, SRQS, SRQS_EACH},
    mix::Mix,
    tally::{Numbers, Tally},
};

/// The addresses of a sender's QPs, one for each domain, or of their TGT QPs.
pub type Addresses = [Address; DOMAINS];

/// An SRQ, as senders need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub srq_num: u32,
    /// By which senders name the start of its memory.
    pub addr: u64,
    pub rkey: u32,
}

/// What both sides go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct Plan {
    #[command(flatten)]
    pub mix: Mix,
    /// Seconds without any progress that mean that there will be none.
    #[arg(long)]
    pub patience: u64,
}

/// What the senders did to an SRQ and its memory, as far as it can be told from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// All operations.
    pub tally: Tally,
    /// What was found by those who added one.
    pub added: Numbers,
    /// What was replaced by the next number.
    pub swapped: Numbers,
    /// Of the area's contents.
    pub area: u64,
}

/// What an SRQ got, and what its memory is like in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// What came from each sender.
    pub tallies: [Tally; SENDERS],
    pub added: u64,
    pub swapped: u64,
    /// Of the contents of each sender's area.
    pub areas: [u64; SENDERS],
    /// How often its senders were held back.
    pub backlogs: u64,
    /// How often it had less posted than its limit.
    pub limits: u64,
}

/// An order to a process. It answers each but `Start` with one report; it exits when there
/// are no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// To a receiver: make TGT QPs, and connect each to the QP of a sender.
    Create(Vec<(usize, usize, Address)>),
    /// To a receiver: register with these TGT QPs, each of a sender and a domain.
    Open(Vec<(usize, usize, u32, u32)>),
    /// To a sender: connect.
    Connect {
        tgt_qps: Addresses,
        targets: [Target; SRQS],
    },
    /// To a receiver: begin. To a sender: send for so many seconds. A sender reports when it
    /// has.
    Start { seconds: u64 },
    /// To a receiver: so many messages come from each sender to each of your SRQs. It reports
    /// when they have.
    Finish([[u64; SENDERS]; SRQS_EACH]),
    /// Tell where things stand.
    Tell,
    /// Close everything.
    Close,
}

/// What a process reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// A receiver is ready.
    Listening([Target; SRQS_EACH]),
    /// A sender is ready.
    Addresses(Addresses),
    /// The TGT QPs that were asked for, in the same order.
    Created(Vec<Address>),
    /// It did what it was told.
    Done,
    /// A sender: all is done, for each SRQ this.
    Sent(Vec<Sent>),
    /// A receiver: all has come, for each of its SRQs this.
    Received(Vec<Received>),
    /// Where things stand.
    State(String),
    /// It did not work.
    Failed(String),
}

/// What the side of the senders and the side of the receivers say to each other. An `Err` is
/// why it has to end.
pub type Word = Result<Message, String>;

/// See [`Word`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The senders are ready.
    Senders {
        plan: Plan,
        addresses: [Addresses; SENDERS],
    },
    /// So are the receivers.
    Receivers {
        tgt_qps: [Addresses; SENDERS],
        targets: [Target; SRQS],
    },
    /// All was sent: this many messages to each SRQ from each sender.
    Sent([[u64; SENDERS]; SRQS]),
    /// All was received.
    Received(Vec<Received>),
    /// All is closed.
    Closed,
}

const _: () = assert!(SRQS == PROCESSES * SRQS_EACH);

/// Writes a line.
pub fn write(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// Reads a line. `None`: there are no more.
pub fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lines() {
        let words: [Word; 3] = [
            Err("a\nb".to_string()),
            Ok(Message::Sent([[u64::MAX; SENDERS]; SRQS])),
            Ok(Message::Received(vec![Received {
                tallies: Default::default(),
                added: u64::MAX,
                swapped: 1,
                areas: [2; SENDERS],
                backlogs: 3,
                limits: 4,
            }])),
        ];
        let mut lines = Vec::new();
        for word in &words {
            write(&mut lines, word).unwrap();
        }
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 3);
        let mut lines = lines.as_slice();
        for word in words {
            assert_eq!(read::<Word>(&mut lines).unwrap(), Some(word));
        }
        assert_eq!(read::<Word>(&mut lines).unwrap(), None);
    }
}
