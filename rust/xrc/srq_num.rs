// SPDX-License-Identifier: GPL-2.0

//! SRQ numbers, which senders name in their messages.

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Mutex, //
    },
};

use crate::bindings;

/// The SRQ numbers of a device that are in use.
///
/// Numbers are given out in a circle, so that one which a message on its way may still carry is
/// not soon another SRQ's. Zero, which a sender who forgot to set the number would send, is none.
#[pin_data]
pub(crate) struct SrqNums {
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    used: RBTree<u32, ()>,
    last: u32,
}

const MAX: u32 = bindings::IB_XRC_WIRE_SRQ_NUM_MAX;

impl SrqNums {
    /// All numbers are free.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(Inner { used: RBTree::new(), last: 0 }, "SrqNums::inner"),
        })
    }

    /// Takes a number. `ENOSPC`: there is none left; `ENOMEM`. Sleeps.
    pub(crate) fn allocate(nums: &Arc<Self>) -> Result<SrqNum> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut inner = nums.inner.lock();
        let start = inner.last;
        let mut num = start;

        loop {
            num = if num >= MAX { 1 } else { num.saturating_add(1) };
            if inner.used.get(&num).is_none() {
                break;
            }
            if num == start {
                return Err(ENOSPC);
            }
        }

        inner.used.insert(node.into_node(num, ()));
        inner.last = num;
        drop(inner);

        Ok(SrqNum {
            nums: nums.clone(),
            num,
        })
    }
}

/// An SRQ number in use; dropping it frees the number.
pub(crate) struct SrqNum {
    nums: Arc<SrqNums>,
    num: u32,
}

impl SrqNum {
    /// The number, 24 bits, not zero.
    pub(crate) fn get(&self) -> u32 {
        self.num
    }
}

impl Drop for SrqNum {
    fn drop(&mut self) {
        let node = self.nums.inner.lock().used.remove_node(&self.num);

        // Freed here, outside the lock.
        drop(node);
    }
}
