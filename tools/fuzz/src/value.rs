// SPDX-License-Identifier: GPL-2.0

//! What the attributes of a call carry when nothing is wrong with it.

use ibxrc::{uapi, verbs};

use crate::{
    op::{Attr, Call, Fd, Number, Place, Transition, Value, DOMAINS, FDS, SLOTS},
    random::Random,
    table::{AttrSpec, Kind, Method, Object},
    world::{ARENA_LEN, ARENA_PAGE},
};

const IN_STATES: [u32; 8] = [
    verbs::IBV_QPS_RESET,
    verbs::IBV_QPS_INIT,
    verbs::IBV_QPS_RTR,
    verbs::IBV_QPS_RTR,
    verbs::IBV_QPS_RTS,
    verbs::IBV_QPS_RTS,
    verbs::IBV_QPS_ERR,
    verbs::IBV_QPS_SQD,
];

/// A call of `method` on a file that could succeed.
pub fn call(random: &mut Random, method: Method, file: u8) -> Call {
    let slot = random.byte(SLOTS);
    let mut maker = Maker { random, file, slot };
    let wanted = maker.choose(method);
    let attrs = wanted
        .into_iter()
        .map(|spec| maker.attr(spec, method))
        .collect();
    Call {
        file,
        object: method.object.id,
        method: method.spec.id,
        slot,
        replace: random.one_in(30),
        attrs,
        twists: Vec::new(),
    }
}

struct Maker<'a> {
    random: &'a mut Random,
    file: u8,
    slot: u8,
}

impl Maker<'_> {
    /// Which attributes the call has: at will, but where one excludes another.
    fn choose(&mut self, method: Method) -> Vec<&'static AttrSpec> {
        let names: &[&str] = if method.spec.attr("qp_num").is_some_and(|a| !a.mandatory) {
            let release = method.spec.attr("release").is_some() && self.random.one_in(4);
            match (release, self.random.one_in(3)) {
                (true, _) => &["handle", "xrcd", "qp_num"],
                (false, true) => &["handle", "release"],
                (false, false) => &["xrcd", "qp_num", "release"],
            }
        } else if method.spec.attr("index").is_some() {
            // By name: what has an index goes and comes.
            &["index"]
        } else {
            &[]
        };
        let excludes = |spec: &&AttrSpec| !names.contains(&spec.name);
        let specs = method.spec.attrs.iter().filter(excludes);
        let either = |spec: &&AttrSpec| {
            let form = ["handle", "xrcd", "qp_num", "release", "name"].contains(&spec.name);
            spec.mandatory || form || self.random.one_in(2)
        };
        specs.filter(either).collect()
    }

    fn attr(&mut self, spec: &AttrSpec, method: Method) -> Attr {
        Attr {
            id: spec.id,
            value: self.value(spec, method),
            flags: uapi::UVERBS_ATTR_F_MANDATORY as u16,
            len: None,
            reserved: 0,
        }
    }

    fn value(&mut self, spec: &AttrSpec, method: Method) -> Value {
        match spec.kind {
            Kind::New | Kind::NewFd => Value::New,
            Kind::Handle(object) | Kind::Destroy(object) => Value::Handle(object, self.place()),
            Kind::RawFd => Value::Fd(self.fd(spec.name)),
            Kind::Out(len) => Value::Out(len),
            Kind::OutArray(len) => Value::Out(len * self.random.pick(&[0, 1, 2, 8])),
            Kind::In(len) => match spec.name {
                "name" => Value::Device,
                "policy" => Value::Bytes(self.policy()),
                "attr" => Value::Transition(Transition {
                    state: self.random.pick(&IN_STATES),
                    mask: 0,
                    noise: Vec::new(),
                }),
                name => Value::Number(self.number(name, method), len),
            },
        }
    }

    fn place(&mut self) -> Place {
        // What belongs together should meet often.
        let slot = match self.random.one_in(2) {
            true => self.slot,
            false => self.random.byte(SLOTS),
        };
        Place {
            file: self.file,
            slot,
        }
    }

    fn fd(&mut self, name: &str) -> Fd {
        let place = Place {
            file: self.file,
            slot: self.random.byte(FDS),
        };
        match name {
            "event_file" => Fd::Event(place),
            "comp_channel" => Fd::Channel(place),
            _ => match self.random.byte(DOMAINS + 2) {
                n if n < DOMAINS => Fd::Domain(n),
                _ => Fd::Number(-1),
            },
        }
    }

    fn number(&mut self, name: &str, method: Method) -> Number {
        let random = &mut *self.random;
        let exact = match name {
            "abi_version" => uapi::IB_XRC_ABI_VERSION,
            "index" => random.below(8),
            "oflags" => match random.below(8) {
                0 => (libc::O_CREAT | libc::O_EXCL) as u32,
                1 => 0,
                _ => libc::O_CREAT as u32,
            },
            "job_key" => random.below(2),
            "cqe" => match random.below(100) {
                0 => 1 << 16,
                _ => random.pick(&[1, 4, 16, 64]),
            },
            "max_wr" => match random.below(100) {
                0 => 1 << 15,
                _ => random.pick(&[1, 4, 16, 64]),
            },
            "max_sge" => random.pick(&[1, 2, 3, 16]),
            "limit" => random.below(20),
            "depth" => random.pick(&[1, 2, 16, 4096]),
            "timeout_ms" => random.pick(&[0, 1, 5, 20]),
            "access_flags" => {
                verbs::IBV_ACCESS_LOCAL_WRITE | (random.below(8) * verbs::IBV_ACCESS_REMOTE_WRITE)
            }
            "length" => 1 + random.below(4 * ARENA_PAGE),
            "addr" => {
                let page = random.below(ARENA_LEN / ARENA_PAGE - 5) * ARENA_PAGE;
                let offset = random.pick(&[0, 0, 0, 1, 2000]);
                return Number::Arena(page + offset);
            }
            "iova" => return Number::Exact(random.any() & !0xfff),
            "qp_num" => return self.qp_num(),
            "after" => match random.below(3) {
                0 if method.spec.name() == "XRCD_LIST_TGT_QPS" => return self.qp_num(),
                1 => random.below(1 << 24),
                _ => 0,
            },
            // user_handle
            _ => return Number::Exact(random.any()),
        };
        Number::Exact(exact.into())
    }

    fn qp_num(&mut self) -> Number {
        match self.random.one_in(2) {
            true => Number::Of(Object::TgtQp, self.place()),
            false => Number::Published(Object::TgtQp, self.random.byte(u8::MAX)),
        }
    }

    /// `struct ib_xrc_policy`
    fn policy(&mut self) -> Vec<u8> {
        let random = &mut *self.random;
        let lingers = random.one_in(2);
        let (kind, flags) = match lingers {
            true => (uapi::IB_XRC_POLICY_DOMAIN, random.below(8)),
            false => (uapi::IB_XRC_POLICY_REFS, random.below(4) & 1),
        };
        let linger_ms = match lingers {
            true => random.pick(&[0, 10, 200]),
            false => 0,
        };
        let limits = match random.below(4) {
            0 => [2, 2],
            _ => [0, 0],
        };
        let mut bytes = Vec::new();
        for word in [kind, flags, linger_ms, limits[0], limits[1], 0] {
            bytes.extend(word.to_ne_bytes());
        }
        let max_bytes: u64 = random.pick(&[0, 0, 0, 1 << 20]);
        bytes.extend(max_bytes.to_ne_bytes());
        bytes
    }
}
