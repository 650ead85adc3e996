// SPDX-License-Identifier: GPL-2.0

//! Types that are but bytes.

use ibxrc::uapi::{ib_uverbs_sge, ib_xrc_cqe, ib_xrc_recv_wqe};

/// Any bytes are one.
///
/// # Safety
///
/// They are.
pub unsafe trait FromBytes {}

/// It has no padding.
///
/// # Safety
///
/// It has none.
pub unsafe trait AsBytes {}

// SAFETY: The ABI has integers only.
unsafe impl FromBytes for ib_uverbs_sge {}
// SAFETY: As above.
unsafe impl FromBytes for ib_xrc_recv_wqe {}
// SAFETY: The ABI has no implicit padding.
unsafe impl AsBytes for ib_xrc_cqe {}
