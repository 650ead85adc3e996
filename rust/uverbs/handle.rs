// SPDX-License-Identifier: GPL-2.0

//! The handles of a file.
//!
//! Numbers, errnos and locking are those of `drivers/infiniband/core/rdma_core.c`: the lowest free
//! number is taken, a number that is only reserved does not exist (`ENOENT`), calls that use an
//! object exclude one that takes it away and the other way round, without waiting (`EBUSY`).

use core::mem::{
    ManuallyDrop,
    MaybeUninit, //
};

use kernel::{
    id_pool::IdPool,
    new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        SpinLock,
        UniqueArc, //
    }, //
};

use super::{
    errno::Errno,
    usage::Usage, //
};

/// Most handles that a file may have. More are answered by `ENOSPC`: what a process can make the
/// kernel allocate is bounded even without a memory cgroup.
pub(crate) const MAX_HANDLES: usize = 65536;

/// The handles of a file.
///
/// The lock is held for a lookup or a change only, never while a call works or sleeps.
#[pin_data]
pub(crate) struct HandleTable<O> {
    #[pin]
    inner: SpinLock<Inner<O>>,
}

struct Inner<O> {
    /// Numbers that are in use or reserved.
    ids: IdPool,
    objects: RBTree<u32, Arc<Entry<O>>>,
    /// The numbers of the objects by the time when they were committed.
    ages: RBTree<u64, u32>,
    next_age: u64,
}

struct Entry<O> {
    object: O,
    age: u64,
    /// A [`Usage`].
    usage: Atomic<i32>,
}

impl<O> Entry<O> {
    fn update(&self, change: impl Fn(Usage) -> Result<Usage, Errno>) -> Result<(), Errno> {
        let mut old = self.usage.load(Relaxed);

        loop {
            let new = change(Usage(old))?;

            match self.usage.cmpxchg(old, new.0, Full) {
                Ok(_) => return Ok(()),
                Err(current) => old = current,
            }
        }
    }
}

impl<O: Clone> HandleTable<O> {
    /// A table without handles.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock!(
                Inner {
                    ids: IdPool::new(),
                    objects: RBTree::new(),
                    ages: RBTree::new(),
                    next_age: 0,
                },
                "HandleTable::inner"
            ),
        })
    }

    /// Reserves the lowest free number. Sleeps.
    ///
    /// `ENOSPC`: the file has [`MAX_HANDLES`]. `ENOMEM`.
    pub(super) fn reserve(&self) -> Result<Reservation<'_, O>> {
        // All that committing needs, since that must not fail.
        let entry = UniqueArc::new_uninit(GFP_KERNEL_ACCOUNT)?;
        let object_node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let age_node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;

        Ok(Reservation {
            id: self.reserve_id()?,
            entry,
            object_node,
            age_node,
        })
    }

    fn reserve_id(&self) -> Result<ReservedId<'_, O>> {
        let mut inner = self.inner.lock();

        loop {
            if let Some(unused) = inner.ids.find_unused_id(0) {
                if unused.as_usize() >= MAX_HANDLES {
                    return Err(ENOSPC);
                }

                let id = unused.as_u32();

                unused.acquire();
                return Ok(ReservedId { table: self, id });
            }

            // The pool is full. Growing it allocates, which cannot be done under the lock.
            if inner.ids.capacity() >= MAX_HANDLES {
                return Err(ENOSPC);
            }

            let request = inner.ids.grow_request().ok_or(ENOSPC)?;

            drop(inner);

            let resizer = request.realloc(GFP_KERNEL_ACCOUNT)?;

            inner = self.inner.lock();
            inner.ids.grow(resizer);
        }
    }

    /// Runs `f` with the entry of a handle, and the lock held.
    ///
    /// `EINVAL`: not a number that could be a handle (negative). `ENOENT`: no such handle.
    fn with_entry<R>(
        &self,
        id: i64,
        f: impl FnOnce(u32, &Arc<Entry<O>>) -> Result<R>,
    ) -> Result<R> {
        usize::try_from(id).map_err(|_| EINVAL)?;

        let id = u32::try_from(id).map_err(|_| ENOENT)?;
        let inner = self.inner.lock();

        f(id, inner.objects.get(&id).ok_or(ENOENT)?)
    }

    /// Looks a handle up, without using it yet.
    ///
    /// Errnos as for [`Self::get`], but for `EBUSY`.
    pub(super) fn find(&self, id: i64, accepts: impl FnOnce(&O) -> bool) -> Result<Found<'_, O>> {
        self.with_entry(id, |id, entry| {
            if !accepts(&entry.object) {
                return Err(EINVAL);
            }
            Ok(Found {
                table: self,
                id,
                age: entry.age,
            })
        })
    }

    /// Uses the object of a handle, with others.
    ///
    /// `EINVAL`: not a number that could be a handle (negative), or not of an object that is
    /// accepted. `ENOENT`: no such handle. `EBUSY`: a call is taking it away.
    pub(crate) fn get(&self, id: i64, accepts: impl FnOnce(&O) -> bool) -> Result<Use<'_, O>> {
        self.with_entry(id, |id, entry| {
            if !accepts(&entry.object) {
                return Err(EINVAL);
            }
            entry.update(Usage::share)?;
            Ok(Use {
                entry: entry.clone(),
                _claim: Claim { table: self, id },
            })
        })
    }

    /// Takes all objects away, the newest first, when the file is released.
    ///
    /// To be called when no call on the file is under way. No lock is held between two objects.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = O> + '_ {
        core::iter::from_fn(|| {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            let (_, age) = inner.ages.cursor_back_mut()?.remove_current();
            let (_, id) = age.to_key_value();
            let entry = inner.objects.remove(&id)?;

            inner.ids.release_id(id as usize);
            drop(guard);
            Some(entry.object.clone())
        })
    }
}

