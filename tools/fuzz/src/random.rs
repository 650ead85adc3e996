// SPDX-License-Identifier: GPL-2.0

//! Choices that follow from a seed.

use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A sequence of choices.
pub struct Random(ChaCha8Rng);

impl Random {
    /// The same seed and tags make the same choices; other tags, others.
    pub fn new(seed: u64, tags: [u32; 4]) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        for (place, tag) in bytes[8..].chunks_exact_mut(4).zip(tags) {
            place.copy_from_slice(&tag.to_le_bytes());
        }
        Random(ChaCha8Rng::from_seed(bytes))
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0.random_range(0..n)
    }

    /// The same as a byte.
    pub fn byte(&mut self, n: u8) -> u8 {
        self.0.random_range(0..n)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.random()
    }

    /// One of them.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.choose(&mut self.0).expect("there is a choice")
    }

    /// Which of them, where each counts by its weight.
    pub fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let mut left = self.below(weights.clone().sum());
        for (i, weight) in weights.enumerate() {
            if left < weight {
                return i;
            }
            left -= weight;
        }
        unreachable!("it was below the sum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_sequences_apart() {
        let first = |seed, tags| Random::new(seed, tags).any();
        assert_eq!(first(1, [1, 2, 3, 4]), first(1, [1, 2, 3, 4]));
        let all = [
            first(1, [1, 2, 3, 4]),
            first(1, [1, 2, 4, 3]),
            first(1, [0, 0, 0, 0]),
            first(2, [1, 2, 3, 4]),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one));
        }
    }

    #[test]
    fn weights_count() {
        let mut random = Random::new(1, [0; 4]);
        let mut seen = [0; 3];
        for _ in 0..1000 {
            seen[random.weighted([1, 0, 9].into_iter())] += 1;
        }
        assert!(seen[0] > 0 && seen[1] == 0 && seen[2] > 5 * seen[0]);
    }
}
