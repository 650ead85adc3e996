// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A domain, in which the processes of a job share TGT QPs.

use std::{
    fmt,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::Arc,
};

use rustix::fs::OFlags;

use crate::{
    context::ContextInner,
    cq::Cq,
    error::{CloseError, Errno, Error, Result},
    framing::Request,
    handle::{Handle, Kind},
    qp_attr::{QpAttr, QpState},
    srq::{Srq, SrqAttr},
    tgt_qp::{self, Target, TgtQp, TgtQpInfo},
    uapi::*,
};

static KIND: Kind = Kind {
    object: IB_XRC_OBJECT_XRCD,
    close: IB_XRC_METHOD_XRCD_CLOSE,
    close_handle: IB_XRC_ATTR_XRCD_CLOSE_HANDLE,
    what: "close the domain",
    busy: "TGT QPs or SRQs made with it still exist",
};

/// How to open a domain.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{fs::File, os::fd::AsFd};
/// use ibxrc::{Context, XrcdOptions};
///
/// let context = Context::open("rxe0")?;
/// let file = File::create("/run/job-42.xrcd")?;
/// let xrcd = context.open_xrcd(XrcdOptions {
///     file: Some(file.as_fd()),
///     create: true,
///     exclusive: false,
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct XrcdOptions<'fd> {
    /// The file whose domain it is: processes that open the same file (the inode
    /// counts) share it. Without one the domain is new, and nobody else's. The file may
    /// be closed afterwards.
    pub file: Option<BorrowedFd<'fd>>,
    /// Make the domain if the file has none; else that is EAGAIN.
    pub create: bool,
    /// Fail with EINVAL if the file has a domain already.
    pub exclusive: bool,
}

/// A domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XrcdInfo {
    /// Inode of its file; 0 if it is anonymous.
    pub inode: u64,
    /// Device number of its file's file system, as the kernel encodes it
    /// (`new_encode_dev`); 0 if it is anonymous.
    pub dev: u32,
    /// When its TGT QPs die: `enum ib_xrc_policy`.
    pub policy: Policy,
    /// Handles open on it, in all processes.
    pub handles: u32,
    /// TGT QPs in it.
    pub tgt_qps: u32,
    /// SRQs in it.
    pub srqs: u32,
}

/// When a TGT QP dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// With its last registration: closed, or its process gone.
    Refs,
    /// One that this library does not know.
    Other(u32),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Refs => f.write_str("refs"),
            Policy::Other(raw) => write!(f, "policy-{raw}"),
        }
    }
}

impl From<&ib_xrc_xrcd_info> for XrcdInfo {
    fn from(raw: &ib_xrc_xrcd_info) -> Self {
        XrcdInfo {
            inode: raw.inode,
            dev: raw.dev,
            policy: match raw.policy {
                IB_XRC_POLICY_REFS => Policy::Refs,
                other => Policy::Other(other),
            },
            handles: raw.handles,
            tgt_qps: raw.tgt_qps,
            srqs: raw.srqs,
        }
    }
}

pub(crate) struct XrcdInner {
    pub(crate) handle: Handle,
}

impl XrcdInner {
    pub(crate) fn context(&self) -> &Arc<ContextInner> {
        self.handle.context()
    }
}

/// A handle on a domain. It stays open until everything made with it is dropped.
pub struct Xrcd {
    pub(crate) inner: Arc<XrcdInner>,
}

impl Xrcd {
    pub(crate) fn open(context: &Arc<ContextInner>, options: XrcdOptions<'_>) -> Result<Self> {
        let mut oflags = OFlags::empty();
        oflags.set(OFlags::CREATE, options.create);
        oflags.set(OFlags::EXCL, options.exclusive);
        let fd = options.file.map_or(-1, |file| file.as_raw_fd());
        Self::open_raw(context, fd, oflags.bits())
    }

    pub(crate) fn open_raw(context: &Arc<ContextInner>, fd: RawFd, oflags: u32) -> Result<Self> {
        let request = Request::new(IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN)
            .new_handle(IB_XRC_ATTR_XRCD_OPEN_HANDLE)
            .raw_fd(IB_XRC_ATTR_XRCD_OPEN_FD, fd)
            .input(IB_XRC_ATTR_XRCD_OPEN_OFLAGS, &oflags);
        let reply = context.call(request);
        reply.result().map_err(|errno| {
            let meanings = [
                (Errno::EBADF, "its file is not open"),
                (
                    Errno::EAGAIN,
                    "the file has no domain on this device, and it was not to be created",
                ),
                (
                    Errno::EINVAL,
                    "the file has a domain on this device already, and it was to be new",
                ),
            ];
            Error::explained("open the domain", errno, &meanings)
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_XRCD_OPEN_HANDLE);
        Ok(Xrcd {
            inner: Arc::new(XrcdInner {
                handle: Handle::new(context, &KIND, id),
            }),
        })
    }

    pub(crate) fn query_raw(&self) -> Result<ib_xrc_xrcd_info> {
        let mut info = ib_xrc_xrcd_info::default();
        let request = Request::new(IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_QUERY)
            .handle(IB_XRC_ATTR_XRCD_QUERY_HANDLE, self.inner.handle.id())
            .output(IB_XRC_ATTR_XRCD_QUERY_RESP_INFO, &mut info);
        let reply = self.inner.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("query the domain", errno))?;
        Ok(info)
    }

    /// Describes the domain.
    pub fn query(&self) -> Result<XrcdInfo> {
        Ok((&self.query_raw()?).into())
    }

