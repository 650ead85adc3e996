// SPDX-License-Identifier: GPL-2.0

//! How long rings are, and where their entries.

use crate::bindings;

/// Entries of a CQ at most: 4 MiB of memory.
pub(super) const MAX_CQE: u32 = 1 << 16;
/// Work requests posted to an SRQ at most.
pub(super) const MAX_SRQ_WR: u32 = 1 << 15;
/// Scatter entries of a receive work request at most.
pub(super) const MAX_SRQ_SGE: u32 = 16;

/// Where in a ring the entry number `index` is, entries of `stride` bytes. What is too large for a
/// ring is out of its range.
pub(super) fn ring_offset(index: u32, stride: usize) -> usize {
    (index as usize)
        .saturating_mul(stride)
        .saturating_add(bindings::IB_XRC_RING_ENTRIES_OFFSET as usize)
}
