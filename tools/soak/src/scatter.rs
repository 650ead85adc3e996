// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! How a receive buffer is cut into pieces.

use std::ops::Range;

use crate::{random::Random, size::MAX_LEN};

/// Pieces at most.
pub const MAX_PIECES: usize = 8;
/// Bytes before and behind each piece that nobody may write.
pub const GAP: usize = 16;
/// Bytes of a buffer with all its gaps.
pub const BUFFER: usize = MAX_LEN + (MAX_PIECES + 1) * GAP;

/// Cuts a buffer into pieces of [`MAX_LEN`] bytes together, in the order in which a
/// message fills them. None is empty.
pub fn cut(random: &mut Random) -> Vec<Range<usize>> {
    let n = 1 + random.below(MAX_PIECES as u64) as usize;
    let mut left = MAX_LEN;
    let mut lens: Vec<usize> = (1..n)
        .map(|_| {
            // Short ones, so that a short message has several of them too.
            let magnitude = 1 << random.below(15);
            let len = 1 + random.below(magnitude) as usize;
            left -= len;
            len
        })
        .collect();
    // The rest is somewhere among them.
    lens.insert(random.below(n as u64) as usize, left);
    let backwards = random.one_in(2);
    if backwards {
        lens.reverse();
    }
    let mut at = GAP;
    let mut pieces: Vec<_> = lens
        .iter()
        .map(|len| {
            let piece = at..at + len;
            at = piece.end + GAP;
            piece
        })
        .collect();
    if backwards {
        pieces.reverse();
    }
    pieces
}

/// The bytes around the pieces.
pub fn gaps(pieces: &[Range<usize>]) -> impl Iterator<Item = Range<usize>> + '_ {
    pieces
        .iter()
        .flat_map(|piece| [piece.start - GAP..piece.start, piece.end..piece.end + GAP])
}

/// What of the pieces a message of `len` bytes fills.
pub fn filled(pieces: &[Range<usize>], len: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    pieces
        .iter()
        .scan(len, |left, piece| {
            let n = piece.len().min(*left);
            *left -= n;
            Some(piece.start..piece.start + n)
        })
        .filter(|range| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_apart(seed in any::<u64>(), len in 0..=MAX_LEN) {
            let pieces = cut(&mut Random::new(seed, &[]));
            prop_assert!((1..=MAX_PIECES).contains(&pieces.len()));
            prop_assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), MAX_LEN);
            for (i, piece) in pieces.iter().enumerate() {
                prop_assert!(!piece.is_empty() && piece.start >= GAP && piece.end + GAP <= BUFFER);
                for other in &pieces[..i] {
                    prop_assert!(
                        piece.end + GAP <= other.start || other.end + GAP <= piece.start
                    );
                }
                for gap in gaps(&pieces) {
                    prop_assert!(gap.end <= piece.start || piece.end <= gap.start);
                }
            }
            prop_assert_eq!(filled(&pieces, len).map(|range| range.len()).sum::<usize>(), len);
        }
    }
}