/// A number that is reserved until this is dropped.
struct ReservedId<'a, O> {
    table: &'a HandleTable<O>,
    id: u32,
}

impl<O> Drop for ReservedId<'_, O> {
    fn drop(&mut self) {
        self.table.inner.lock().ids.release_id(self.id as usize);
    }
}

/// A handle that does not exist yet, and all that it takes to make it.
pub(super) struct Reservation<'a, O> {
    id: ReservedId<'a, O>,
    entry: UniqueArc<MaybeUninit<Entry<O>>>,
    object_node: RBTreeNodeReservation<u32, Arc<Entry<O>>>,
    age_node: RBTreeNodeReservation<u64, u32>,
}

impl<O> Reservation<'_, O> {
    /// The number that the handle is going to have.
    pub(super) fn id(&self) -> u32 {
        self.id.id
    }

    /// Makes the handle, for `object`. From now on other calls can use it.
    pub(super) fn commit(self, object: O) {
        // The number stays taken.
        let reserved = ManuallyDrop::new(self.id);
        let id = reserved.id;

        let mut guard = reserved.table.inner.lock();
        let inner = &mut *guard;
        let age = inner.next_age;

        // At one a nanosecond this lasts for centuries.
        inner.next_age = age.wrapping_add(1);

        let entry = Arc::from(self.entry.write(Entry {
            object,
            age,
            usage: Atomic::new(Usage::NONE.0),
        }));
        let replaced = (
            inner.objects.insert(self.object_node.into_node(id, entry)),
            inner.ages.insert(self.age_node.into_node(age, id)),
        );

        // Nothing: both numbers are new. But were there something, it were not for here to drop it.
        drop(guard);
        drop(replaced);
    }
}

/// A handle that was looked up. It keeps nothing from being taken away.
pub(super) struct Found<'a, O> {
    table: &'a HandleTable<O>,
    id: u32,
    /// Tells the object from a later one of the same number.
    age: u64,
}

impl<'a, O> Found<'a, O> {
    /// Has the object alone. `EBUSY`: others use it, or it was taken away meanwhile.
    pub(super) fn exclude(self) -> Result<Exclusive<'a, O>> {
        let Found { table, id, age } = self;
        let inner = table.inner.lock();
        let entry = inner.objects.get(&id).ok_or(EBUSY)?;

        if entry.age != age {
            return Err(EBUSY);
        }
        entry.update(Usage::exclude)?;
        Ok(Exclusive {
            entry: entry.clone(),
            claim: Claim { table, id },
        })
    }
}

/// A use of an object, shared or not, which keeps its handle; dropping this ends it.
///
/// References to the object which are taken for the use are given back before. So whoever has an
/// object alone has the only one beside the table's, and when a handle is destroyed its object
/// goes in that call and not later in another.
struct Claim<'a, O> {
    table: &'a HandleTable<O>,
    id: u32,
}

impl<O> Drop for Claim<'_, O> {
    fn drop(&mut self) {
        if let Some(entry) = self.table.inner.lock().objects.get(&self.id) {
            // Never fails.
            let _ = entry.update(|usage| Ok(usage.release()));
        }
    }
}

/// An object in use. Until this is dropped, its handle stays.
pub(crate) struct Use<'a, O> {
    // Dropped in this order: see `Claim`.
    entry: Arc<Entry<O>>,
    _claim: Claim<'a, O>,
}

impl<O> core::ops::Deref for Use<'_, O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.entry.object
    }
}

/// An object that no other call uses.
pub(super) struct Exclusive<'a, O> {
    // Dropped in this order: see `Claim`.
    entry: Arc<Entry<O>>,
    claim: Claim<'a, O>,
}

impl<O> Exclusive<'_, O> {
    pub(super) fn object(&self) -> &O {
        &self.entry.object
    }

    /// Takes the handle away.
    pub(super) fn remove(self) {
        let Self { entry, claim } = self;
        let Claim { table, id } = &claim;
        let mut guard = table.inner.lock();
        let inner = &mut *guard;
        let taken = (
            inner.objects.remove_node(id),
            inner.ages.remove_node(&entry.age),
        );

        inner.ids.release_id(*id as usize);
        // What is claimed is gone, and the number may soon be another's.
        core::mem::forget(claim);
        drop(guard);
        drop(taken);
    }
}
