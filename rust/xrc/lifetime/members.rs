// SPDX-License-Identifier: GPL-2.0

//! The TGT QPs of a domain, their registrations, and the rules by which they go.

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

/// Why a member goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its last registration was given back.
    LastRef,
    /// It is in error.
    Error,
    /// It was without registrations for too long.
    Linger,
    /// It is without registrations, and the domain without SRQs.
    LastSrq,
    /// The domain goes, or the device.
    Domain,
}

/// A TGT QP.
pub(crate) trait Member: Send + Sync {
    /// Its number, which no other member has until [`reclaim`](Self::reclaim) is over.
    fn num(&self) -> u32;

    /// Whether it is in the state ERR. Called with the members' lock held.
    fn is_failed(&self) -> bool;

    /// It is a member no more and is to be destroyed. Called once, without the lock. May sleep.
    fn reclaim(&self, reason: Reason);
}

/// When members go.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Members stay without registrations.
    pub(crate) keep: bool,
    /// For how long, nanoseconds; 0: without limit.
    pub(crate) linger_ns: i64,
    /// An error takes a member even with registrations.
    pub(crate) reclaim_referenced: bool,
    /// None stays without registrations while there are no SRQs.
    pub(crate) reclaim_with_last_srq: bool,
}

impl Rules {
    /// Why a member goes that has no registration any more.
    fn judge_idle(&self, failed: bool, srqs: u32) -> Option<Reason> {
        if !self.keep {
            Some(Reason::LastRef)
        } else if failed {
            Some(Reason::Error)
        } else if self.reclaim_with_last_srq && srqs == 0 {
            Some(Reason::LastSrq)
        } else {
            None
        }
    }
}

/// The members of a domain.
///
/// Whoever takes one out of the table, under the lock, reclaims it; so that happens once, and never
/// to one that somebody has registered with, unless the rules say so.
#[pin_data]
pub(crate) struct Members<T: Member> {
    rules: Rules,
    /// Taken for lookups and counting only, never while hardware is touched.
    #[pin]
    table: Mutex<Table<T>>,
}

struct Table<T: Member> {
    entries: RBTree<u32, Entry<T>>,
    srqs: u32,
}

struct Entry<T: Member> {
    member: Arc<T>,
    /// Registrations with it.
    refs: u32,
    /// When the last one was given back, if there is none.
    idle_since_ns: i64,
}

impl<T: Member> Table<T> {
    /// The entry of this very member, and not of a later one with its number.
    fn find(&mut self, member: &T) -> Option<&mut Entry<T>> {
        self.entries
            .get_mut(&member.num())
            .filter(|entry| core::ptr::eq(&*entry.member, member))
    }
}

impl<T: Member> Members<T> {
    /// No members, and no SRQs.
    pub(crate) fn new(rules: Rules) -> impl PinInit<Self> {
        pin_init!(Self {
            rules,
            table <- new_mutex!(
                Table {
                    entries: RBTree::new(),
                    srqs: 0,
                },
                "Members::table"
            ),
        })
    }

    /// Adds a member with one registration.
    pub(crate) fn insert(&self, room: Room<T>, member: Arc<T>) {
        let num = member.num();
        let entry = Entry {
            member,
            refs: 1,
            idle_since_ns: 0,
        };
        // The number was free: an earlier member was removed before it was destroyed.
        let old = self
            .table
            .lock()
            .entries
            .insert(room.0.into_node(num, entry));

        drop(old);
    }

    /// Registers with the member of this number. `EINVAL`: there is none (as `ib_open_qp()`).
    pub(crate) fn get(&self, num: u32) -> Result<Arc<T>> {
        let mut table = self.table.lock();
        let entry = table.entries.get_mut(&num).ok_or(EINVAL)?;

        entry.refs = entry.refs.checked_add(1).ok_or(EOVERFLOW)?;
        Ok(entry.member.clone())
    }

    /// Finds a member, which may go at any time. `EINVAL`: there is none.
    pub(crate) fn find(&self, num: u32) -> Result<Arc<T>> {
        match self.table.lock().entries.get(&num) {
            Some(entry) => Ok(entry.member.clone()),
            None => Err(EINVAL),
        }
    }

    /// Gives a registration back, and reclaims the member if it is to go now. Returns when it is
    /// to go if nobody registers until then. Sleeps.
    pub(crate) fn put(&self, member: &T, now_ns: i64) -> Option<i64> {
        let mut table = self.table.lock();
        let srqs = table.srqs;
        // Without an entry it was reclaimed.
        let entry = table.find(member)?;

        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs != 0 {
            return None;
        }
        entry.idle_since_ns = now_ns;

        // An error that is noted after this is followed by `failed`, which takes the lock.
        let Some(reason) = self.rules.judge_idle(member.is_failed(), srqs) else {
            return self.deadline(now_ns);
        };
        let node = table.entries.remove_node(&member.num());

        drop(table);
        member.reclaim(reason);
        drop(node);
        None
    }

