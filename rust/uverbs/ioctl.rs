// SPDX-License-Identifier: GPL-2.0

//! The way of a call.
//!
//! What is looked at in which order is as in `drivers/infiniband/core/uverbs_ioctl.c`.

use kernel::{
    error::Error,
    fs::file::{
        flags::O_CLOEXEC,
        FileDescriptorReservation, //
    },
    page::PAGE_SIZE,
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

use crate::bindings;

use super::{
    attr::{
        is_zero,
        Data,
        Slot,
        State, //
    },
    method::{
        Bundle,
        MethodSpec,
        ObjectSpec, //
    },
    spec::{
        Access,
        Kind,
        Presence, //
    },
    wire::{
        Header,
        RawAttr,
        F_MANDATORY,
        F_VALID_OUTPUT,
        RDMA_VERBS_IOCTL, //
    },
    Context, //
};

/// `EPROTONOSUPPORT`, which the kernel crate does not have.
pub(super) fn eprotonosupport() -> Error {
    // CAST: Errnos are small.
    Error::from_errno((bindings::EPROTONOSUPPORT as i32).wrapping_neg())
}

// What wire.rs says, which is built on the host too, is what the header says.
const _: () = {
    use core::mem::{
        offset_of,
        size_of, //
    };

    assert!(Header::SIZE == size_of::<bindings::ib_uverbs_ioctl_hdr>());
    assert!(RawAttr::SIZE == size_of::<bindings::ib_uverbs_attr>());
    assert!(RawAttr::FLAGS_OFFSET == offset_of!(bindings::ib_uverbs_attr, flags));
    assert!(F_MANDATORY as u32 == bindings::UVERBS_ATTR_F_MANDATORY);
    assert!(F_VALID_OUTPUT as u32 == bindings::UVERBS_ATTR_F_VALID_OUTPUT);
};

/// Serves an ioctl(2) on the file `context`: finds the method among `objects`, checks the attributes
/// and runs the handler. Sleeps.
///
/// If it fails, nothing is left of the handles and descriptors which the call would have made.
///
/// The errnos, besides those of the handler:
///
/// * `ENOTTY`: `cmd` is not `RDMA_VERBS_IOCTL`.
/// * `EFAULT`: a bad pointer.
/// * `EINVAL`: the header is malformed or for another driver; an attribute is malformed, twice there
///   or missing; a handle is one of something else.
/// * `EPROTONOSUPPORT`: there is no such object or method, or no such attribute though it is flagged
///   mandatory.
/// * `EOPNOTSUPP`: what is beyond the known length of an attribute is not zero.
/// * `ENOENT`, `EBUSY`: a handle does not exist, or cannot be used now.
/// * `EMFILE`, `ENOSPC`, `ENOMEM`: there are too many descriptors or handles.
pub(crate) fn ioctl<C: Context>(
    context: &C,
    objects: &'static [ObjectSpec<C>],
    cmd: u32,
    arg: usize,
) -> Result<isize> {
    if cmd != RDMA_VERBS_IOCTL {
        return Err(ENOTTY);
    }

    let address = UserPtr::from_addr(arg);
    let mut header = [0; Header::SIZE];

    UserSlice::new(address, Header::SIZE)
        .reader()
        .read_slice(&mut header)?;

    let header = Header::parse(&header);

    header.check(PAGE_SIZE, context.driver_id())?;

    let method = objects
        .iter()
        .find(|object| object.id == header.object_id)
        .and_then(|object| object.methods.iter().find(|m| m.id == header.method_id))
        .ok_or_else(eprotonosupport)?;

    context.admit(header.object_id, header.method_id)?;

    let attrs = address.wrapping_byte_add(Header::SIZE);
    let mut bundle = walk(context, method, attrs, header.num_attrs.into())?;

    (method.run)(context, &mut bundle).map_err(|error| {
        // Says that the framing does not know something, which is not for a handler to say.
        if error == eprotonosupport() {
            EINVAL
        } else {
            error
        }
    })?;
    Ok(0)
}

/// Checks the attributes of a call, in the order in which it gives them, and takes what they name.
fn walk<'a, C: Context>(
    context: &'a C,
    method: &'static MethodSpec<C>,
    attrs: UserPtr,
    num_attrs: usize,
) -> Result<Bundle<'a, C>> {
    let mut bundle = Bundle::new();
    let mut presence = Presence::new(method.attrs);
    let mut raw = KVec::new();

    // A page at most, as the header's length was checked. All at once, so that what was checked is
    // what is used.
    UserSlice::new(attrs, num_attrs.saturating_mul(RawAttr::SIZE))
        .read_all(&mut raw, GFP_KERNEL_ACCOUNT)?;

    for (index, bytes) in raw.chunks_exact(RawAttr::SIZE).enumerate() {
        let Some(bytes) = bytes.first_chunk() else {
            continue;
        };
        let data = Data {
            attr: RawAttr::parse(bytes),
            address: attrs.wrapping_byte_add(index.wrapping_mul(RawAttr::SIZE)),
        };
        let tail_is_zero = |len: u16| {
            // CAST: What 32-bit kernels cut off does not count there.
            let tail = UserPtr::from_addr(data.attr.data as usize).wrapping_byte_add(len.into());

            is_zero(tail, data.attr.len().saturating_sub(len.into()))
        };

        let Some((index, spec)) = presence.admit(&data.attr, tail_is_zero)? else {
            continue;
        };
        let (Some(slot), Some(accepts)) = (bundle.slots.get_mut(index), method.accepts.get(index))
        else {
            return Err(EINVAL);
        };

        *slot = Some(Slot(take(context, spec.kind, data, accepts)?));
    }

    presence.complete()?;

    // Only now does the call get what it destroys for itself.
    for slot in &mut bundle.slots {
        *slot = match slot.take() {
            Some(Slot(State::Found(found))) => Some(Slot(State::Exclusive(found.exclude()?))),
            other => other,
        };
    }
    Ok(bundle)
}

/// Takes what an attribute names.
fn take<'a, C: Context>(
    context: &'a C,
    kind: Kind,
    data: Data,
    accepts: &fn(&C::Object) -> bool,
) -> Result<State<'a, C::Object>> {
    let id = data.attr.data_s64();

    Ok(match kind {
        Kind::PtrIn { .. } | Kind::PtrOut { .. } => State::Data(data),
        Kind::RawFd => State::RawFd(i32::try_from(data.attr.data_s64()).map_err(|_| EINVAL)?),
        Kind::Handle(Access::Read) => State::Use(context.handles().get(id, accepts)?),
        Kind::Handle(Access::Destroy) => State::Found(context.handles().find(id, accepts)?),
        Kind::Handle(Access::New) => {
            let reservation = context.handles().reserve()?;

            tell_id(&data, reservation.id().into())?;
            State::New(reservation)
        }
        Kind::NewFd => {
            let reservation = FileDescriptorReservation::get_unused_fd_flags(O_CLOEXEC)?;

            tell_id(&data, reservation.reserved_fd().into())?;
            State::NewFd(reservation)
        }
    })
}

/// Tells the caller the number of what is about to be made.
fn tell_id(data: &Data, id: u64) -> Result {
    UserSlice::new(
        data.address.wrapping_byte_add(RawAttr::DATA_OFFSET),
        size_of::<u64>(),
    )
    .writer()
    .write(&id)
}
