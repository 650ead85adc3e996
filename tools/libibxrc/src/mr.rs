// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory of a domain, which senders read and write by RDMA.

use std::{fmt, sync::Arc};

use crate::{
    error::{CloseError, Errno, Error, Result},
    framing::Request,
    handle::{Handle, Kind},
    uapi::*,
    verbs::{
        IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_REMOTE_WRITE,
    },
    xrcd::XrcdInner,
};

static KIND: Kind = Kind {
    object: IB_XRC_OBJECT_MR,
    close: IB_XRC_METHOD_MR_DEREG,
    close_handle: IB_XRC_ATTR_MR_DEREG_HANDLE,
    what: "deregister the memory",
    busy: "another thread is using it",
};

/// What senders may do with memory, if the TGT QP takes it too: see
/// [`crate::QpAttr::access_flags`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrAccess {
    /// RDMA READ.
    pub remote_read: bool,
    /// RDMA WRITE.
    pub remote_write: bool,
    /// Compare-and-swap, fetch-and-add.
    pub remote_atomic: bool,
}

impl MrAccess {
    /// All of it.
    pub const ALL: Self = MrAccess {
        remote_read: true,
        remote_write: true,
        remote_atomic: true,
    };

    fn flags(self) -> u32 {
        let mut flags = 0;
        if self.remote_read {
            flags |= IBV_ACCESS_REMOTE_READ;
        }
        if self.remote_write {
            flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
        }
        if self.remote_atomic {
            flags |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
        }
        flags
    }
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrAttr {
    /// Where it starts.
    pub addr: *mut u8,
    /// Bytes.
    pub length: usize,
    /// The address by which senders name its start, if that is not `addr`. It must have the
    /// same offset in the page.
    pub iova: Option<u64>,
    /// What senders may do.
    pub access: MrAccess,
}

/// Memory that is registered in a domain.
pub struct Mr {
    handle: Handle,
    rkey: u32,
    /// It stays open as long as there are MRs made with it.
    _xrcd: Arc<XrcdInner>,
}

impl Mr {
    pub(crate) fn reg(xrcd: &Arc<XrcdInner>, attr: MrAttr) -> Result<Self> {
        Self::reg_raw(
            xrcd,
            attr.addr as u64,
            attr.length as u64,
            attr.iova,
            attr.access.flags(),
        )
    }

    /// With flags as ibv_reg_mr(3) has them.
    pub(crate) fn reg_raw(
        xrcd: &Arc<XrcdInner>,
        addr: u64,
        length: u64,
        iova: Option<u64>,
        access: u32,
    ) -> Result<Self> {
        let context = xrcd.context();
        let mut rkey = 0u32;
        let mut request = Request::new(IB_XRC_OBJECT_MR, IB_XRC_METHOD_MR_REG)
            .new_handle(IB_XRC_ATTR_MR_REG_HANDLE)
            .handle(IB_XRC_ATTR_MR_REG_XRCD, xrcd.handle.id())
            .input(IB_XRC_ATTR_MR_REG_ADDR, &addr)
            .input(IB_XRC_ATTR_MR_REG_LENGTH, &length)
            .input(IB_XRC_ATTR_MR_REG_ACCESS_FLAGS, &access)
            .output(IB_XRC_ATTR_MR_REG_RESP_RKEY, &mut rkey);
        if let Some(iova) = &iova {
            request = request.input(IB_XRC_ATTR_MR_REG_IOVA, iova);
        }
        let reply = context.call(request);
        reply.result().map_err(|errno| {
            let meanings = [
                (
                    Errno::EINVAL,
                    "it is empty or wraps around, the address for senders has another offset in \
                     the page, or remote writes and atomics are wanted without local writes",
                ),
                (
                    Errno::EOPNOTSUPP,
                    "only local writes and remote reads, writes and atomics can be allowed",
                ),
                (
                    Errno::EFAULT,
                    "it is not mapped, or may not be written by this process itself",
                ),
                (
                    Errno::ENOMEM,
                    "the process may not lock so much memory: see ulimit -l",
                ),
                (
                    Errno::EPERM,
                    "the process may not lock memory: see ulimit -l",
                ),
            ];
            Error::explained("register memory in the domain", errno, &meanings)
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_MR_REG_HANDLE);
        Ok(Mr {
            handle: Handle::new(context, &KIND, id),
            rkey,
            _xrcd: xrcd.clone(),
        })
    }

    /// The key by which senders name it.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Deregisters it. After that nobody accesses the memory any more.
    #[allow(clippy::result_large_err, reason = "it is what was given")]
    pub fn close(self) -> Result<(), CloseError<Self>> {
        let closed = self.handle.close();
        CloseError::unless(closed, self)
    }
}

impl fmt::Debug for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr")
            .field("rkey", &self.rkey)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_needs_local_write() {
        assert_eq!(MrAccess::default().flags(), 0);
        let read = MrAccess {
            remote_read: true,
            ..Default::default()
        };
        assert_eq!(read.flags(), IBV_ACCESS_REMOTE_READ);
        let atomic = MrAccess {
            remote_atomic: true,
            ..Default::default()
        };
        assert_eq!(
            atomic.flags(),
            IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE
        );
        assert_eq!(
            MrAccess::ALL.flags(),
            IBV_ACCESS_LOCAL_WRITE
                | IBV_ACCESS_REMOTE_READ
                | IBV_ACCESS_REMOTE_WRITE
                | IBV_ACCESS_REMOTE_ATOMIC
        );
    }
}
