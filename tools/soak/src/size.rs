// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! How long things are.

use ibxrc::wire::{HEADER_LEN, PART_SIZE};

use crate::random::Random;

/// Bytes of the longest message.
pub const MAX_LEN: usize = 1 << 20;

/// A length up to [`MAX_LEN`]: often 0, 1, and about where a part ends; now and then the
/// longest.
pub fn size(random: &mut Random) -> usize {
    match random.below(128) {
        0 => MAX_LEN,
        1 => random.below(MAX_LEN as u64 + 1) as usize,
        2..=15 => 0,
        16..=31 => 1 + random.below(8) as usize * random.below(2) as usize,
        32..=79 => around_parts(random),
        _ => {
            let magnitude = 1 << random.below(16);
            random.below(magnitude + 1) as usize
        }
    }
}

fn around_parts(random: &mut Random) -> usize {
    let most = if random.one_in(8) { 32 } else { 3 };
    let parts = 1 + random.below(most) as usize;
    let header = if random.one_in(2) { HEADER_LEN } else { 0 };
    parts * PART_SIZE - header + random.below(3) as usize - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_length_is_too_long(seed in any::<u64>()) {
            let mut random = Random::new(seed, &[]);
            for _ in 0..1000 {
                prop_assert!(size(&mut random) <= MAX_LEN);
            }
        }
    }

    #[test]
    fn what_matters_comes_soon() {
        let mut random = Random::new(1, &[]);
        let sizes: Vec<_> = (0..2000).map(|_| size(&mut random)).collect();
        let mut wanted = vec![0, 1, MAX_LEN];
        for end in [4088, 4096, 8184, 8192, 12280, 12288] {
            wanted.extend([end - 1, end, end + 1]);
        }
        for wanted in wanted {
            assert!(sizes.contains(&wanted), "{wanted}");
        }
        let sum: usize = sizes.iter().sum();
        assert!((8_000..24_000).contains(&(sum / sizes.len())), "{sum}");
    }
}
