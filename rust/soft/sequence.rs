// SPDX-License-Identifier: GPL-2.0

//! The order of the parts that a TGT QP receives.
//!
//! Pure logic: it uses nothing but `core`, so that the same file is compiled and tested on the host.

use super::wire::Envelope;

/// Why a part does not follow the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOfOrder {
    /// It begins a message while another one has not ended.
    Begins,
    /// It continues no message, or one to another SRQ.
    Continues,
    /// The message gets longer than messages may be.
    TooLong,
}

/// The message of which more parts are to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arriving {
    /// Tells the messages of the TGT QP apart.
    pub(crate) message: u64,
    /// The SRQ that it is for.
    pub(crate) srq_num: u32,
    /// What has arrived of it, bytes.
    len: u64,
}

/// Follows the parts that a TGT QP receives, one after the other.
#[derive(Default)]
pub(crate) struct Sequence {
    /// Messages that have begun.
    messages: u64,
    arriving: Option<Arriving>,
}

impl Sequence {
    /// The next part, with `len` bytes of the contents of a message, which has `max_len` at most.
    /// Returns the number of its message.
    pub(crate) fn next(
        &mut self,
        envelope: &Envelope,
        len: usize,
        max_len: u32,
    ) -> Result<u64, OutOfOrder> {
        let mut arriving = match (self.arriving, envelope.first) {
            (None, true) => Arriving {
                message: self.messages.wrapping_add(1),
                srq_num: envelope.srq_num,
                len: 0,
            },
            (Some(arriving), false) if arriving.srq_num == envelope.srq_num => arriving,
            (_, true) => return Err(OutOfOrder::Begins),
            (_, false) => return Err(OutOfOrder::Continues),
        };

        arriving.len = arriving.len.saturating_add(len as u64);
        if arriving.len > u64::from(max_len) {
            return Err(OutOfOrder::TooLong);
        }

        self.messages = arriving.message;
        self.arriving = (!envelope.last).then_some(arriving);
        Ok(arriving.message)
    }

    /// No more parts come: the message that has not ended will not.
    pub(crate) fn cut(&mut self) -> Option<Arriving> {
        self.arriving.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u32 = 10;

    fn part(srq_num: u32, first: bool, last: bool) -> Envelope {
        Envelope {
            srq_num,
            first,
            last,
            solicited: false,
            imm_data: None,
            write_len: None,
            offset: 0,
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let mut sequence = Sequence::default();

        for message in 1..4 {
            assert_eq!(sequence.next(&part(1, true, false), 4, MAX), Ok(message));
            assert_eq!(sequence.next(&part(1, false, false), 4, MAX), Ok(message));
            assert_eq!(sequence.next(&part(1, false, true), 2, MAX), Ok(message));
        }
        assert_eq!(sequence.next(&part(2, true, true), 0, MAX), Ok(4));
        assert_eq!(sequence.cut(), None);
    }

    #[test]
    fn a_part_must_follow_the_one_before() {
        let mut sequence = Sequence::default();

        assert_eq!(
            sequence.next(&part(1, false, true), 1, MAX),
            Err(OutOfOrder::Continues)
        );
        assert_eq!(sequence.next(&part(1, true, false), 1, MAX), Ok(1));
        assert_eq!(
            sequence.next(&part(1, true, true), 1, MAX),
            Err(OutOfOrder::Begins)
        );
        assert_eq!(
            sequence.next(&part(2, false, true), 1, MAX),
            Err(OutOfOrder::Continues)
        );
        assert_eq!(sequence.next(&part(1, false, true), 1, MAX), Ok(1));
    }

    #[test]
    fn a_message_has_a_limit() {
        let mut sequence = Sequence::default();

        assert_eq!(
            sequence.next(&part(1, true, true), 11, MAX),
            Err(OutOfOrder::TooLong)
        );
        assert_eq!(sequence.next(&part(1, true, false), 10, MAX), Ok(1));
        assert_eq!(
            sequence.next(&part(1, false, true), 1, MAX),
            Err(OutOfOrder::TooLong)
        );
    }

    #[test]
    fn what_has_not_ended_is_cut() {
        let mut sequence = Sequence::default();

        assert_eq!(sequence.next(&part(7, true, false), 3, MAX), Ok(1));
        assert_eq!(
            sequence.cut(),
            Some(Arriving {
                message: 1,
                srq_num: 7,
                len: 3,
            })
        );
        assert_eq!(sequence.cut(), None);
        assert_eq!(sequence.next(&part(8, true, true), 3, MAX), Ok(2));
    }
}
