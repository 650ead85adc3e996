// SPDX-License-Identifier: GPL-2.0

//! A thread that does what it is told.

use std::{
    cell::Cell,
    os::fd::RawFd,
    sync::{atomic::Ordering::Relaxed, MutexGuard, TryLockError},
};

use ibxrc::{uapi, verbs::*};

use crate::{
    kcov::Kcov,
    mapping::Mapping,
    message,
    op::{Attr, Call, Fd, Memory, Op, Place, Ring, Send, Transition, Value},
    peer::Peer,
    scratch::Scratch,
    shared::{Shared, Thread},
    sys,
    table::{self, Kind, Method, Object},
    world::{World, ARENA, ARENA_LEN, ARENA_PAGE},
};

/// Calls that find a file's device gone before the file is closed.
const DEAD: u32 = 40;

/// Conversations that are let go by when there is nobody to send.
const PAUSE: u32 = 20;

/// A thread's means.
pub struct Actor<'a> {
    pub world: &'a World,
    pub shared: &'static Shared,
    pub thread: &'static Thread,
    pub scratch: Scratch,
    pub kcov: Option<Kcov>,
    /// Whether something was covered that nobody had covered before.
    pub new: Cell<bool>,
}

/// What is behind a lock, unless another thread is at it.
fn try_lock<T>(lock: &std::sync::Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
    }
}

fn attr(method: Method, name: &str, value: Value) -> Attr {
    let spec = method.spec.attr(name);
    Attr {
        id: spec
            .unwrap_or_else(|| panic!("{} has no {name}", method.spec.name()))
            .id,
        value,
        flags: uapi::UVERBS_ATTR_F_MANDATORY as u16,
        len: None,
        reserved: 0,
    }
}

/// A call with these attributes.
fn simple(method: &str, place: Place, attrs: &[(&str, Value)]) -> Call {
    let method = table::named(method);
    Call {
        file: place.file,
        object: method.object.id,
        method: method.spec.id,
        slot: place.slot,
        replace: false,
        attrs: attrs
            .iter()
            .map(|(name, value)| attr(method, name, value.clone()))
            .collect(),
        twists: Vec::new(),
    }
}

