// SPDX-License-Identifier: GPL-2.0

//! A call as bytes.

use std::mem::{offset_of, size_of};

use ibxrc::{
    uapi::{self, ib_uverbs_attr, ib_uverbs_ioctl_hdr, ib_uverbs_qp_attr},
    verbs::*,
};

use crate::{
    op::{Attr, Call, Number, Transition, Twist, Value},
    scratch::{Scratch, Where},
    shared::Shared,
    table::{self, AttrSpec, Kind},
    world::{World, ARENA},
};

const HEADER: usize = size_of::<ib_uverbs_ioctl_hdr>();
const ATTR: usize = size_of::<ib_uverbs_attr>();

/// Calls that wait longer than this hang.
const MAX_TIMEOUT_MS: u64 = 2000;

/// What the call is made with.
pub struct Message {
    pub bytes: Vec<u8>,
    pub command: u32,
    pub place: Where,
    /// A pointer to something else.
    pub pointer: Option<u64>,
}

/// Puts together what a call is made with, on a file with this driver id.
pub fn build(
    call: &Call,
    world: &World,
    shared: &Shared,
    scratch: &mut Scratch,
    driver_id: u32,
) -> Message {
    scratch.begin();
    let mut header = ib_uverbs_ioctl_hdr {
        length: (HEADER + call.attrs.len() * ATTR) as u16,
        object_id: call.object,
        method_id: call.method,
        num_attrs: call.attrs.len() as u16,
        driver_id,
        ..Default::default()
    };
    let mut message = Message {
        bytes: Vec::with_capacity(HEADER + call.attrs.len() * ATTR),
        command: uapi::IBXRC_VERBS_IOCTL,
        place: Where::Start,
        pointer: None,
    };
    for twist in &call.twists {
        match *twist {
            Twist::Length(by) => header.length = header.length.wrapping_add_signed(by),
            Twist::Attrs(by) => header.num_attrs = header.num_attrs.wrapping_add_signed(by),
            Twist::DriverId(id) => header.driver_id = id,
            Twist::Reserved1(value) => header.reserved1 = value,
            Twist::Reserved2(value) => header.reserved2 = value,
            Twist::Command(command) => message.command = command,
            Twist::Pointer(bad) => message.pointer = Some(scratch.bad(bad)),
            Twist::AtEnd(behind) => message.place = Where::End(behind.into()),
        }
    }
    let bytes = &mut message.bytes;
    bytes.resize(HEADER, 0);
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(
        offset_of!(ib_uverbs_ioctl_hdr, length),
        &header.length.to_ne_bytes(),
    );
    put(
        offset_of!(ib_uverbs_ioctl_hdr, object_id),
        &header.object_id.to_ne_bytes(),
    );
    put(
        offset_of!(ib_uverbs_ioctl_hdr, method_id),
        &header.method_id.to_ne_bytes(),
    );
    put(
        offset_of!(ib_uverbs_ioctl_hdr, num_attrs),
        &header.num_attrs.to_ne_bytes(),
    );
    put(
        offset_of!(ib_uverbs_ioctl_hdr, reserved1),
        &header.reserved1.to_ne_bytes(),
    );
    put(
        offset_of!(ib_uverbs_ioctl_hdr, driver_id),
        &header.driver_id.to_ne_bytes(),
    );
    put(
        offset_of!(ib_uverbs_ioctl_hdr, reserved2),
        &header.reserved2.to_ne_bytes(),
    );
    let method = table::find(call.object, call.method);
    let timeout = method.and_then(|method| method.spec.attr("timeout_ms"));
    for attr in &call.attrs {
        let (len, mut data) = value(attr, call, world, shared, scratch);
        let len = attr.len.unwrap_or(len);
        if timeout.is_some_and(|spec| spec.id == attr.id) && len <= 8 {
            data = data.min(MAX_TIMEOUT_MS);
        }
        bytes.extend(attr.id.to_ne_bytes());
        bytes.extend(len.to_ne_bytes());
        bytes.extend(attr.flags.to_ne_bytes());
        bytes.extend(attr.reserved.to_ne_bytes());
        bytes.extend(data.to_ne_bytes());
    }
    message
}

