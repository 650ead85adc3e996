// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a call.

use ibxrc::uapi;

use crate::{
    op::{
        Attr, Bad, Call, Fd, Number, Op, Place, Ring, Sequence, Transition, Twist, Value, FILES,
        SLOTS,
    },
    random::Random,
    table::{methods, Object},
};

/// Most attributes that a call is given.
pub const MAX_ATTRS: usize = 20;
/// Longest sequence that a mutation makes.
const MAX_OPS: usize = 48;

/// Makes something wrong with a call, or two things.
pub fn call(random: &mut Random, call: &mut Call) {
    for _ in 0..=random.below(2) {
        match random.below(10) {
            0..=1 => header(random, call),
            2 => {
                let attr = stranger(random);
                let at = random.below(call.attrs.len() as u32 + 1) as usize;
                call.attrs.insert(at, attr);
            }
            _ if call.attrs.is_empty() => header(random, call),
            3 => {
                let at = random.below(call.attrs.len() as u32) as usize;
                call.attrs.remove(at);
            }
            4 => {
                let at = random.below(call.attrs.len() as u32) as usize;
                let again = call.attrs[at].clone();
                call.attrs.push(again);
            }
            5 => {
                let (a, b) = (random.any() as usize, random.any() as usize);
                let n = call.attrs.len();
                call.attrs.swap(a % n, b % n);
            }
            _ => {
                let at = random.below(call.attrs.len() as u32) as usize;
                attribute(random, &mut call.attrs[at]);
            }
        }
    }
    call.attrs.truncate(MAX_ATTRS);
}

fn header(random: &mut Random, call: &mut Call) {
    let twist = match random.below(12) {
        0 => Twist::Length(random.pick(&[-16, -8, -1, 1, 8, 16, 4096, -4096])),
        1 => Twist::Attrs(random.pick(&[-2, -1, 1, 2, 40, 16000])),
        2 => Twist::DriverId(random.below(32)),
        3 => Twist::Reserved1(random.any()),
        4 => Twist::Reserved2(random.any() as u32),
        5 => Twist::Command(odd_word(random)),
        6 => Twist::Pointer(bad(random)),
        7 => Twist::AtEnd(0),
        8 => Twist::AtEnd(1 + random.byte(40)),
        9 => {
            call.object = odd_id(random, call.object);
            return;
        }
        10 => {
            call.method = odd_id(random, call.method);
            return;
        }
        _ => {
            // Attributes of one method for another one.
            let n = methods().count() as u32;
            let other = methods().nth(random.below(n) as usize);
            let other = other.expect("it is below their number");
            (call.object, call.method) = (other.object.id, other.spec.id);
            return;
        }
    };
    call.twists.push(twist);
}

/// An attribute that the method may not know.
fn stranger(random: &mut Random) -> Attr {
    let id = (1 << uapi::UVERBS_ID_NS_SHIFT) + random.below(16) as u16;
    Attr {
        id: odd_id(random, id),
        value: Value::Number(Number::Exact(odd_word(random).into()), 4),
        flags: random.pick(&[0, 1, 2, 3, 0xffff]),
        len: random.one_in(2).then(|| random.pick(&[0, 4, 8])),
        reserved: 0,
    }
}

fn attribute(random: &mut Random, attr: &mut Attr) {
    match random.below(9) {
        0 => attr.id = odd_id(random, attr.id),
        1 => {
            let len = random.pick(&[0, 1, 3, 4, 7, 8, 9, 16, 24, 64, 145, 4096, 0xffff]);
            attr.len = Some(len);
        }
        2 => attr.flags = random.pick(&[0, 2, 3, 0x8000]),
        3 => attr.reserved = 1 << random.below(16),
        _ => value(random, &mut attr.value),
    }
}

fn value(random: &mut Random, value: &mut Value) {
    match value {
        Value::New => *value = Value::Number(Number::Exact(odd_word(random).into()), 0),
        Value::Handle(object, place) => match random.below(4) {
            // Of another kind, of another file, or of none.
            0 => *object = random.pick(&Object::ALL),
            1 => place.file = random.byte(FILES),
            2 => place.slot = random.byte(SLOTS),
            _ => *value = Value::Number(Number::Exact(odd_word(random).into()), 0),
        },
        Value::Fd(fd) => {
            let place = Place {
                file: random.byte(FILES),
                slot: 0,
            };
            *fd = match random.below(6) {
                0 => Fd::File(place.file),
                1 => Fd::Event(place),
                2 => Fd::Channel(place),
                3 => Fd::Domain(0),
                4 => Fd::Number(random.pick(&[-1, -2, 0, 1, 1 << 20, 1 << 31, i64::MIN])),
                _ => Fd::Number(random.below(100).into()),
            };
        }
        Value::Number(number, len) => match random.below(8) {
            0 => *value = Value::Bad(bad(random), *len),
            1 => *number = Number::Arena(random.any() as u32),
            2 => *number = Number::Exact(random.any()),
            _ => *number = Number::Exact(odd_long(random)),
        },
        Value::Bytes(bytes) => match random.below(4) {
            0 => *value = Value::Bad(bad(random), bytes.len() as u16),
            1 => bytes.push(random.byte(2)),
            2 => bytes.truncate(random.below(33) as usize),
            _ => {
                if let Some(byte) = pick_mut(random, bytes) {
                    *byte = random.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]);
                }
            }
        },
        Value::Device => *value = Value::Bytes(vec![b'x'; random.below(70) as usize]),
        Value::Transition(transition) => self::transition(random, transition),
        Value::Out(len) => match random.below(2) {
            0 => *value = Value::Bad(bad(random), *len),
            _ => *len = random.pick(&[0, 1, 4, 8, 16, 40, 64, 200, 4096, 0xffff]),
        },
        Value::Bad(bad, _) => *bad = self::bad(random),
    }
}

