// SPDX-License-Identifier: GPL-2.0

//! The ioctl framing of uverbs.
//!
//! A call is `RDMA_VERBS_IOCTL` with a header that names an object and a method of it, and the
//! attributes of the method. Each method is described by one table, written with [`method!`], from
//! which the checks, the copies and the types of the handler's arguments follow. A handler sees
//! values only, never memory of the caller.
//!
//! The rules and the errnos are those of `drivers/infiniband/core/uverbs_ioctl.c` and `rdma_core.c`;
//! nothing here knows what the objects are.
//!
//! C headers: [`include/uapi/rdma/rdma_user_ioctl_cmds.h`](srctree/include/uapi/rdma/rdma_user_ioctl_cmds.h),
//! [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

pub(crate) mod attr;
mod errno;
pub(crate) mod handle;
mod ioctl;
mod method;
mod spec;
mod usage;
mod wire;

use kernel::{
    error::{
        code::*,
        Error,
        Result, //
    }, //
};

pub(crate) use self::{
    errno::Errno,
    handle::HandleTable,
    ioctl::ioctl,
    method::{
        method,
        MethodSpec,
        ObjectSpec, //
    }, //
};

/// What the macro [`method!`] refers to; not meant to be used by name.
pub(crate) mod macros {
    pub(crate) use super::{
        attr::Attribute,
        method::{
            attr_id,
            Bundle, //
        },
        spec::{
            is_well_formed,
            AttrSpec, //
        }, //
    };
}

/// What a call works on: an open file.
pub(crate) trait Context: Sync + Sized + 'static {
    /// What the handles of a file stand for. An enum of references, cheap to clone.
    type Object: Clone + Send + Sync + 'static;

    /// What `driver_id` in the header must be (`enum rdma_driver_id`).
    fn driver_id(&self) -> u32;

    /// The handles of the file.
    fn handles(&self) -> &HandleTable<Self::Object>;

    /// Whether a method may be called at all, before anything of its attributes is looked at. This
    /// is where uverbs answers `EIO` for a device that is gone.
    fn admit(&self, object_id: u16, method_id: u16) -> Result {
        let _ = (object_id, method_id);
        Ok(())
    }
}

/// One kind of object, out of those which a handle may stand for.
pub(crate) trait FromObject<O>: Clone {
    /// The object as one of this kind, if it is.
    fn from_object(object: &O) -> Option<&Self>;
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Busy => EBUSY,
            Errno::Inval => EINVAL,
            Errno::OpNotSupp => EOPNOTSUPP,
            Errno::ProtoNoSupport => ioctl::eprotonosupport(),
        }
    }
}
