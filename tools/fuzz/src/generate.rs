// SPDX-License-Identifier: GPL-2.0

//! Sequences of what could be done, from random choices alone.

use std::sync::LazyLock;

use ibxrc::uapi;

use crate::{
    mutate,
    op::{
        Call, Fd, Memory, Number, Op, Place, Ring, Send, Sequence, Value, FDS, FILES, SLOTS,
        THREADS,
    },
    random::Random,
    table::{methods, named, Method, Object},
    value,
    world::{ARENA_HIGH, ARENA_LEN, ARENA_PAGE},
};

/// How often methods are called. What is not here is a 1. What makes and destroys objects
/// takes up to a hundred times as long as the rest; but an object is made only where there is
/// none, so that it is what destroys them that must be rare.
const WEIGHTS: &[(&str, u32)] = &[
    ("QUERY_CONTEXT", 40),
    ("LIST_DEVICES", 12),
    ("XRCD_OPEN", 40),
    ("XRCD_CLOSE", 4),
    ("XRCD_QUERY", 120),
    ("XRCD_LIST_TGT_QPS", 80),
    ("XRCD_LIST_SRQS", 80),
    ("TGT_QP_CREATE", 30),
    ("TGT_QP_OPEN", 30),
    ("TGT_QP_MODIFY", 80),
    ("TGT_QP_QUERY", 180),
    ("TGT_QP_CONNECT", 20),
    ("TGT_QP_CLOSE", 5),
    ("TGT_QP_DISCONNECT", 4),
    ("TGT_QP_LIST_HOLDERS", 90),
    ("CQ_CREATE", 30),
    ("CQ_DESTROY", 4),
    ("SRQ_CREATE", 30),
    ("SRQ_KICK", 180),
    ("SRQ_DESTROY", 2),
    ("SRQ_MODIFY", 160),
    ("SRQ_QUERY", 180),
    ("MR_REG", 20),
    ("MR_DEREG", 4),
];

fn weight(method: &Method) -> u32 {
    let name = method.spec.name();
    let found = WEIGHTS.iter().find(|(known, _)| *known == name);
    found.map_or(1, |(_, weight)| *weight)
}

/// What is done first, so that there is something to be used: all of it could succeed.
pub fn setup(random: &mut Random) -> Sequence {
    const MAKERS: [&str; 7] = [
        "XRCD_OPEN",
        "EVENT_FILE_CREATE",
        "COMP_CHANNEL_CREATE",
        "CQ_CREATE",
        "SRQ_CREATE",
        "TGT_QP_CREATE",
        "MR_REG",
    ];
    let mut ops = Vec::new();
    for file in 0..FILES {
        for name in MAKERS {
            let mut call = value::call(random, named(name), file);
            call.slot = 0;
            ops.push(Op::Call(call));
        }
        for slot in 0..SLOTS {
            let place = Place { file, slot };
            ops.extend([Op::Map(Ring::Cq(place)), Op::Map(Ring::Srq(place))]);
        }
    }
    ops
}

/// Up to two dozen operations, most of them on one file.
pub fn sequence(random: &mut Random) -> Sequence {
    let file = random.byte(FILES);
    let n = 8 + random.below(17);
    let mut ops = Vec::new();
    for _ in 0..n {
        let file = match random.one_in(8) {
            true => random.byte(FILES),
            false => file,
        };
        operation(random, file, &mut ops);
    }
    ops
}

/// A call of any method, with something wrong with it in one of three.
fn call(random: &mut Random, file: u8) -> Call {
    static WEIGHED: LazyLock<Vec<(u32, Method)>> =
        LazyLock::new(|| methods().map(|method| (weight(&method), method)).collect());
    let which = random.weighted(WEIGHED.iter().map(|(weight, _)| *weight));
    let method = WEIGHED[which].1;
    let mut call = value::call(random, method, file);
    match random.below(6) {
        0 | 1 => mutate::call(random, &mut call),
        2 => {
            for attr in &mut call.attrs {
                if let Value::Transition(transition) = &mut attr.value {
                    mutate::transition(random, transition);
                }
            }
        }
        _ => (),
    }
    call
}