    fn deadline(&self, idle_since_ns: i64) -> Option<i64> {
        (self.rules.linger_ns != 0).then(|| idle_since_ns.saturating_add(self.rules.linger_ns))
    }

    /// A member has noted an error: reclaims it if the rules say so. Sleeps.
    pub(crate) fn failed(&self, member: &T) {
        let mut table = self.table.lock();
        let Some(entry) = table.find(member) else {
            return;
        };

        // Somebody may have reset it meanwhile, who had no notice of the error.
        if !member.is_failed() || (entry.refs != 0 && !self.rules.reclaim_referenced) {
            return;
        }

        let node = table.entries.remove_node(&member.num());

        drop(table);
        member.reclaim(Reason::Error);
        drop(node);
    }

    /// A member changed its state on request: reclaims it if nobody is registered with it and it
    /// would not have stayed so. Sleeps.
    pub(crate) fn changed(&self, member: &T) {
        if !member.is_failed() {
            return;
        }

        let mut table = self.table.lock();
        let srqs = table.srqs;
        let Some(entry) = table.find(member) else {
            return;
        };

        if entry.refs != 0 {
            return;
        }

        let Some(reason) = self.rules.judge_idle(member.is_failed(), srqs) else {
            return;
        };
        let node = table.entries.remove_node(&member.num());

        drop(table);
        member.reclaim(reason);
        drop(node);
    }

    /// An SRQ was made.
    pub(crate) fn add_srq(&self) {
        let mut table = self.table.lock();

        table.srqs = table.srqs.saturating_add(1);
    }

    /// An SRQ is gone; with the last, the members go that nobody is registered with, if the rules
    /// say so. Sleeps.
    pub(crate) fn remove_srq(&self) {
        let mut table = self.table.lock();

        table.srqs = table.srqs.saturating_sub(1);
        drop(table);

        if self.rules.reclaim_with_last_srq {
            // Looks at the number of SRQs each time: there may be one again.
            self.reclaim_all(Reason::LastSrq, |entry, srqs| entry.refs == 0 && srqs == 0);
        }
    }

    /// Reclaims those that were without registrations for too long. Returns when the next will
    /// have been. Sleeps.
    pub(crate) fn expire(&self, now_ns: i64) -> Option<i64> {
        let mut next: Option<i64> = None;

        self.reclaim_all(Reason::Linger, |entry, _| {
            if entry.refs != 0 {
                return false;
            }

            let Some(deadline) = self.deadline(entry.idle_since_ns) else {
                return false;
            };

            if deadline <= now_ns {
                return true;
            }
            next = Some(next.map_or(deadline, |next| next.min(deadline)));
            false
        });
        next
    }

    /// Reclaims all. Sleeps.
    pub(crate) fn close(&self) {
        self.reclaim_all(Reason::Domain, |_, _| true);
    }

    /// Reclaims those that `goes` picks, in the order of their numbers. One at a time, so that no
    /// memory is needed and the lock is not held meanwhile.
    fn reclaim_all(&self, reason: Reason, mut goes: impl FnMut(&Entry<T>, u32) -> bool) {
        let mut from = 0;

        while let Some(member) = self.remove_next(from, &mut goes) {
            from = member.num().saturating_add(1);
            member.reclaim(reason);
        }
    }

    fn remove_next(
        &self,
        from: u32,
        goes: &mut impl FnMut(&Entry<T>, u32) -> bool,
    ) -> Option<Arc<T>> {
        let mut table = self.table.lock();
        let srqs = table.srqs;
        let mut cursor = table.entries.cursor_lower_bound_mut(&from)?;

        while !goes(cursor.current().1, srqs) {
            cursor = cursor.move_next()?;
        }

        let (_, node) = cursor.remove_current();

        Some(node.to_key_value().1.member)
    }

    /// Registrations with a member; `None` if it is one no more.
    pub(crate) fn refs(&self, member: &T) -> Option<u32> {
        self.table.lock().find(member).map(|entry| entry.refs)
    }

    /// Shows `f` the members with a greater number than `after`, and their registrations, in the
    /// order of their numbers. It must not sleep. Returns how many there are.
    pub(crate) fn for_each_after(&self, after: Option<u32>, mut f: impl FnMut(&T, u32)) -> u32 {
        let Some(from) = after.map_or(Some(0), |after| after.checked_add(1)) else {
            return 0;
        };
        let mut table = self.table.lock();
        let mut cursor = table.entries.cursor_lower_bound_mut(&from);
        let mut count = 0u32;

        while let Some(at) = cursor {
            let entry = at.current().1;

            f(&entry.member, entry.refs);
            count = count.saturating_add(1);
            cursor = at.move_next();
        }
        count
    }

    /// SRQs that were made and are not gone.
    pub(crate) fn srqs(&self) -> u32 {
        self.table.lock().srqs
    }
}

/// Room for a member, which is allocated before there is one.
pub(crate) struct Room<T: Member>(RBTreeNodeReservation<u32, Entry<T>>);

impl<T: Member> Room<T> {
    /// `ENOMEM`. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?))
    }
}
