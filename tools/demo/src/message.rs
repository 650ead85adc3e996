// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The messages: what is in them follows from a seed, so that a receiver knows what
//! is to come, and in which order.

/// Numbers that look random (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A message to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes of its contents.
    pub len: u32,
    /// Immediate data, if it is to have any.
    pub imm: Option<u32>,
    contents: u64,
}

impl Message {
    /// Writes the contents to a buffer of its length.
    pub fn write(&self, buffer: &mut [u8]) {
        let mut random = Random::new(self.contents);
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Whether these are the contents. If not: the first byte that differs.
    pub fn check(&self, contents: &[u8]) -> Result<(), usize> {
        let mut random = Random::new(self.contents);
        for (i, chunk) in contents.chunks(8).enumerate() {
            let expected = random.next().to_le_bytes();
            if chunk != &expected[..chunk.len()] {
                let same = chunk.iter().zip(&expected).take_while(|(a, b)| a == b);
                return Err(i * 8 + same.count());
            }
        }
        Ok(())
    }
}

/// The messages for one receiver.
#[derive(Clone, Debug)]
pub struct Stream {
    random: Random,
    max_len: u32,
    count: u64,
}

impl Stream {
    /// Stream number `stream` of those with this seed, of messages up to `max_len`
    /// bytes.
    pub fn new(seed: u64, stream: u32, max_len: u32) -> Self {
        let mut random = Random::new(seed);
        for _ in 0..=stream {
            let seed = random.next();
            random = Random::new(seed ^ u64::from(stream));
        }
        Stream {
            random,
            max_len,
            count: 0,
        }
    }
}

impl Iterator for Stream {
    type Item = Message;

    /// Lengths are of all magnitudes; the shortest and the longest come first. Every
    /// other message or so has immediate data.
    fn next(&mut self) -> Option<Message> {
        let max = u64::from(self.max_len);
        let bits = u64::from(u32::BITS - self.max_len.leading_zeros());
        let magnitude = 1 << self.random.below(bits + 1);
        let len = match self.count {
            0 => 0,
            1 => max,
            _ => self.random.below(magnitude + 1).min(max),
        };
        self.count += 1;
        let number = self.random.next();
        Some(Message {
            len: len as u32,
            imm: (number & 1 != 0).then_some((number >> 32) as u32),
            contents: self.random.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_sides_see_the_same() {
        let take = |stream| Stream::new(7, stream, 4096).take(100).collect::<Vec<_>>();
        assert_eq!(take(0), take(0));
        assert_ne!(take(0), take(1));
    }

    #[test]
    fn lengths_are_of_all_magnitudes() {
        let lens: Vec<_> = Stream::new(1, 0, 4000).take(1000).map(|m| m.len).collect();
        assert_eq!(lens[..2], [0, 4000]);
        assert!(lens.iter().all(|len| *len <= 4000));
        assert!(lens.iter().filter(|len| **len < 16).count() > 200);
        assert!(lens.iter().filter(|len| **len > 1000).count() > 100);
    }

    #[test]
    fn some_have_immediate_data() {
        let n = Stream::new(1, 0, 100)
            .take(1000)
            .filter(|m| m.imm.is_some())
            .count();
        assert!((400..600).contains(&n));
    }

    proptest! {
        #[test]
        fn every_wrong_byte_is_found(
            len in 1usize..100,
            contents in any::<u64>(),
            at in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let message = Message { len: len as u32, imm: None, contents };
            let mut buffer = vec![0; len];
            message.write(&mut buffer);
            prop_assert_eq!(message.check(&buffer), Ok(()));
            let at = at.index(len);
            buffer[at] ^= flip;
            prop_assert_eq!(message.check(&buffer), Err(at));
        }
    }
}
