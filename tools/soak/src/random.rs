// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Numbers that look random (SplitMix64).

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that depends on every bit of another one.
pub fn scramble(x: u64) -> u64 {
    let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed and tags give the same numbers; other tags, others.
    pub fn new(seed: u64, tags: &[u64]) -> Self {
        Random(
            tags.iter()
                .fold(scramble(seed.wrapping_add(STEP)), |state, tag| {
                    scramble(state.wrapping_mul(3).wrapping_add(*tag).wrapping_add(STEP))
                }),
        )
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scramble(self.0)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_sequences_apart() {
        let first = |tags: &[u64]| Random::new(1, tags).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        let all = [
            first(&[]),
            first(&[0]),
            first(&[0, 0]),
            first(&[1, 2]),
            first(&[2, 1]),
            Random::new(2, &[1, 2]).next(),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one));
        }
    }
}
