// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The rings shared with the kernel: completions of a CQ, posted work requests of an
//! SRQ. The ABI header has the protocol.
//!
//! The logic is written over [`Memory`], so that tests can run it against a model of
//! the kernel's side.

use std::{
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{fence, AtomicU32, Ordering},
};

use rustix::{
    fd::AsFd,
    mm::{mmap, munmap, MapFlags, ProtFlags},
};

use crate::{
    error::{Error, Result},
    framing::{bytes_of, bytes_of_mut},
    uapi::{
        ib_uverbs_sge, ib_xrc_cq_ring, ib_xrc_cqe, ib_xrc_recv_wqe, ib_xrc_ring_info,
        ib_xrc_srq_ring, IB_XRC_CQ_ARM_NEXT, IB_XRC_CQ_ARM_NONE, IB_XRC_CQ_ARM_SOLICITED,
        IB_XRC_CQ_RING_DEAD, IB_XRC_CQ_RING_OVERFLOW, IB_XRC_RING_ENTRIES_OFFSET,
        IB_XRC_SRQ_RING_ERROR, IB_XRC_SRQ_RING_NEED_KICK,
    },
};

/// Memory that the kernel writes at the same time. Offsets are in bytes.
pub(crate) trait Memory {
    /// Its length in bytes.
    fn len(&self) -> usize;
    /// Loads with acquire order.
    fn load(&self, offset: usize) -> u32;
    /// Stores with release order.
    fn store(&self, offset: usize, value: u32);
    /// Stores `new` if there is `old`, atomically.
    fn replace(&self, offset: usize, old: u32, new: u32);
    /// A full barrier.
    fn fence(&self);
    /// Copies bytes that the kernel does not write now.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Writes bytes that the kernel does not read now.
    fn write(&self, offset: usize, bytes: &[u8]);
}

