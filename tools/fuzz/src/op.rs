// SPDX-License-Identifier: GPL-2.0

//! What a thread does, as data: it names objects by where the process keeps them, so that
//! it means the same whenever it is done, and can be kept in a file.

use serde::{Deserialize, Serialize};

use crate::table::Object;

/// Open files of `/dev/infiniband/xrc` of a process.
pub const FILES: u8 = 4;
/// Objects of each kind that a file has at most.
pub const SLOTS: u8 = 3;
/// Event files, and completion channels, of a file.
pub const FDS: u8 = 2;
/// Files that domains are found by; one more opens none.
pub const DOMAINS: u8 = 3;
/// Threads of a process.
pub const THREADS: u8 = 2;

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub file: u8,
    pub slot: u8,
}

/// A descriptor of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fd {
    /// A file of the device.
    File(u8),
    Event(Place),
    Channel(Place),
    /// A file that a domain is found by; the last one is read-only.
    Domain(u8),
    /// Any number.
    Number(i64),
}

/// A pointer that an attribute should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bad {
    Null,
    /// Nothing is mapped there.
    Unmapped,
    /// So many bytes before the end of what is mapped.
    End(u8),
    ReadOnly,
    Kernel,
    NotCanonical,
}

/// Something that is known only when the call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Number {
    /// The number of a TGT QP, of an SRQ, or the key of an MR.
    Of(Object, Place),
    /// One that any process has published lately.
    Published(Object, u8),
    /// An address in the memory that messages may go to.
    Arena(u32),
    Exact(u64),
}

/// The attributes of a QP for a transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// `enum ib_qp_state`
    pub state: u32,
    /// Bits of the mask that are the wrong way round.
    pub mask: u32,
    /// Bytes that are overwritten, and with what.
    pub noise: Vec<(u8, u8)>,
}

/// What an attribute carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Nothing: the kernel is to write a handle or a descriptor.
    New,
    Handle(Object, Place),
    Fd(Fd),
    /// An integer of so many bytes.
    Number(Number, u16),
    Bytes(Vec<u8>),
    /// The name of the device that the file is for.
    Device,
    Transition(Transition),
    /// Room for so many bytes.
    Out(u16),
    Bad(Bad, u16),
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    pub id: u16,
    pub value: Value,
    pub flags: u16,
    /// A length other than that of the value.
    pub len: Option<u16>,
    pub reserved: u16,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Twist {
    /// The length is off by so much.
    Length(i16),
    /// There are more attributes, or fewer.
    Attrs(i16),
    DriverId(u32),
    Reserved1(u64),
    Reserved2(u32),
    /// Another command of ioctl(2).
    Command(u32),
    /// The header is not where it should be.
    Pointer(Bad),
    /// It ends where mapped memory ends, or so many bytes behind that.
    AtEnd(u8),
}

/// A call of a method, or of what looks like one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub file: u8,
    pub object: u16,
    pub method: u16,
    /// Where a new handle or descriptor is kept.
    pub slot: u8,
    /// If there is an object already, close it first; else leave it.
    pub replace: bool,
    pub attrs: Vec<Attr>,
    pub twists: Vec<Twist>,
}

/// A ring of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ring {
    Cq(Place),
    Srq(Place),
}

/// What a sender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Send {
    /// SEND_WITH_IMM of so many bytes, with these flags of the wire format.
    Message {
        srq: Number,
        flags: u8,
        len: u16,
    },
    /// SEND without immediate data.
    Plain {
        len: u16,
    },
    Write {
        rkey: Number,
        addr: Number,
        len: u16,
        imm: bool,
    },
    Read {
        rkey: Number,
        addr: Number,
        len: u16,
    },
    Atomic {
        rkey: Number,
        addr: Number,
    },
}

/// What is done to the memory that messages go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    ReadOnly,
    Nothing,
    Writable,
    Discard,
    Unmap,
}

/// One thing that a thread does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Call(Call),
    /// Open a file of the device, without binding it if `false`.
    Open(u8, bool),
    /// Close a descriptor.
    Close(Fd),
    /// dup(2) it, and close the old one.
    Dup(Fd),
    /// Pass it through a socket, or leave it in one that is closed.
    Pass(Fd, bool),
    /// read(2) so many bytes; wait for them if `true`.
    Read(Fd, u16, bool),
    Poll(Fd, u8),
    /// Another system call on it: which one, and with what.
    Other(Fd, u8, u64),
    /// Map a ring as it is meant to be.
    Map(Ring),
    /// mmap(2) with an offset near that of a ring, in pages; so many pages; what of it is
    /// unmapped again.
    OddMap {
        ring: Ring,
        off: i64,
        pages: u8,
        prot: u8,
        shared: bool,
        unmap: u8,
    },
    Unmap(Ring),
    /// Post work requests to an SRQ as is right.
    Post {
        srq: Place,
        count: u8,
        len: u32,
    },
    /// Take what completed, and arm the CQ.
    Take {
        cq: Place,
        arm: u32,
    },
    /// Write words to a ring at random.
    Scribble {
        ring: Ring,
        words: Vec<(u32, u32)>,
    },
    /// Do something to the memory at a page.
    Memory(u8, Memory),
    /// Connect the sender of the process with a TGT QP.
    Converse(Place),
    Send(Send, u8),
    /// Interrupt another thread of the process.
    Signal(u8),
    /// Have a child make these calls, and die of a signal or by itself.
    Fork(Vec<Call>, bool),
}

/// What a thread does before it looks what that has covered.
pub type Sequence = Vec<Op>;
