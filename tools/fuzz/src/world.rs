// SPDX-License-Identifier: GPL-2.0

//! What a process has: files, objects, rings, memory. All of it is bounded, and its threads
//! use it without regard for each other.

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    sync::{
        atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed},
        Mutex,
    },
};

use anyhow::{Context, Result};
use ibxrc::uapi::{ib_uverbs_qp_attr, ib_xrc_ring_info, RDMA_DRIVER_UNKNOWN};
use rustix::mm::{mmap_anonymous, MapFlags, ProtFlags};

use crate::{
    mapping::Mapping,
    op::{Fd, Place, Ring, DOMAINS, FDS, FILES, SLOTS},
    peer::Peer,
    table::Object,
};

/// Bytes of a page.
pub const ARENA_PAGE: u32 = 4096;
/// Bytes of the memory that messages may go to.
pub const ARENA_LEN: u32 = 16 * ARENA_PAGE;
/// The upper half of its address. Nothing else of the process is in these 4 GiB, so that
/// an address made of two words that do not belong together is in there or nowhere.
pub const ARENA_HIGH: u32 = 0x20;
/// Its address.
pub const ARENA: usize = (ARENA_HIGH as usize) << 32;

/// Devices: that which stays, and that which comes and goes.
pub const DEVICES: usize = 2;

/// An object.
pub struct Slot {
    /// One more than the handle; 0 if there is none.
    handle: AtomicU64,
    /// QP number, SRQ number or key.
    pub number: AtomicU32,
    /// Of its ring.
    offset: AtomicU64,
    length: AtomicU64,
    entries: AtomicU32,
    stride: AtomicU32,
}

impl Slot {
    fn new() -> Self {
        Slot {
            handle: AtomicU64::new(0),
            number: AtomicU32::new(0),
            offset: AtomicU64::new(0),
            length: AtomicU64::new(0),
            entries: AtomicU32::new(0),
            stride: AtomicU32::new(0),
        }
    }

    pub fn handle(&self) -> Option<u32> {
        let handle = self.handle.load(Relaxed).checked_sub(1)?;
        Some(handle as u32)
    }

    /// Takes a new handle. Returns the one that was there.
    pub fn fill(&self, handle: u32) -> Option<u32> {
        let old = self.handle.swap(u64::from(handle) + 1, Relaxed);
        Some(old.checked_sub(1)? as u32)
    }

    /// The handle is good no more.
    pub fn clear(&self, handle: u32) {
        // Somebody may have put another one there meanwhile.
        let _ = self
            .handle
            .compare_exchange(u64::from(handle) + 1, 0, Relaxed, Relaxed);
    }

    pub fn set_ring(&self, ring: &ib_xrc_ring_info) {
        self.offset.store(ring.mmap_offset, Relaxed);
        self.length.store(ring.mmap_length, Relaxed);
        self.entries.store(ring.entries, Relaxed);
        self.stride.store(ring.stride, Relaxed);
    }

    pub fn ring(&self) -> ib_xrc_ring_info {
        ib_xrc_ring_info {
            mmap_offset: self.offset.load(Relaxed),
            mmap_length: self.length.load(Relaxed),
            entries: self.entries.load(Relaxed),
            stride: self.stride.load(Relaxed),
        }
    }
}

/// A descriptor that any thread may close.
pub struct SharedFd(AtomicI32);

impl SharedFd {
    fn none() -> Self {
        SharedFd(AtomicI32::new(-1))
    }

    /// -1 if there is none.
    pub fn get(&self) -> RawFd {
        self.0.load(Relaxed)
    }

    /// Takes a new one. The old one, if there is one, is the caller's.
    pub fn put(&self, fd: RawFd) -> RawFd {
        self.0.swap(fd, Relaxed)
    }
}

/// An open file of the device.
pub struct XrcFile {
    pub fd: SharedFd,
    pub driver_id: AtomicU32,
    /// Calls since that have found the device gone.
    pub dead: AtomicU32,
    objects: [[Slot; SLOTS as usize]; Object::ALL.len()],
    events: [SharedFd; FDS as usize],
    channels: [SharedFd; FDS as usize],
    /// Of CQs and of SRQs.
    maps: [[Mutex<Option<Mapping>>; SLOTS as usize]; 2],
}

