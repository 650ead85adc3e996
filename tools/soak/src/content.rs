// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Bytes that follow from a key.

use serde::{Deserialize, Serialize};

use crate::random::scramble;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = size_of::<u64>();

/// Bytes without end, any of which can be told at once.
///
/// They are made and compared by emulated processors, so that they are cheap counts
/// more than that they look random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content(pub u64);

impl Content {
    fn word(self, index: usize) -> [u8; WORD] {
        let x = self.0.wrapping_add((index as u64).wrapping_mul(STEP));
        (x ^ (x >> 32)).to_le_bytes()
    }

    /// Calls `each` for pieces that lie in one word: where they start and end, and how they
    /// should be.
    fn walk(self, at: usize, len: usize, mut each: impl FnMut(usize, &[u8]) -> bool) {
        let mut done = 0;
        while done < len {
            let (index, from) = ((at + done) / WORD, (at + done) % WORD);
            let n = (WORD - from).min(len - done);
            if !each(done, &self.word(index)[from..from + n]) {
                return;
            }
            done += n;
        }
    }

    /// Writes the bytes from `at` on.
    pub fn write(self, at: usize, buffer: &mut [u8]) {
        self.walk(at, buffer.len(), |i, expected| {
            buffer[i..i + expected.len()].copy_from_slice(expected);
            true
        });
    }

    /// Whether these are the bytes from `at` on. If not: the first one that differs, counted
    /// from `at`.
    pub fn check(self, at: usize, bytes: &[u8]) -> Result<(), usize> {
        let mut wrong = None;
        self.walk(at, bytes.len(), |i, expected| {
            let found = &bytes[i..i + expected.len()];
            if found == expected {
                return true;
            }
            let same = found.iter().zip(expected).take_while(|(a, b)| a == b);
            wrong = Some(i + same.count());
            false
        });
        wrong.map_or(Ok(()), Err)
    }
}

/// A number that other bytes do not have.
pub fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(WORD).map(|chunk| {
        let mut word = [0; WORD];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64, |state, word| {
        (state ^ word).rotate_left(23).wrapping_mul(STEP)
    })
}

/// What a word of the peer's memory is at the beginning.
pub fn start_value(seed: u64, which: u64) -> u64 {
    // So that counting does not reach the end.
    scramble(seed ^ scramble(which)) >> 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_wrong_byte_is_found(
            key in any::<u64>(),
            at in 0usize..100,
            len in 1usize..100,
            wrong in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let content = Content(key);
            let mut buffer = vec![0; len];
            content.write(at, &mut buffer);
            prop_assert_eq!(content.check(at, &buffer), Ok(()));
            let before = hash(&buffer);
            let wrong = wrong.index(len);
            buffer[wrong] ^= flip;
            prop_assert_eq!(content.check(at, &buffer), Err(wrong));
            prop_assert_ne!(hash(&buffer), before);
        }

        #[test]
        fn pieces_make_up_the_whole(key in any::<u64>(), cut in 0usize..100) {
            let content = Content(key);
            let mut buffer = [0; 100];
            let (head, tail) = buffer.split_at_mut(cut);
            content.write(0, head);
            content.write(cut, tail);
            prop_assert_eq!(content.check(0, &buffer), Ok(()));
        }

        #[test]
        fn other_places_and_keys_have_other_bytes(key in any::<u64>(), at in 1usize..5000) {
            let mut buffer = [0; 64];
            Content(key).write(0, &mut buffer);
            prop_assert!(Content(key).check(at, &buffer).is_err());
            prop_assert!(Content(key ^ (1 << (at % 64))).check(0, &buffer).is_err());
        }
    }
}