/// Length and data.
fn value(
    attr: &Attr,
    call: &Call,
    world: &World,
    shared: &Shared,
    scratch: &mut Scratch,
) -> (u16, u64) {
    let mut input = |bytes: &[u8]| {
        let mut inline = [0; 8];
        let data = match inline.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                u64::from_ne_bytes(inline)
            }
            None => scratch.input(bytes),
        };
        (bytes.len() as u16, data)
    };
    match &attr.value {
        Value::New => (0, 0),
        Value::Handle(object, place) => {
            let handle = world.nearest(*object, *place).handle();
            (0, handle.unwrap_or(u32::MAX).into())
        }
        Value::Fd(fd) => (0, world.fd(*fd) as u64),
        Value::Number(value, len) => (*len, number(*value, world, shared)),
        Value::Bytes(bytes) => input(bytes),
        Value::Device => input(world.devices[World::device_of(call.file)].as_bytes()),
        Value::Transition(transition) => input(&qp_attr(transition, world, call.file)),
        Value::Out(len) => (*len, scratch.output()),
        Value::Bad(bad, len) => (*len, scratch.bad(*bad)),
    }
}

/// What it is now.
pub fn number(number: Number, world: &World, shared: &Shared) -> u64 {
    use std::sync::atomic::Ordering::Relaxed;
    match number {
        Number::Of(object, place) => world.nearest(object, place).number.load(Relaxed).into(),
        Number::Published(object, which) => shared.published(object, which).into(),
        Number::Arena(offset) => ARENA as u64 + u64::from(offset),
        Number::Exact(value) => value,
    }
}

/// Attributes of a QP for a transition.
fn qp_attr(transition: &Transition, world: &World, file: u8) -> Vec<u8> {
    // Somebody may be busy with it, perhaps in the process that this was forked of.
    let mut attr = match world.address[World::device_of(file)].try_lock() {
        Ok(address) => *address,
        Err(_) => ib_uverbs_qp_attr::default(),
    };
    attr.qp_state = transition.state;
    attr.qp_attr_mask = transition.mask
        ^ match transition.state {
            IBV_QPS_INIT => IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
            IBV_QPS_RTR => {
                IBV_QP_STATE
                    | IBV_QP_AV
                    | IBV_QP_PATH_MTU
                    | IBV_QP_DEST_QPN
                    | IBV_QP_RQ_PSN
                    | IBV_QP_MAX_DEST_RD_ATOMIC
                    | IBV_QP_MIN_RNR_TIMER
            }
            IBV_QPS_RTS => IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
            _ => IBV_QP_STATE,
        };
    // SAFETY: It is made of integers without padding: `reserved` is where that would be.
    let mut bytes = unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(&attr).cast::<u8>(),
            size_of::<ib_uverbs_qp_attr>(),
        )
    }
    .to_vec();
    for (at, value) in &transition.noise {
        if let Some(byte) = bytes.get_mut(usize::from(*at)) {
            *byte = *value;
        }
    }
    bytes
}

/// An attribute of a message that the kernel may have written to.
fn attr_of(reply: &[u8], spec: &AttrSpec) -> Option<(u16, u64)> {
    let word = |attr: &[u8], at: usize| u16::from_ne_bytes([attr[at], attr[at + 1]]);
    let attr = reply[HEADER..]
        .chunks_exact(ATTR)
        .find(|attr| word(attr, offset_of!(ib_uverbs_attr, attr_id)) == spec.id)?;
    let data = attr[offset_of!(ib_uverbs_attr, __bindgen_anon_1)..].first_chunk()?;
    let flags = word(attr, offset_of!(ib_uverbs_attr, flags));
    Some((flags, u64::from_ne_bytes(*data)))
}

/// What a call that succeeded made: the handle or the descriptor.
pub fn made(reply: &[u8], attrs: &[AttrSpec]) -> Option<u64> {
    let spec = attrs
        .iter()
        .find(|spec| matches!(spec.kind, Kind::New | Kind::NewFd))?;
    Some(attr_of(reply, spec)?.1)
}

/// The handle that an attribute of a call has.
pub fn handle(message: &[u8], spec: &AttrSpec) -> Option<u32> {
    Some(attr_of(message, spec)?.1 as u32)
}

/// What the kernel wrote to an output of a call that succeeded.
pub fn output<const N: usize>(
    reply: &[u8],
    attrs: &[AttrSpec],
    names: &[&str],
    scratch: &Scratch,
) -> Option<[u8; N]> {
    let spec = attrs.iter().find(|spec| names.contains(&spec.name))?;
    let (flags, data) = attr_of(reply, spec)?;
    let written = matches!(spec.kind, Kind::Out(_))
        && u32::from(flags) & uapi::UVERBS_ATTR_F_VALID_OUTPUT != 0;
    written.then(|| scratch.result(data)).flatten()
}
