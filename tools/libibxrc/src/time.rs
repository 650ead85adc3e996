// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Times as the ABI has them.

use std::time::Duration;

/// Milliseconds, rounded up: no time but zero becomes zero, and none gets shorter. None
/// if they have more than 32 bits (49 days).
pub(crate) fn millis(time: Duration) -> Option<u32> {
    time.as_nanos().div_ceil(1_000_000).try_into().ok()
}

/// The same, and what is too long becomes the longest that there is.
pub(crate) fn timeout_millis(time: Duration) -> u32 {
    millis(time).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_do_not_get_shorter() {
        assert_eq!(millis(Duration::ZERO), Some(0));
        assert_eq!(millis(Duration::from_nanos(1)), Some(1));
        assert_eq!(millis(Duration::from_micros(1001)), Some(2));
        assert_eq!(millis(Duration::from_secs(3)), Some(3000));
        let longest = Duration::from_millis(u32::MAX.into());
        assert_eq!(millis(longest), Some(u32::MAX));
        assert_eq!(millis(longest + Duration::from_nanos(1)), None);
        assert_eq!(timeout_millis(Duration::MAX), u32::MAX);
    }
}