impl XrcFile {
    fn new() -> Self {
        XrcFile {
            fd: SharedFd::none(),
            driver_id: AtomicU32::new(RDMA_DRIVER_UNKNOWN),
            dead: AtomicU32::new(0),
            objects: std::array::from_fn(|_| std::array::from_fn(|_| Slot::new())),
            events: std::array::from_fn(|_| SharedFd::none()),
            channels: std::array::from_fn(|_| SharedFd::none()),
            maps: Default::default(),
        }
    }
}

/// What a process has.
pub struct World {
    pub devices: [String; DEVICES],
    files: [XrcFile; FILES as usize],
    domains: [OwnedFd; DOMAINS as usize],
    /// Who sends on each of the devices.
    pub peers: [Mutex<Option<Peer>>; DEVICES],
    /// How a TGT QP is connected with it.
    pub address: [Mutex<ib_uverbs_qp_attr>; DEVICES],
    /// Conversations to be let go by before the next attempt to have a sender: without its
    /// device that takes long to fail.
    pub pause: [AtomicU32; DEVICES],
    /// The threads' ids.
    pub threads: [AtomicI32; crate::op::THREADS as usize],
}

impl World {
    /// Nothing but memory, and the files in `dir` that domains are found by.
    pub fn new(devices: [String; DEVICES], dir: &Path) -> Result<Self> {
        // SAFETY: Nothing is there; it is looked at by the kernel only.
        unsafe {
            mmap_anonymous(
                ARENA as *mut _,
                ARENA_LEN as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE,
            )
        }
        .context("cannot have memory for messages")?;
        let domain = |n: u8| -> Result<OwnedFd> {
            let path = dir.join(format!("domain-{n}"));
            let writable = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .context("cannot make a file")?;
            if n + 1 < DOMAINS {
                return Ok(writable.into());
            }
            // That of domain 0, but without the right to write.
            Ok(File::open(dir.join("domain-0"))
                .context("cannot open a file")?
                .into())
        };
        let mut domains = Vec::new();
        for n in 0..DOMAINS {
            domains.push(domain(n)?);
        }
        Ok(World {
            devices,
            files: std::array::from_fn(|_| XrcFile::new()),
            domains: domains.try_into().expect("there are as many"),
            peers: Default::default(),
            address: Default::default(),
            pause: Default::default(),
            threads: Default::default(),
        })
    }

    /// Which device a file is for.
    pub fn device_of(file: u8) -> usize {
        usize::from(file + 1 == FILES)
    }

    pub fn file(&self, file: u8) -> &XrcFile {
        &self.files[usize::from(file % FILES)]
    }

    pub fn slot(&self, object: Object, place: Place) -> &Slot {
        &self.file(place.file).objects[object as usize][usize::from(place.slot % SLOTS)]
    }

    /// The object there or, if there is none, another one of its kind in the same file: calls
    /// that find nothing are cheap, and show little.
    pub fn nearest(&self, object: Object, place: Place) -> &Slot {
        let slot = |slot: u8| self.slot(object, Place { slot, ..place });
        let all = (0..SLOTS).map(|more| slot(place.slot.wrapping_add(more)));
        all.into_iter()
            .find(|slot| slot.handle().is_some())
            .unwrap_or_else(|| slot(place.slot))
    }

    /// The handle of a file is good no more.
    pub fn forget(&self, object: Object, file: u8, handle: u32) {
        for slot in 0..SLOTS {
            self.slot(object, Place { file, slot }).clear(handle);
        }
    }

    /// The descriptor of the process that this is, if it is one that it may close.
    pub fn shared_fd(&self, fd: Fd) -> Option<&SharedFd> {
        let which = |place: Place| usize::from(place.slot % FDS);
        match fd {
            Fd::File(file) => Some(&self.file(file).fd),
            Fd::Event(place) => Some(&self.file(place.file).events[which(place)]),
            Fd::Channel(place) => Some(&self.file(place.file).channels[which(place)]),
            Fd::Domain(_) | Fd::Number(_) => None,
        }
    }

    /// Its number.
    pub fn fd(&self, fd: Fd) -> i64 {
        match fd {
            Fd::Domain(n) => self.domains[usize::from(n % DOMAINS)].as_raw_fd().into(),
            Fd::Number(number) => number,
            _ => self.shared_fd(fd).map_or(-1, |fd| fd.get().into()),
        }
    }

    /// Where the mapping of a ring is.
    pub fn map(&self, ring: Ring) -> &Mutex<Option<Mapping>> {
        let (kind, place) = match ring {
            Ring::Cq(place) => (0, place),
            Ring::Srq(place) => (1, place),
        };
        &self.file(place.file).maps[kind][usize::from(place.slot % SLOTS)]
    }
}