/// A ring that is mapped into this process.
///
/// # Invariants
///
/// `base` is a shared mapping of `len` bytes, ours alone to unmap.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: The mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: All accesses through a shared reference are atomic, or to bytes that the
// protocol gives to the one who holds the ring.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the ring that `info` describes. `what` is for the error message.
    pub(crate) fn new(fd: impl AsFd, info: &ib_xrc_ring_info, what: &'static str) -> Result<Self> {
        let len = usize::try_from(info.mmap_length)
            .ok()
            .filter(|len| *len >= IB_XRC_RING_ENTRIES_OFFSET as usize)
            .ok_or_else(|| Error::Unexpected(format!("a ring of {} bytes", info.mmap_length)))?;
        // SAFETY: A new mapping, at an address that the kernel chooses.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                info.mmap_offset,
            )
        }
        .map_err(|e| Error::call(what, e.into()))?;
        let base = NonNull::new(base.cast())
            .ok_or_else(|| Error::Unexpected("a ring at address 0".into()))?;
        // INVARIANT: Just mapped.
        Ok(Mapping { base, len })
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: Inside of the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        let word = self.at(offset, size_of::<u32>()).cast::<u32>();
        assert!(word.is_aligned());
        // SAFETY: Inside of the mapping, which lives as long as `self`, aligned, and
        // only ever accessed atomically.
        unsafe { AtomicU32::from_ptr(word) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Type invariant; references do not outlive `self`. It cannot fail for
        // a whole mapping.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Memory for Mapping {
    fn len(&self) -> usize {
        self.len
    }

    fn load(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    fn store(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    fn replace(&self, offset: usize, old: u32, new: u32) {
        // Whether there was `old` is of no interest.
        let _ = self
            .word(offset)
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.at(offset, bytes.len());
        // SAFETY: Inside of the mapping, and by the caller's word not being written.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: Inside of the mapping, and by the caller's word not being read.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// Where the entries are.
///
/// # Invariants
///
/// `entries` is a power of two and all entries are inside of the memory.
#[derive(Clone, Copy)]
struct Layout {
    entries: u32,
    stride: usize,
}

impl Layout {
    fn new(memory: &impl Memory, info: &ib_xrc_ring_info, min_stride: usize) -> Result<Self> {
        let stride = info.stride as usize;
        let len = (info.entries as usize)
            .checked_mul(stride)
            .and_then(|len| len.checked_add(IB_XRC_RING_ENTRIES_OFFSET as usize));
        let fits = len.is_some_and(|len| len <= memory.len());
        if !info.entries.is_power_of_two() || stride < min_stride || !fits {
            return Err(Error::Unexpected(format!(
                "a ring of {} entries of {stride} bytes in {} bytes",
                info.entries,
                memory.len()
            )));
        }
        // INVARIANT: Just checked.
        Ok(Layout {
            entries: info.entries,
            stride,
        })
    }

    fn offset(&self, index: u32) -> usize {
        let entry = index & (self.entries - 1);
        IB_XRC_RING_ENTRIES_OFFSET as usize + entry as usize * self.stride
    }
}

/// The ring of a CQ, of which we are the consumer.
pub(crate) struct CqRing<M> {
    memory: M,
    layout: Layout,
    /// The index in shared memory is for the kernel; we go by our own.
    consumer: u32,
}

/// What there is to say about a CQ that has no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CqState {
    Alive,
    Overflow,
    Dead,
}

impl<M: Memory> CqRing<M> {
    const PRODUCER: usize = offset_of!(ib_xrc_cq_ring, producer);
    const FLAGS: usize = offset_of!(ib_xrc_cq_ring, flags);
    const CONSUMER: usize = offset_of!(ib_xrc_cq_ring, consumer);
    const ARM: usize = offset_of!(ib_xrc_cq_ring, arm);

    pub(crate) fn new(memory: M, info: &ib_xrc_ring_info) -> Result<Self> {
        let layout = Layout::new(&memory, info, size_of::<ib_xrc_cqe>())?;
        Ok(CqRing {
            consumer: memory.load(Self::CONSUMER),
            memory,
            layout,
        })
    }

    pub(crate) fn entries(&self) -> u32 {
        self.layout.entries
    }

    /// How many completions wait.
    fn available(&self) -> u32 {
        let available = self.memory.load(Self::PRODUCER).wrapping_sub(self.consumer);
        // More than fit is nonsense; entries are read inside of the ring anyway.
        available.min(self.layout.entries)
    }

    /// Takes up to `max` completions and gives them to `each`. Returns how many.
    pub(crate) fn poll(&mut self, max: usize, mut each: impl FnMut(ib_xrc_cqe)) -> usize {
        let n = self.available().min(u32::try_from(max).unwrap_or(u32::MAX));
        for _ in 0..n {
            let mut cqe = ib_xrc_cqe::default();
            self.memory
                .read(self.layout.offset(self.consumer), bytes_of_mut(&mut cqe));
            self.consumer = self.consumer.wrapping_add(1);
            each(cqe);
        }
        if n > 0 {
            self.memory.store(Self::CONSUMER, self.consumer);
        }
        n as usize
    }

    /// Asks for an event. Returns whether completions wait already, which raise none.
    pub(crate) fn arm(&mut self, solicited_only: bool) -> bool {
        if solicited_only {
            // One who waits for any completion still does.
            self.memory
                .replace(Self::ARM, IB_XRC_CQ_ARM_NONE, IB_XRC_CQ_ARM_SOLICITED);
        } else {
            self.memory.store(Self::ARM, IB_XRC_CQ_ARM_NEXT);
        }
        // Either the kernel sees that the CQ is armed when it has written the next
        // completion, or we see that completion.
        self.memory.fence();
        self.available() > 0
    }

    /// Takes back what `arm` has asked for.
    pub(crate) fn disarm(&mut self) {
        self.memory.store(Self::ARM, IB_XRC_CQ_ARM_NONE);
    }

    /// To be asked before `poll`, so that what it says holds after all completions.
    pub(crate) fn state(&self) -> CqState {
        let flags = self.memory.load(Self::FLAGS);
        if flags & IB_XRC_CQ_RING_DEAD != 0 {
            CqState::Dead
        } else if flags & IB_XRC_CQ_RING_OVERFLOW != 0 {
            CqState::Overflow
        } else {
            CqState::Alive
        }
    }
}

/// Where the scatter entries of a work request start.
const SGES: usize = offset_of!(ib_xrc_recv_wqe, sge);

/// The ring of an SRQ, of which we are the producer.
pub(crate) struct SrqRing<M> {
    memory: M,
    layout: Layout,
    max_sge: u32,
    /// The index in shared memory is for the kernel; we go by our own.
    producer: u32,
}

impl<M: Memory> SrqRing<M> {
    const CONSUMER: usize = offset_of!(ib_xrc_srq_ring, consumer);
    const FLAGS: usize = offset_of!(ib_xrc_srq_ring, flags);
    const PRODUCER: usize = offset_of!(ib_xrc_srq_ring, producer);

    pub(crate) fn new(memory: M, info: &ib_xrc_ring_info, max_sge: u32) -> Result<Self> {
        let stride = (max_sge as usize)
            .saturating_mul(size_of::<ib_uverbs_sge>())
            .saturating_add(SGES);
        let layout = Layout::new(&memory, info, stride)?;
        Ok(SrqRing {
            producer: memory.load(Self::PRODUCER),
            memory,
            layout,
            max_sge,
        })
    }

    pub(crate) fn entries(&self) -> u32 {
        self.layout.entries
    }

    /// Posts one work request, of scatter entries given as (address, bytes).
    ///
    /// ENOMEM: the ring is full. EINVAL: too many entries. EIO: the SRQ is in error.
    pub(crate) fn post<S>(&mut self, wr_id: u64, sges: S) -> Result<()>
    where
        S: ExactSizeIterator<Item = (u64, u32)>,
    {
        if self.memory.load(Self::FLAGS) & IB_XRC_SRQ_RING_ERROR != 0 {
            return Err(Error::SrqError);
        }
        let num_sge = sges.len();
        if num_sge > self.max_sge as usize {
            return Err(Error::invalid(format!(
                "a receive work request of {num_sge} scatter entries, but the SRQ was created \
                 for at most {}",
                self.max_sge
            )));
        }
        let posted = self.producer.wrapping_sub(self.memory.load(Self::CONSUMER));
        if posted >= self.layout.entries {
            return Err(Error::SrqFull {
                entries: self.layout.entries,
            });
        }

        let mut offset = self.layout.offset(self.producer);
        let mut head = [0; SGES];
        head[..8].copy_from_slice(&wr_id.to_ne_bytes());
        head[8..12].copy_from_slice(&(num_sge as u32).to_ne_bytes());
        self.memory.write(offset, &head);
        offset += SGES;
        for (addr, length) in sges.take(num_sge) {
            let mut sge = [0; size_of::<ib_uverbs_sge>()];
            sge[..8].copy_from_slice(bytes_of(&addr));
            sge[8..12].copy_from_slice(bytes_of(&length));
            self.memory.write(offset, &sge);
            offset += size_of::<ib_uverbs_sge>();
        }
        self.producer = self.producer.wrapping_add(1);
        self.memory.store(Self::PRODUCER, self.producer);
        Ok(())
    }

    /// Whether the kernel wants to be told of what was posted.
    pub(crate) fn need_kick(&self) -> bool {
        // Either the kernel sees what was posted when it has set the flag, or we see
        // the flag.
        self.memory.fence();
        self.memory.load(Self::FLAGS) & IB_XRC_SRQ_RING_NEED_KICK != 0
    }
}

const _: () = {
    assert!(offset_of!(ib_xrc_recv_wqe, wr_id) == 0);
    assert!(offset_of!(ib_xrc_recv_wqe, num_sge) == 8);
    assert!(offset_of!(ib_uverbs_sge, addr) == 0);
    assert!(offset_of!(ib_uverbs_sge, length) == 8);
    assert!(size_of::<ib_xrc_cq_ring>() == IB_XRC_RING_ENTRIES_OFFSET as usize);
    assert!(size_of::<ib_xrc_srq_ring>() == IB_XRC_RING_ENTRIES_OFFSET as usize);
};

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, rc::Rc};

    use proptest::prelude::*;

    use super::*;

    /// Memory of a ring whose other end is the test.
    #[derive(Clone)]
    struct Model(Rc<RefCell<Vec<u8>>>);

    impl Model {
        fn new(len: usize) -> Self {
            Model(Rc::new(RefCell::new(vec![0; len])))
        }

        fn add(&self, offset: usize, n: u32) {
            self.store(offset, self.load(offset).wrapping_add(n));
        }
    }

    impl Memory for Model {
        fn len(&self) -> usize {
            self.0.borrow().len()
        }
        fn load(&self, offset: usize) -> u32 {
            let mut bytes = [0; 4];
            self.read(offset, &mut bytes);
            u32::from_ne_bytes(bytes)
        }
        fn store(&self, offset: usize, value: u32) {
            self.write(offset, &value.to_ne_bytes());
        }
        fn replace(&self, offset: usize, old: u32, new: u32) {
            if self.load(offset) == old {
                self.store(offset, new);
            }
        }
        fn fence(&self) {}
        fn read(&self, offset: usize, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.0.borrow()[offset..offset + bytes.len()]);
        }
        fn write(&self, offset: usize, bytes: &[u8]) {
            self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn info(entries: u32, stride: usize) -> ib_xrc_ring_info {
        ib_xrc_ring_info {
            mmap_offset: 0,
            mmap_length: 0,
            entries,
            stride: stride as u32,
        }
    }

    /// A CQ and the kernel's side of it.
    struct Cq {
        memory: Model,
        ring: CqRing<Model>,
        layout: Layout,
    }

    impl Cq {
        fn new(entries: u32, start: u32) -> Self {
            let memory = Model::new(128 + entries as usize * 64);
            memory.store(CqRing::<Model>::PRODUCER, start);
            memory.store(CqRing::<Model>::CONSUMER, start);
            let ring = CqRing::new(memory.clone(), &info(entries, 64)).unwrap();
            let layout = ring.layout;
            Cq {
                memory,
                ring,
                layout,
            }
        }

        /// What the kernel does at a completion. Returns whether it raised an event.
        fn complete(&self, wr_id: u64, solicited: bool) -> Option<bool> {
            type R = CqRing<Model>;
            let producer = self.memory.load(R::PRODUCER);
            if producer.wrapping_sub(self.memory.load(R::CONSUMER)) >= self.layout.entries {
                self.memory.store(R::FLAGS, IB_XRC_CQ_RING_OVERFLOW);
                return None;
            }
            let cqe = ib_xrc_cqe {
                wr_id,
                ..Default::default()
            };
            self.memory
                .write(self.layout.offset(producer), bytes_of(&cqe));
            self.memory.add(R::PRODUCER, 1);
            let arm = self.memory.load(R::ARM);
            let raise = arm == IB_XRC_CQ_ARM_NEXT || arm == IB_XRC_CQ_ARM_SOLICITED && solicited;
            if raise {
                self.memory.store(R::ARM, IB_XRC_CQ_ARM_NONE);
            }
            Some(raise)
        }
    }

    #[derive(Debug, Clone)]
    enum CqStep {
        Complete(bool),
        Poll(usize),
        Arm(bool),
        Disarm,
    }

    fn cq_step() -> impl Strategy<Value = CqStep> {
        prop_oneof![
            3 => any::<bool>().prop_map(CqStep::Complete),
            2 => (0usize..10).prop_map(CqStep::Poll),
            1 => any::<bool>().prop_map(CqStep::Arm),
            1 => Just(CqStep::Disarm),
        ]
    }

    proptest! {
        #[test]
        fn a_cq_is_a_bounded_queue(
            order in 0u32..5,
            start in any::<u32>(),
            steps in prop::collection::vec(cq_step(), 0..200),
        ) {
            let entries = 1 << order;
            let mut cq = Cq::new(entries, start);
            let mut expected = VecDeque::new();
            let mut armed: Option<bool> = None;
            let mut lost = false;
            for (wr_id, step) in steps.into_iter().enumerate() {
                match step {
                    CqStep::Complete(solicited) => {
                        let raised = cq.complete(wr_id as u64, solicited);
                        if expected.len() == entries as usize {
                            prop_assert_eq!(raised, None);
                            lost = true;
                        } else {
                            expected.push_back(wr_id as u64);
                            let raise = match armed {
                                None => false,
                                Some(solicited_only) => solicited || !solicited_only,
                            };
                            prop_assert_eq!(raised, Some(raise));
                            if raise {
                                armed = None;
                            }
                        }
                    }
                    CqStep::Poll(max) => {
                        let state = cq.ring.state();
                        prop_assert_eq!(state == CqState::Overflow, lost);
                        let mut got = Vec::new();
                        let n = cq.ring.poll(max, |cqe| got.push(cqe.wr_id));
                        prop_assert_eq!(n, got.len());
                        prop_assert_eq!(n, max.min(expected.len()));
                        let want: Vec<_> = expected.drain(..n).collect();
                        prop_assert_eq!(got, want);
                    }
                    CqStep::Arm(solicited_only) => {
                        let waiting = cq.ring.arm(solicited_only);
                        prop_assert_eq!(waiting, !expected.is_empty());
                        armed = Some(armed.unwrap_or(true) && solicited_only);
                    }
                    CqStep::Disarm => {
                        cq.ring.disarm();
                        armed = None;
                    }
                }
            }
        }

        #[test]
        fn nonsense_from_the_kernel_stays_inside_of_the_ring(
            producer in any::<u32>(),
            max in 0usize..100,
        ) {
            let mut cq = Cq::new(8, 0);
            cq.memory.store(CqRing::<Model>::PRODUCER, producer);
            prop_assert!(cq.ring.poll(max, |_| ()) <= 8);
        }

        #[test]
        fn an_srq_is_a_bounded_queue(
            order in 0u32..5,
            start in any::<u32>(),
            max_sge in 1u32..4,
            steps in prop::collection::vec(
                prop::option::of((any::<u64>(), prop::collection::vec(any::<(u64, u32)>(), 0..5))),
                0..200,
            ),
        ) {
            type R = SrqRing<Model>;
            let entries = 1u32 << order;
            let stride = 16 + 16 * max_sge as usize;
            let memory = Model::new(128 + entries as usize * stride);
            memory.store(R::PRODUCER, start);
            memory.store(R::CONSUMER, start);
            let mut ring = SrqRing::new(memory.clone(), &info(entries, stride), max_sge).unwrap();
            let layout = ring.layout;
            let mut expected = VecDeque::new();
            for step in steps {
                match step {
                    Some((wr_id, sges)) => {
                        let result = ring.post(wr_id, sges.iter().copied());
                        if sges.len() > max_sge as usize {
                            prop_assert!(matches!(result, Err(Error::InvalidArgument(_))));
                        } else if expected.len() == entries as usize {
                            prop_assert_eq!(result, Err(Error::SrqFull { entries }));
                        } else {
                            prop_assert_eq!(result, Ok(()));
                            expected.push_back((wr_id, sges));
                        }
                    }
                    // The kernel takes one.
                    None => {
                        let index = memory.load(R::CONSUMER);
                        let waiting = memory.load(R::PRODUCER).wrapping_sub(index);
                        prop_assert_eq!(waiting as usize, expected.len());
                        let Some((wr_id, sges)) = expected.pop_front() else {
                            continue;
                        };
                        let mut bytes = vec![0; stride];
                        memory.read(layout.offset(index), &mut bytes);
                        let word = |at: usize| {
                            u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
                        };
                        let long = |at: usize| {
                            u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
                        };
                        prop_assert_eq!(long(0), wr_id);
                        prop_assert_eq!(word(8) as usize, sges.len());
                        prop_assert_eq!(word(12), 0);
                        for (i, (addr, length)) in sges.iter().enumerate() {
                            prop_assert_eq!(long(16 + 16 * i), *addr);
                            prop_assert_eq!(word(24 + 16 * i), *length);
                        }
                        memory.add(R::CONSUMER, 1);
                    }
                }
            }
        }
    }

    #[test]
    fn flags_of_an_srq_are_heeded() {
        type R = SrqRing<Model>;
        let memory = Model::new(128 + 4 * 32);
        let mut ring = SrqRing::new(memory.clone(), &info(4, 32), 1).unwrap();
        assert!(!ring.need_kick());
        memory.store(R::FLAGS, IB_XRC_SRQ_RING_NEED_KICK);
        assert!(ring.need_kick());
        assert_eq!(ring.post(1, [(0, 0)].into_iter()), Ok(()));
        memory.store(R::FLAGS, IB_XRC_SRQ_RING_ERROR);
        assert_eq!(ring.post(1, [(0, 0)].into_iter()), Err(Error::SrqError));
    }

    #[test]
    fn a_dead_cq_is_told_apart() {
        let cq = Cq::new(4, 0);
        assert_eq!(cq.ring.state(), CqState::Alive);
        let flags = IB_XRC_CQ_RING_DEAD | IB_XRC_CQ_RING_OVERFLOW;
        cq.memory.store(CqRing::<Model>::FLAGS, flags);
        assert_eq!(cq.ring.state(), CqState::Dead);
    }

    #[test]
    fn impossible_rings_are_refused() {
        let memory = Model::new(128 + 4 * 64);
        for bad in [info(3, 64), info(0, 64), info(8, 64), info(4, 32)] {
            assert!(CqRing::new(memory.clone(), &bad).is_err());
        }
        assert!(CqRing::new(memory.clone(), &info(u32::MAX / 2 + 1, usize::MAX >> 32)).is_err());
        assert!(SrqRing::new(memory.clone(), &info(4, 64), 4).is_err());
        assert!(SrqRing::new(memory, &info(4, 64), 3).is_ok());
    }

    #[test]
    fn a_mapping_is_memory() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let info = ib_xrc_ring_info {
            mmap_offset: 0,
            mmap_length: 4096,
            entries: 32,
            stride: 64,
        };
        let kernel = Mapping::new(&file, &info, "map").unwrap();
        let mut ring = CqRing::new(Mapping::new(&file, &info, "map").unwrap(), &info).unwrap();
        let cqe = ib_xrc_cqe {
            wr_id: 42,
            ..Default::default()
        };
        kernel.write(128, bytes_of(&cqe));
        kernel.store(CqRing::<Mapping>::PRODUCER, 1);
        assert!(ring.arm(true));
        assert_eq!(kernel.load(CqRing::<Mapping>::ARM), IB_XRC_CQ_ARM_SOLICITED);
        let mut got = 0;
        assert_eq!(ring.poll(10, |cqe| got = cqe.wr_id), 1);
        assert_eq!(got, 42);
        assert_eq!(kernel.load(CqRing::<Mapping>::CONSUMER), 1);
    }
}