impl Actor<'_> {
    /// Does one thing.
    pub fn act(&mut self, op: &Op) {
        match op {
            Op::Call(call) => drop(self.call(call)),
            Op::Open(file, bind) => {
                self.close(Fd::File(*file));
                self.open(*file, *bind);
            }
            Op::Close(fd) => self.close(*fd),
            Op::Dup(fd) => self.exchange(*fd, sys::dup),
            Op::Pass(fd, lose) => self.exchange(*fd, |fd| sys::pass(fd, *lose)),
            Op::Read(fd, len, wait) => self.read(*fd, *len, *wait),
            Op::Poll(fd, ms) => self.other(|| sys::poll(self.number(*fd), (*ms).into())),
            Op::Other(fd, which, value) => {
                self.other(|| sys::other(self.number(*fd), *which, *value));
            }
            Op::Map(ring) => self.map(*ring),
            Op::OddMap {
                ring,
                off,
                pages,
                prot,
                shared,
                unmap,
            } => {
                let (file, info) = self.ring(*ring);
                let offset = (info.mmap_offset as i64 >> 12).wrapping_add(*off) << 12;
                self.other(|| sys::odd_map(file, offset, *pages, *prot, *shared, *unmap));
            }
            Op::Unmap(ring) => {
                if let Some(mut map) = try_lock(self.world.map(*ring)) {
                    self.shared.others.fetch_add(1, Relaxed);
                    *map = None;
                }
            }
            Op::Post { srq, count, len } => {
                let addr = ARENA as u64 + u64::from(srq.slot) * u64::from(ARENA_PAGE);
                self.with_map(Ring::Srq(*srq), |map| map.post((*count).into(), addr, *len));
            }
            Op::Take { cq, arm } => self.with_map(Ring::Cq(*cq), |map| {
                let taken = map.take(*arm);
                self.shared.completions.fetch_add(taken.into(), Relaxed);
            }),
            Op::Scribble { ring, words } => self.with_map(*ring, |map| {
                for (at, word) in words {
                    map.put(*at as usize, *word);
                }
            }),
            Op::Memory(page, what) => memory(*page, *what),
            Op::Converse(place) => drop(self.converse(*place)),
            Op::Send(send, times) => self.send(*send, *times),
            Op::Signal(thread) => {
                let threads = &self.world.threads;
                let tid = threads[usize::from(*thread) % threads.len()].load(Relaxed);
                sys::interrupt(std::process::id(), tid as u32);
            }
            Op::Fork(calls, killed) => self.fork(calls, *killed),
        }
        self.thread.done.fetch_add(1, Relaxed);
    }

    fn number(&self, fd: Fd) -> RawFd {
        self.world.fd(fd) as RawFd
    }

    /// A system call on a file of the module other than a method.
    fn other(&self, call: impl FnOnce()) {
        self.shared.others.fetch_add(1, Relaxed);
        if let Some(kcov) = &self.kcov {
            kcov.begin();
        }
        call();
        if let Some(kcov) = &self.kcov {
            self.new.set(kcov.end(self.shared) || self.new.get());
        }
    }

    fn close(&self, fd: Fd) {
        if let Some(shared) = self.world.shared_fd(fd) {
            let old = shared.put(-1);
            if old >= 0 {
                self.other(|| sys::close(old));
            }
        }
    }

    /// Puts another descriptor in the place of one, which is closed.
    fn exchange(&self, fd: Fd, make: impl FnOnce(RawFd) -> RawFd) {
        let Some(shared) = self.world.shared_fd(fd) else {
            return;
        };
        if shared.get() < 0 {
            return;
        }
        let old = shared.put(make(shared.get()));
        if old >= 0 {
            self.other(|| sys::close(old));
        }
    }

    fn read(&self, fd: Fd, len: u16, wait: bool) {
        let number = self.number(fd);
        if number < 0 {
            return;
        }
        sys::set_nonblocking(number, !wait);
        self.other(|| sys::read(number, len.into()));
        sys::set_nonblocking(number, true);
    }

    fn ring(&self, ring: Ring) -> (RawFd, uapi::ib_xrc_ring_info) {
        let (object, place) = match ring {
            Ring::Cq(place) => (Object::Cq, place),
            Ring::Srq(place) => (Object::Srq, place),
        };
        let file = self.number(Fd::File(place.file));
        (file, self.world.slot(object, place).ring())
    }

    fn map(&self, ring: Ring) {
        let (file, info) = self.ring(ring);
        if let Some(mut map) = try_lock(self.world.map(ring)) {
            // It takes long, so that most of the time one is enough.
            let again = self.thread.done.load(Relaxed) % 8 == 0;
            if again || !map.as_ref().is_some_and(|map| map.is_of(&info)) {
                self.other(|| *map = Mapping::new(file, &info));
            }
        }
    }

    fn with_map(&self, ring: Ring, use_it: impl FnOnce(&Mapping)) {
        if let Some(map) = try_lock(self.world.map(ring)) {
            map.as_ref().map(use_it);
        }
    }

    /// Opens a file, if it is not.
    fn open(&mut self, file: u8, bind: bool) {
        let it = self.world.file(file);
        if it.fd.get() < 0 {
            it.driver_id.store(uapi::RDMA_DRIVER_UNKNOWN, Relaxed);
            it.dead.store(0, Relaxed);
            let fd = sys::open_device();
            let old = it.fd.put(fd);
            if old >= 0 {
                // Another thread did the same.
                sys::close(old);
            }
        }
        if bind {
            let info = size_of::<uapi::ib_xrc_device_info>() as u16;
            let version =
                Value::Number(crate::op::Number::Exact(uapi::IB_XRC_ABI_VERSION.into()), 4);
            let place = Place { file, slot: 0 };
            let attrs = [
                ("abi_version", version),
                ("name", Value::Device),
                ("device", Value::Out(info)),
            ];
            let _ = self.make(&simple("BIND", place, &attrs));
        }
    }

    /// Makes a call, having opened its file and made room for what it makes. `None`: it was
    /// not made.
    pub fn call(&mut self, call: &Call) -> Option<Result<(), i32>> {
        let file = self.world.file(call.file);
        let unbound = file.driver_id.load(Relaxed) == uapi::RDMA_DRIVER_UNKNOWN;
        if file.fd.get() < 0 || (unbound && self.thread.done.load(Relaxed) % 16 == 0) {
            self.open(call.file, true);
        }
        if file.dead.load(Relaxed) > DEAD {
            file.dead.store(0, Relaxed);
            self.close(Fd::File(call.file));
        }
        let made = table::find(call.object, call.method).and_then(|method| {
            let makes = |attr: &table::AttrSpec| attr.kind == Kind::New;
            method.spec.attrs.iter().any(makes).then_some(())?;
            method.object.object()
        });
        if let Some(object) = made {
            let place = Place {
                file: call.file,
                slot: call.slot,
            };
            if let Some(handle) = self.world.slot(object, place).handle() {
                if !call.replace {
                    return None;
                }
                self.destroy(object, place);
                if self.world.slot(object, place).handle() == Some(handle) {
                    // Something depends on it.
                    return None;
                }
            }
        }
        Some(self.make(call))
    }

    fn destroy(&mut self, object: Object, place: Place) {
        let method = table::destructor(object);
        let attrs = [(method.spec.attrs[0].name, Value::Handle(object, place))];
        let _ = self.make(&simple(method.spec.name(), place, &attrs));
    }

    /// Makes a call.
    fn make(&mut self, call: &Call) -> Result<(), i32> {
        let file = self.world.file(call.file);
        let driver_id = file.driver_id.load(Relaxed);
        let mut message =
            message::build(call, self.world, self.shared, &mut self.scratch, driver_id);
        let at = self.scratch.message(&message.bytes, message.place);
        let pointer = message.pointer.unwrap_or(at as u64);
        if let Some(kcov) = &self.kcov {
            kcov.begin();
        }
        let result = sys::ioctl(file.fd.get(), message.command, pointer);
        if let Some(kcov) = &self.kcov {
            self.new.set(kcov.end(self.shared) || self.new.get());
        }
        let errno = result.err().unwrap_or(0);
        self.count(call, errno);
        if result.is_ok() && message.command == uapi::IBXRC_VERBS_IOCTL && message.pointer.is_none()
        {
            if let Some(method) = table::find(call.object, call.method) {
                self.scratch.reply(&mut message.bytes);
                self.learn(call, method, &message.bytes);
            }
        } else if errno == libc::EIO {
            file.dead.fetch_add(1, Relaxed);
        } else if errno == libc::ENOENT {
            if let Some(method) = table::find(call.object, call.method) {
                self.forget(call, method, &message.bytes);
            }
        }
        result
    }

    fn count(&self, call: &Call, errno: i32) {
        let counter = match table::find(call.object, call.method) {
            Some(method) if errno == 0 => &self.shared.methods[method.index].good,
            Some(method) => &self.shared.methods[method.index].bad,
            None => &self.shared.strangers,
        };
        counter.fetch_add(1, Relaxed);
        self.shared.errnos[errno as usize % self.shared.errnos.len()].fetch_add(1, Relaxed);
    }

    /// The handles of a call that found one missing were perhaps those of an earlier file.
    fn forget(&self, call: &Call, method: Method, message: &[u8]) {
        for spec in method.spec.attrs {
            if let Kind::Handle(object) | Kind::Destroy(object) = spec.kind {
                if let Some(handle) = message::handle(message, spec) {
                    self.world.forget(object, call.file, handle);
                }
            }
        }
    }

    /// Takes what a call has made, and forgets what it has closed.
    fn learn(&mut self, call: &Call, method: Method, reply: &[u8]) {
        let place = Place {
            file: call.file,
            slot: call.slot,
        };
        let attrs = method.spec.attrs;
        if method.spec.name() == "BIND" {
            // struct ib_xrc_device_info
            const AT: usize = std::mem::offset_of!(uapi::ib_xrc_device_info, driver_id);
            const LEN: usize = size_of::<uapi::ib_xrc_device_info>();
            if let Some(info) = message::output::<LEN>(reply, attrs, &["device"], &self.scratch) {
                let id = u32::from_ne_bytes([info[AT], info[AT + 1], info[AT + 2], info[AT + 3]]);
                self.world.file(call.file).driver_id.store(id, Relaxed);
            }
            return;
        }
        for spec in attrs {
            if let Kind::Destroy(object) = spec.kind {
                if let Some(handle) = message::handle(reply, spec) {
                    self.world.forget(object, call.file, handle);
                }
            }
        }
        let Some(made) = message::made(reply, attrs) else {
            return;
        };
        let Some(object) = method.object.object() else {
            let fd = match method.spec.name() {
                "EVENT_FILE_CREATE" => Fd::Event(place),
                _ => Fd::Channel(place),
            };
            if let Some(shared) = self.world.shared_fd(fd) {
                sys::set_nonblocking(made as RawFd, true);
                let old = shared.put(made as RawFd);
                if old >= 0 {
                    sys::close(old);
                }
            }
            return;
        };
        let names = ["qp_num", "srq_num", "rkey"];
        let number = message::output::<4>(reply, attrs, &names, &self.scratch);
        let ring = message::output::<24>(reply, attrs, &["ring"], &self.scratch);
        let slot = self.world.slot(object, place);
        if let Some(number) = number.map(u32::from_ne_bytes) {
            slot.number.store(number, Relaxed);
            self.shared.publish(object, number);
        } else if method.spec.name() == "TGT_QP_OPEN" {
            let by = method.spec.attr("qp_num").map(|spec| spec.id);
            for attr in call.attrs.iter().filter(|attr| Some(attr.id) == by) {
                if let Value::Number(number, _) = attr.value {
                    let number = message::number(number, self.world, self.shared);
                    slot.number.store(number as u32, Relaxed);
                }
            }
        }
        if let Some(ring) = ring {
            // SAFETY: Both are 24 bytes, of integers.
            slot.set_ring(&unsafe {
                std::mem::transmute::<[u8; 24], uapi::ib_xrc_ring_info>(ring)
            });
        }
        if let Some(old) = slot.fill(made as u32) {
            // Another thread made one, too: this would be left.
            let method = table::destructor(object);
            let value = Value::Number(crate::op::Number::Exact(old.into()), 0);
            let attrs = [(method.spec.attrs[0].name, value)];
            let _ = self.make(&simple(method.spec.name(), place, &attrs));
        }
    }

    /// Connects the sender for a file's device with a TGT QP of it.
    fn converse(&mut self, place: Place) -> Option<()> {
        let device = World::device_of(place.file);
        let mut peer = try_lock(&self.world.peers[device])?;
        if peer.as_mut().is_some_and(|peer| peer.reset().is_err()) {
            // Its device has gone.
            *peer = None;
        }
        if peer.is_none() {
            let pause = &self.world.pause[device];
            let left = pause.load(Relaxed);
            if left > 0 {
                pause.store(left - 1, Relaxed);
                return None;
            }
            *peer = Peer::open(&self.world.devices[device]).ok();
            if peer.is_none() {
                pause.store(PAUSE, Relaxed);
            }
        }
        let peer = peer.as_mut()?;
        *try_lock(&self.world.address[device])? = peer.tgt_attr();
        let to = |state| {
            Value::Transition(Transition {
                state,
                mask: 0,
                noise: Vec::new(),
            })
        };
        let handle = ("handle", Value::Handle(Object::TgtQp, place));
        let reset = [handle.clone(), ("attr", to(IBV_QPS_RESET))];
        self.call(&simple("TGT_QP_MODIFY", place, &reset))?.ok()?;
        let connect = [handle, ("attr", to(IBV_QPS_RTR))];
        self.call(&simple("TGT_QP_CONNECT", place, &connect))?
            .ok()?;
        let number = self.world.slot(Object::TgtQp, place).number.load(Relaxed);
        // It may be gone again.
        peer.connect(number).ok()
    }

    fn send(&mut self, send: Send, times: u8) {
        let number = |number| message::number(number, self.world, self.shared);
        let mut wr = ibv_send_wr {
            opcode: IBV_WR_SEND,
            ..Default::default()
        };
        let mut remote = |rkey, addr| {
            wr.wr.rdma.remote_addr = number(addr);
            wr.wr.rdma.rkey = number(rkey) as u32;
        };
        let device = match send {
            Send::Message {
                srq: crate::op::Number::Of(_, place),
                ..
            } => World::device_of(place.file),
            _ => 0,
        };
        let len = match send {
            Send::Message { srq, flags, len } => {
                let imm = (number(srq) as u32) << uapi::IB_XRC_WIRE_SRQ_NUM_SHIFT;
                wr.opcode = IBV_WR_SEND_WITH_IMM;
                wr.__bindgen_anon_1.imm_data = (imm | u32::from(flags)).to_be();
                len
            }
            Send::Plain { len } => len,
            Send::Write {
                rkey,
                addr,
                len,
                imm,
            } => {
                remote(rkey, addr);
                wr.opcode = match imm {
                    true => IBV_WR_RDMA_WRITE_WITH_IMM,
                    false => IBV_WR_RDMA_WRITE,
                };
                len
            }
            Send::Read { rkey, addr, len } => {
                remote(rkey, addr);
                wr.opcode = IBV_WR_RDMA_READ;
                len
            }
            Send::Atomic { rkey, addr } => {
                wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
                wr.wr.atomic.remote_addr = number(addr);
                wr.wr.atomic.rkey = number(rkey) as u32;
                wr.wr.atomic.compare_add = 1;
                8
            }
        };
        if let Some(peer) = try_lock(&self.world.peers[device]).as_deref_mut() {
            for _ in 0..times {
                if peer.as_mut().is_some_and(|peer| peer.post(wr, len.into())) {
                    self.shared.sends.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Has a child make calls.
    fn fork(&mut self, calls: &[Call], killed: bool) {
        self.shared.forks.fetch_add(1, Relaxed);
        match sys::fork() {
            Err(_) => (),
            Ok(0) => {
                // kcov is that of the parent's thread.
                self.kcov = None;
                self.thread.tid.store(sys::gettid(), Relaxed);
                for call in calls {
                    self.call(call);
                    self.thread.done.fetch_add(1, Relaxed);
                }
                sys::die(killed)
            }
            Ok(child) => {
                sys::wait(child);
                self.thread.tid.store(sys::gettid(), Relaxed);
            }
        }
    }
}

/// Does something to a page of the memory that messages go to.
fn memory(page: u8, what: Memory) {
    let offset = u32::from(page) * ARENA_PAGE % ARENA_LEN;
    let address = ARENA + offset as usize;
    let len = ARENA_PAGE as usize;
    match what {
        Memory::ReadOnly => sys::protect(address, len, libc::PROT_READ),
        Memory::Nothing => sys::protect(address, len, libc::PROT_NONE),
        Memory::Writable => sys::protect(address, len, libc::PROT_READ | libc::PROT_WRITE),
        Memory::Discard => sys::discard(address, len),
        Memory::Unmap => sys::renew(address, len),
    }
}