/// Makes attributes of a QP odd, so that they may still be taken.
pub fn transition(random: &mut Random, transition: &mut Transition) {
    match random.below(3) {
        0 => transition.state = random.below(9),
        1 => transition.mask ^= 1 << random.below(27),
        _ => {
            let at = random.byte(size_of::<uapi::ib_uverbs_qp_attr>() as u8);
            transition.noise.push((at, random.any() as u8));
        }
    }
}

fn pick_mut<'a, T>(random: &mut Random, items: &'a mut [T]) -> Option<&'a mut T> {
    match items.len() {
        0 => None,
        n => items.get_mut(random.below(n as u32) as usize),
    }
}

fn odd_id(random: &mut Random, id: u16) -> u16 {
    match random.below(6) {
        0 => id.wrapping_add(1),
        1 => id.wrapping_sub(1),
        2 => id ^ (1 << uapi::UVERBS_ID_NS_SHIFT),
        3 => 0xffff,
        4 => (1 << uapi::UVERBS_ID_NS_SHIFT) + random.below(24) as u16,
        _ => random.any() as u16,
    }
}

/// A word that is near something.
pub fn odd_word(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => random.any() as u32,
        1 => random.below(64),
        2 => (1u32 << random.below(32)).wrapping_sub(random.below(2)),
        _ => u32::MAX - random.below(4),
    }
}

fn odd_long(random: &mut Random) -> u64 {
    match random.below(2) {
        0 => odd_word(random).into(),
        _ => (u64::from(odd_word(random)) << 32) | u64::from(odd_word(random)),
    }
}

fn bad(random: &mut Random) -> Bad {
    match random.below(6) {
        0 => Bad::Null,
        1 => Bad::Unmapped,
        2 => Bad::End(random.byte(u8::MAX)),
        3 => Bad::ReadOnly,
        4 => Bad::Kernel,
        _ => Bad::NotCanonical,
    }
}

/// Makes another sequence of one that was worth keeping, and of a second one.
pub fn sequence(random: &mut Random, kept: &mut Sequence, other: &[Op]) {
    for _ in 0..=random.below(4) {
        let n = kept.len() as u32;
        match random.below(8) {
            0 if n > 1 => {
                kept.remove(random.below(n) as usize);
            }
            1 if n > 0 => {
                let op = kept[random.below(n) as usize].clone();
                kept.insert(random.below(n) as usize, op);
            }
            2 if !other.is_empty() => {
                let from = random.below(other.len() as u32) as usize;
                let at = random.below(n + 1) as usize;
                let tail = other[from..].iter().take(8).cloned();
                kept.splice(at..at, tail);
            }
            3 => {
                // The same on another file.
                let (from, to) = (random.byte(FILES), random.byte(FILES));
                kept.iter_mut().for_each(|op| move_op(op, from, to));
            }
            _ => {
                if let Some(Op::Call(call)) = pick_mut(random, kept) {
                    self::call(random, call);
                }
            }
        }
    }
    kept.truncate(MAX_OPS);
}

/// Has an operation take place on another file.
fn move_op(op: &mut Op, from: u8, to: u8) {
    let place = match op {
        Op::Call(call) if call.file == from => {
            call.file = to;
            for attr in &mut call.attrs {
                if let Value::Handle(_, place)
                | Value::Fd(Fd::Event(place) | Fd::Channel(place))
                | Value::Number(Number::Of(_, place), _) = &mut attr.value
                {
                    place.file = to;
                }
            }
            return;
        }
        Op::Map(Ring::Cq(place) | Ring::Srq(place))
        | Op::Post { srq: place, .. }
        | Op::Take { cq: place, .. } => place,
        _ => return,
    };
    if place.file == from {
        place.file = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::sequence as generate;

    #[test]
    fn mutants_stay_short() {
        let mut random = Random::new(3, [0; 4]);
        let mut kept = generate(&mut random);
        let other = generate(&mut random);
        for _ in 0..2000 {
            sequence(&mut random, &mut kept, &other);
            assert!(kept.len() <= MAX_OPS);
            for op in &kept {
                if let Op::Call(call) = op {
                    assert!(call.attrs.len() <= MAX_ATTRS);
                }
            }
        }
    }
}
