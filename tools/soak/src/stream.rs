// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The messages of a sender for an SRQ: both ends know them from the seed.

use std::ops::Range;

use crate::{
    content::Content,
    mailbox::Places,
    mix::Mix,
    random::Random,
    size::{size, MAX_LEN},
    tally::Kind,
};

/// The longest message that is fetched from the receiver first.
const MAX_ECHO: usize = 1 << 16;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `Send`, `SendImm` or `WriteImm`.
    pub kind: Kind,
    /// Its bytes.
    pub content: Content,
    /// How many.
    pub len: usize,
    /// Immediate data, unless it is a `Send`.
    pub imm: Option<u32>,
    /// The sender asks for a solicited event.
    pub solicited: bool,
    /// A `WriteImm` goes there in the mailbox. Another one is sent from what an RDMA READ of
    /// this part of the area has just brought, if it is not empty.
    pub place: Range<usize>,
}

/// The messages of a sender for an SRQ, in their order.
#[derive(Clone, Debug)]
pub struct Stream {
    random: Random,
    mix: Mix,
    places: Places,
}

impl Stream {
    pub fn new(mix: Mix, sender: usize, srq: usize) -> Self {
        Stream {
            mix,
            random: Random::new(mix.seed, &[1, sender as u64, srq as u64]),
            places: Places::default(),
        }
    }
}

impl Iterator for Stream {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let random = &mut self.random;
        let kind = match random.below(20) {
            0..=8 => Kind::Send,
            9..=14 => Kind::SendImm,
            _ => Kind::WriteImm,
        };
        let mut len = size(random);
        if kind == Kind::WriteImm {
            len = self.mix.one_sided(len);
        }
        let (imm, key) = (random.next() as u32, random.next());
        let solicited = random.one_in(4);
        let echo = random.one_in(8) && len <= MAX_ECHO && self.mix.one_sided(len) == len;
        let at = random.below((MAX_LEN - len + 1) as u64) as usize;
        let place = match kind {
            Kind::WriteImm => self.places.next(len),
            _ if echo => at..at + len,
            _ => 0..0,
        };
        Some(Message {
            kind,
            content: Content(key),
            len,
            imm: (kind != Kind::Send).then_some(imm),
            solicited,
            place,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ends_see_the_same(
            seed in any::<u64>(),
            lossy in any::<bool>(),
            sender in 0usize..4,
            srq in 0usize..8,
        ) {
            let mix = Mix { seed, lossy };
            let take = |sender, srq| -> Vec<_> { Stream::new(mix, sender, srq).take(50).collect() };
            let messages = take(sender, srq);
            prop_assert_eq!(&messages, &take(sender, srq));
            prop_assert_ne!(&messages, &take(sender + 1, srq));
            prop_assert_ne!(&messages, &take(sender, srq + 1));
            for message in messages {
                prop_assert_eq!(message.imm.is_none(), message.kind == Kind::Send);
                prop_assert!(message.len <= MAX_LEN && message.place.end <= MAX_LEN);
                let len = message.place.len();
                prop_assert!(len == 0 || mix.one_sided(len) == len);
                prop_assert!(len == message.len || len == 0 && message.kind != Kind::WriteImm);
            }
        }
    }

    const MIX: Mix = Mix {
        seed: 1,
        lossy: false,
    };

    #[test]
    fn there_is_some_of_everything() {
        let messages: Vec<_> = Stream::new(MIX, 2, 3).take(300).collect();
        for kind in [Kind::Send, Kind::SendImm, Kind::WriteImm] {
            let of_kind = |m: &&Message| m.kind == kind;
            assert!(messages.iter().filter(of_kind).any(|m| m.solicited));
            assert!(messages.iter().filter(of_kind).any(|m| m.len == 0));
            assert!(messages.iter().filter(of_kind).any(|m| m.len > 1 << 13));
        }
        let echo = |m: &&Message| m.kind != Kind::WriteImm && !m.place.is_empty();
        assert!((10..60).contains(&messages.iter().filter(echo).count()));
    }
}