fn operation(random: &mut Random, file: u8, ops: &mut Sequence) {
    let place = Place {
        file,
        slot: random.byte(SLOTS),
    };
    let kind = random.below(1000);
    let op = match kind {
        0..=799 => Op::Call(call(random, file)),
        800..=859 => Op::Post {
            srq: place,
            count: 1 + random.byte(8),
            len: random.pick(&[0, 1, 64, 4096, 20000]),
        },
        860..=889 => Op::Take {
            cq: place,
            arm: random.below(4),
        },
        890..=941 => {
            let times = 1 + random.byte(4);
            Op::Send(send(random, file), times)
        }
        942..=953 => Op::Read(
            readable(random, file),
            random.pick(&[0, 1, 8, 23, 24, 48, 4096]),
            random.one_in(16),
        ),
        954..=965 => Op::Poll(readable(random, file), random.byte(2)),
        966..=973 => Op::Map(ring(random, place)),
        974..=977 => odd_map(random, place),
        978..=979 => Op::Unmap(ring(random, place)),
        980..=984 => Op::Memory(random.byte(16), memory(random)),
        985..=988 => Op::Signal(random.byte(THREADS)),
        989..=992 => Op::Other(any_fd(random, file), random.byte(10), random.any()),
        993..=994 => Op::Dup(any_fd(random, file)),
        995 => Op::Pass(any_fd(random, file), random.one_in(12)),
        996 => Op::Close(readable(random, file)),
        998..=999 => {
            // A conversation: somebody to send to, and room for it.
            ops.extend([
                Op::Map(Ring::Srq(place)),
                Op::Post {
                    srq: place,
                    count: 4,
                    len: 4096,
                },
                Op::Converse(place),
            ]);
            let send = send(random, file);
            Op::Send(send, 4)
        }
        _ => match random.below(18) {
            0 => Op::Close(Fd::File(file)),
            1 => Op::Open(file, random.one_in(2)),
            2..=5 => fork(random, file),
            _ => scribble(random, place),
        },
    };
    ops.push(op);
}

fn ring(random: &mut Random, place: Place) -> Ring {
    match random.one_in(2) {
        true => Ring::Cq(place),
        false => Ring::Srq(place),
    }
}

fn readable(random: &mut Random, file: u8) -> Fd {
    let place = Place {
        file,
        slot: random.byte(FDS),
    };
    match random.one_in(3) {
        true => Fd::Channel(place),
        false => Fd::Event(place),
    }
}

fn any_fd(random: &mut Random, file: u8) -> Fd {
    match random.one_in(2) {
        true => Fd::File(file),
        false => readable(random, file),
    }
}

fn memory(random: &mut Random) -> Memory {
    match random.below(12) {
        0 => Memory::ReadOnly,
        1 => Memory::Nothing,
        2 => Memory::Unmap,
        3..=4 => Memory::Discard,
        // Most of it is good most of the time.
        _ => Memory::Writable,
    }
}

fn odd_map(random: &mut Random, place: Place) -> Op {
    Op::OddMap {
        ring: ring(random, place),
        off: random.pick(&[0, 0, 0, 1, -1, 2, 65536, i64::MAX >> 13]),
        pages: random.pick(&[0, 1, 1, 2, 3, 64]),
        prot: random.byte(8),
        shared: !random.one_in(4),
        unmap: random.byte(4),
    }
}

