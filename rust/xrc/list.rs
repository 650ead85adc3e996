// SPDX-License-Identifier: GPL-2.0

//! Lists for userspace of what may change at any moment.

use kernel::prelude::*;

/// Describes up to `capacity` of the items that `for_each` shows, which holds a lock meanwhile.
/// Returns also how many it has shown. `ENOMEM`. Sleeps.
pub(crate) fn collect<T>(
    capacity: usize,
    for_each: impl Fn(&mut dyn FnMut(&dyn Fn() -> T)),
) -> Result<(KVVec<T>, u32)> {
    let mut list = KVVec::new();

    // Memory is needed without the lock; meanwhile there may be more items.
    loop {
        let mut count = 0usize;

        list.clear();
        for_each(&mut |describe| {
            if count < capacity && count < list.capacity() {
                // There is room: just checked.
                let _ = list.push_within_capacity(describe());
            }
            count = count.saturating_add(1);
        });

        let wanted = count.min(capacity);

        if list.len() >= wanted {
            return Ok((list, u32::try_from(count)?));
        }
        list.clear();
        list.reserve(wanted, GFP_KERNEL_ACCOUNT)?;
    }
}
