// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Whether what arrived is what was sent.

use anyhow::{ensure, Result};

use crate::{
    content::start_value,
    layout::{SENDERS, SRQS},
    mix::Mix,
    protocol::{Received, Sent},
    tally::{Kind, Numbers, Tally},
};

/// What there was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub tally: Tally,
    /// How often senders were held back.
    pub backlogs: u64,
    /// How often an SRQ had less posted than its limit.
    pub limits: u64,
    /// How many messages an SRQ got from a sender at least.
    pub fewest: u64,
}

impl Outcome {
    /// That nothing is missing is no news of what was not sent: there was some of everything, from
    /// each sender to each SRQ.
    pub fn check_coverage(&self, mix: Mix) -> Result<()> {
        for kind in Kind::ALL {
            ensure!(
                self.tally.of(kind).messages > 0 || mix.leaves_out(kind),
                "there was no {}",
                kind.name()
            );
        }
        ensure!(
            self.fewest > 0,
            "some SRQ got nothing from one of the senders"
        );
        Ok(())
    }
}

/// Compares what the senders say with what the receivers say.
pub fn judge(
    seed: u64,
    sent: &[[Sent; SRQS]; SENDERS],
    received: &[Received; SRQS],
) -> Result<Outcome> {
    let mut outcome = Outcome {
        fewest: u64::MAX,
        ..Default::default()
    };
    for (srq, received) in received.iter().enumerate() {
        let mut added = Numbers::default();
        let mut swapped = Numbers::default();
        for (sender, sent) in sent.iter().map(|sent| &sent[srq]).enumerate() {
            let tally = sent.tally.received();
            ensure!(
                tally == received.tallies[sender],
                "from sender {sender} SRQ {srq} got\n{}but this was sent:\n{tally}",
                received.tallies[sender]
            );
            ensure!(
                sent.area == received.areas[sender],
                "the area of sender {sender} at SRQ {srq} is not what was written to it"
            );
            added += sent.added;
            swapped += sent.swapped;
            outcome.tally += &sent.tally;
            outcome.fewest = outcome.fewest.min(tally.sum(|_| true).messages);
        }
        let words = [
            ("fetch-and-add", added, received.added),
            ("compare-and-swap", swapped, received.swapped),
        ];
        for (which, (name, numbers, end)) in words.into_iter().enumerate() {
            let start = start_value(seed, (srq * 2 + which) as u64);
            ensure!(
                end.wrapping_sub(start) == numbers.count,
                "the {name} word of SRQ {srq} went from {start:#x} to {end:#x} in {} steps",
                numbers.count
            );
            ensure!(
                numbers == Numbers::from(start, numbers.count),
                "some value of the {name} word of SRQ {srq} was found twice, and some never"
            );
        }
        outcome.backlogs += received.backlogs;
        outcome.limits += received.limits;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 9;
    const MIX: Mix = Mix {
        seed: SEED,
        lossy: false,
    };

    /// What is as it should be: of everything one.
    fn good() -> ([[Sent; SRQS]; SENDERS], [Received; SRQS]) {
        let word = |srq: usize, which: usize| start_value(SEED, (srq * 2 + which) as u64);
        let sent = |sender: usize, srq: usize| {
            let mut tally = Tally::default();
            for kind in Kind::ALL {
                tally.add(kind, 10);
            }
            let one = |which| Numbers::from(word(srq, which) + sender as u64, 1);
            Sent {
                tally,
                added: one(0),
                swapped: one(1),
                area: (sender * SRQS + srq) as u64,
            }
        };
        let received = |srq: usize| Received {
            tallies: std::array::from_fn(|_| sent(0, 0).tally.received()),
            added: word(srq, 0) + SENDERS as u64,
            swapped: word(srq, 1) + SENDERS as u64,
            areas: std::array::from_fn(|sender| sent(sender, srq).area),
            backlogs: 1,
            limits: 2,
        };
        (
            std::array::from_fn(|sender| std::array::from_fn(|srq| sent(sender, srq))),
            std::array::from_fn(received),
        )
    }

    #[test]
    fn what_is_right_is_right() {
        let (sent, received) = good();
        let outcome = judge(SEED, &sent, &received).unwrap();
        let srqs = SRQS as u64;
        assert_eq!((outcome.backlogs, outcome.limits), (srqs, 2 * srqs));
        let count = outcome.tally.of(Kind::Read);
        assert_eq!((count.messages, count.bytes), (32, 320));
    }

    #[test]
    fn what_was_not_sent_is_missed() {
        let (mut sent, mut received) = good();
        let outcome = judge(SEED, &sent, &received).unwrap();
        assert_eq!(outcome.fewest, 3);
        outcome.check_coverage(MIX).unwrap();
        sent[1][2].tally = Tally::default();
        received[2].tallies[1] = Tally::default();
        let outcome = judge(SEED, &sent, &received).unwrap();
        assert!(outcome.check_coverage(MIX).is_err());
        let outcome = Outcome {
            fewest: 1,
            ..Default::default()
        };
        assert!(outcome.check_coverage(MIX).is_err());
    }

    #[test]
    fn everything_that_is_wrong_is_found() {
        type Wrong = fn(&mut [[Sent; SRQS]; SENDERS], &mut [Received; SRQS]);
        let wrong: [Wrong; 7] = [
            |sent, _| sent[1][2].tally.add(Kind::Send, 0),
            |_, received| received[3].tallies[0].add(Kind::WriteImm, 1),
            |_, received| received[7].areas[3] ^= 1,
            |_, received| received[0].added += 1,
            |_, received| received[0].swapped -= 1,
            |sent, _| sent[0][4].added = sent[1][4].added,
            |sent, _| sent[3][5].swapped = sent[2][5].swapped,
        ];
        for (i, wrong) in wrong.into_iter().enumerate() {
            let (mut sent, mut received) = good();
            wrong(&mut sent, &mut received);
            assert!(judge(SEED, &sent, &received).is_err(), "case {i}");
        }
    }
}