fn send(random: &mut Random, file: u8) -> Send {
    let place = Place {
        file,
        slot: random.byte(SLOTS),
    };
    let len = random.pick(&[0, 1, 8, 100, 4095, 4096, 4097, 12000]);
    let number = |random: &mut Random, object| match random.below(20) {
        0 => Number::Exact(random.any() & 0xff_ffff),
        1..=6 => Number::Published(object, random.byte(u8::MAX)),
        _ => Number::Of(object, place),
    };
    match random.below(32) {
        0 => Send::Plain { len },
        1..=3 => Send::Write {
            rkey: number(random, Object::Mr),
            addr: Number::Arena(random.below(ARENA_LEN)),
            len,
            imm: random.one_in(8),
        },
        4 => Send::Read {
            rkey: number(random, Object::Mr),
            addr: Number::Arena(random.below(ARENA_LEN)),
            len,
        },
        5 => Send::Atomic {
            rkey: number(random, Object::Mr),
            addr: Number::Arena(random.below(ARENA_LEN) & !7),
        },
        6..=8 => Send::Message {
            srq: number(random, Object::Srq),
            flags: random.byte(u8::MAX),
            len,
        },
        9..=12 => Send::Message {
            srq: number(random, Object::Srq),
            flags: random.pick(&[
                uapi::IB_XRC_WIRE_MORE,
                uapi::IB_XRC_WIRE_CONT,
                uapi::IB_XRC_WIRE_MORE | uapi::IB_XRC_WIRE_CONT,
                uapi::IB_XRC_WIRE_HDR,
                uapi::IB_XRC_WIRE_HDR | uapi::IB_XRC_WIRE_MORE,
                uapi::IB_XRC_WIRE_HDR | uapi::IB_XRC_WIRE_WRITE,
            ]) as u8,
            len: random.pick(&[8, 100, 4096]),
        },
        _ => Send::Message {
            srq: number(random, Object::Srq),
            flags: random.pick(&[0, 0, uapi::IB_XRC_WIRE_SOLICITED as u8]),
            len: random.pick(&[0, 1, 100, 4096]),
        },
    }
}

/// Words that mean something in a ring, and others. None of them is the upper half of an
/// address of this process outside of the memory that messages may go to.
fn scribble(random: &mut Random, place: Place) -> Op {
    const ENTRIES: u32 = uapi::IB_XRC_RING_ENTRIES_OFFSET;
    let n = 1 + random.below(12);
    let words = (0..n)
        .map(|_| {
            let at = match random.below(3) {
                // Of the kernel's line and ours.
                0 => random.below(ENTRIES),
                // Our index.
                1 => ENTRIES / 2,
                _ => random.below(2 * ARENA_PAGE),
            };
            let word = match random.below(4) {
                0 => random.any() as u32 | 0x8000_0000,
                1 => ARENA_HIGH,
                2 => random.pick(&[0, 1, 2, 3, 16, 17, 0x7fff_ffff, u32::MAX]),
                _ => random.below(ARENA_LEN),
            };
            (at & !3, word)
        })
        .collect();
    Op::Scribble {
        ring: ring(random, place),
        words,
    }
}

fn fork(random: &mut Random, file: u8) -> Op {
    let n = 1 + random.below(12);
    let calls = (0..n).map(|_| call(random, file)).collect();
    Op::Fork(calls, random.one_in(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seed: u64) -> Sequence {
        sequence(&mut Random::new(seed, [0; 4]))
    }

    #[test]
    fn seeds_reproduce() {
        for seed in 0..50 {
            assert_eq!(of(seed), of(seed));
        }
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn they_can_be_kept() {
        for seed in 0..50 {
            let text = serde_json::to_string(&of(seed)).unwrap();
            let read: Sequence = serde_json::from_str(&text).unwrap();
            assert_eq!(read, of(seed));
        }
    }

    #[test]
    fn each_method_is_called() {
        let mut seen = vec![false; methods().count()];
        for seed in 0..3000 {
            for op in of(seed) {
                if let Op::Call(call) = op {
                    if let Some(method) = crate::table::find(call.object, call.method) {
                        seen[method.index] = true;
                    }
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn weights_are_those_of_methods() {
        for (name, _) in WEIGHTS {
            named(name);
        }
    }
}