    /// Fills `qps` as far as it reaches, with TGT QPs of greater numbers than `after`.
    /// Returns how many there are.
    fn list_tgt_qps(&self, after: Option<u32>, qps: &mut [ib_xrc_tgt_qp_info]) -> Result<u32> {
        let mut count = 0u32;
        let mut request = Request::new(IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_LIST_TGT_QPS)
            .handle(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE, self.inner.handle.id())
            .output(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT, &mut count);
        if let Some(after) = &after {
            request = request.input(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER, after);
        }
        if !qps.is_empty() {
            request = request.output_slice(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS, qps);
        }
        let reply = self.inner.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("list the TGT QPs of the domain", errno))?;
        Ok(count)
    }

    /// Fills `qps` as far as it reaches, with as many calls as that takes. Returns how
    /// many there are.
    pub(crate) fn tgt_qps_into(&self, qps: &mut [ib_xrc_tgt_qp_info]) -> Result<u32> {
        list_in_order(
            qps,
            Request::max_elements::<ib_xrc_tgt_qp_info>(),
            |qp| qp.qp_num,
            |after, part| self.list_tgt_qps(after, part),
        )
    }

    /// Lists the TGT QPs of the domain, whoever made them, in the order of their
    /// numbers.
    pub fn tgt_qps(&self) -> Result<Vec<TgtQpInfo>> {
        let mut raw = vec![ib_xrc_tgt_qp_info::default(); 32];
        loop {
            let n = self.tgt_qps_into(&mut raw)? as usize;
            if n <= raw.len() {
                return raw[..n].iter().map(TgtQpInfo::try_from).collect();
            }
            // A few more, since there may be more by then.
            raw.resize(n + n / 8 + 8, Default::default());
        }
    }

    /// Creates a TGT QP, in the RESET state, and registers with it.
    pub fn create_tgt_qp(&self) -> Result<TgtQp> {
        TgtQp::create(&self.inner)
    }

    /// Registers with the domain's TGT QP of this number, as ibv_open_qp(3): it lives
    /// at least as long as the registration. EINVAL: there is no such TGT QP.
    pub fn open_tgt_qp(&self, qp_num: u32) -> Result<TgtQp> {
        TgtQp::open(&self.inner, qp_num)
    }

    fn target(&self, qp_num: u32) -> Target<'_> {
        Target::Number {
            xrcd: &self.inner,
            qp_num,
        }
    }

    /// [`TgtQp::modify`] by number, without being registered.
    pub fn modify_tgt_qp(&self, qp_num: u32, attr: &QpAttr) -> Result<()> {
        self.target(qp_num).modify(&attr.to_raw())
    }

    /// [`TgtQp::query`] by number, without being registered.
    pub fn query_tgt_qp(&self, qp_num: u32) -> Result<(QpAttr, TgtQpInfo)> {
        tgt_qp::query(&self.target(qp_num))
    }

    /// [`TgtQp::connect`] by number, without being registered.
    pub fn connect_tgt_qp(&self, qp_num: u32, attr: &QpAttr) -> Result<QpState> {
        tgt_qp::connect(&self.target(qp_num), attr)
    }

    /// Creates an SRQ in the domain, which completes into `cq`.
    ///
    /// EINVAL: the attributes are 0 or above [`crate::Limits`], or the CQ is of another
    /// context.
    pub fn create_srq(&self, cq: &Cq, attr: SrqAttr) -> Result<Srq> {
        Srq::create(&self.inner, cq, attr)
    }

    /// Closes the handle. EBUSY: TGT QPs or SRQs made with it exist.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        match self.inner.handle.close() {
            Ok(()) => Ok(()),
            Err(error) => Err(CloseError {
                object: self,
                error,
            }),
        }
    }
}

/// Fills `elements` by calls that fill at most `max` of them, with those after a
/// number, and tell how many come after it. Returns how many there are in all.
fn list_in_order<T>(
    elements: &mut [T],
    max: usize,
    number: impl Fn(&T) -> u32,
    mut call: impl FnMut(Option<u32>, &mut [T]) -> Result<u32>,
) -> Result<u32> {
    let mut after = None;
    let mut done = 0;
    loop {
        let part = &mut elements[done..];
        let room = part.len().min(max);
        let there = call(after, &mut part[..room])?;
        let total = u32::try_from(done)
            .unwrap_or(u32::MAX)
            .saturating_add(there);
        done += room;
        if there as usize <= room || done == elements.len() {
            return Ok(total);
        }
        let last = elements.get(done - 1).map(&number);
        if last <= after {
            return Err(Error::Unexpected("a list out of order".into()));
        }
        after = last;
    }
}

impl fmt::Debug for Xrcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xrcd")
            .field("handle", &self.inner.handle.id())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn long_lists_come_in_parts(
            there in prop::collection::btree_set(1u32..1000, 0..50),
            room in 0usize..60,
            max in 1usize..20,
        ) {
            let there: Vec<u32> = there.into_iter().collect();
            let mut got = vec![0; room];
            let count = list_in_order(&mut got, max, |n| *n, |after, part| {
                assert!(part.len() <= max);
                let rest: Vec<_> = there.iter().filter(|n| Some(**n) > after).collect();
                for (to, from) in part.iter_mut().zip(&rest) {
                    *to = **from;
                }
                Ok(rest.len() as u32)
            });
            prop_assert_eq!(count, Ok(there.len() as u32));
            let n = room.min(there.len());
            prop_assert_eq!(&got[..n], &there[..n]);
        }
    }

    #[test]
    fn a_kernel_that_goes_in_circles_is_not_followed() {
        let mut got = [0u32; 10];
        let result = list_in_order(
            &mut got,
            2,
            |n| *n,
            |_, part| {
                part.fill(7);
                Ok(100)
            },
        );
        assert!(matches!(result, Err(Error::Unexpected(_))));
    }
}
