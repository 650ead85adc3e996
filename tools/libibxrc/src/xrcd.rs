// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A domain, in which the processes of a job share TGT QPs.

use std::{
    fmt,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::Arc,
    time::Duration,
};

use rustix::fs::OFlags;

use crate::{
    context::ContextInner,
    cq::Cq,
    error::{CloseError, Errno, Error, Result},
    event_file::{EventFileInner, ReportTo},
    framing::Request,
    handle::{Handle, Kind},
    list,
    mr::{Mr, MrAttr},
    policy::{DomainPolicy, JobKey, Policy},
    qp_attr::{QpAttr, QpState},
    srq::{Srq, SrqAttr, SrqInfo, SrqOptions},
    tgt_qp::{self, DisconnectInfo, Holder, Target, TgtQp, TgtQpInfo, TgtQpOptions},
    uapi::*,
};

static KIND: Kind = Kind {
    object: IB_XRC_OBJECT_XRCD,
    close: IB_XRC_METHOD_XRCD_CLOSE,
    close_handle: IB_XRC_ATTR_XRCD_CLOSE_HANDLE,
    what: "close the domain",
    busy: "TGT QPs, SRQs or MRs made with it still exist",
};

/// How to open a domain.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{fs::File, os::fd::AsFd};
/// use ibxrc::{Context, XrcdOptions};
///
/// let context = Context::open("rxe0")?;
/// let file = File::options().read(true).append(true).create(true).open("/run/job-42.xrcd")?;
/// let xrcd = context.open_xrcd(XrcdOptions {
///     file: Some(file.as_fd()),
///     create: true,
///     ..Default::default()
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct XrcdOptions<'a> {
    /// The file whose domain it is: processes that open the same file (the inode
    /// counts) share it. Without one the domain is new, and nobody else's. The file may
    /// be closed afterwards.
    ///
    /// It must be open for reading, to make a domain with a policy for writing too. What the
    /// handle may do with a domain that has [`crate::DomainFlags::USE_NEEDS_WRITE`] is
    /// decided by it, for good: if it is not open for writing, query and list only.
    pub file: Option<BorrowedFd<'a>>,
    /// Make the domain if the file has none; else that is EAGAIN.
    pub create: bool,
    /// Fail with EINVAL if the file has a domain already.
    pub exclusive: bool,
    /// The rules of the domain, if it is made; if it is there and has other ones, that is
    /// EEXIST. Without them it gets the default, or is taken as it is.
    pub policy: Option<DomainPolicy>,
    /// The job key of TGT QPs and SRQs that are made with the handle.
    pub job_key: Option<JobKey>,
    /// Where to report TGT QPs that are created in the domain or reclaimed, until the
    /// handle is closed.
    pub events: Option<ReportTo<'a>>,
}

/// The same as the ABI has it.
pub(crate) struct RawOptions<'a> {
    /// -1: none.
    pub(crate) fd: RawFd,
    pub(crate) oflags: u32,
    pub(crate) policy: Option<ib_xrc_policy>,
    pub(crate) job_key: Option<u64>,
    pub(crate) events: Option<ReportTo<'a>>,
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
    /// When its TGT QPs die. [`Xrcd::query_policy`] has the rest of its rules.
    pub policy: Policy,
    /// Handles open on it, in all processes.
    pub handles: u32,
    /// TGT QPs in it.
    pub tgt_qps: u32,
    /// SRQs in it.
    pub srqs: u32,
    /// Bytes that count against [`DomainPolicy::max_bytes`].
    pub bytes: u64,
}

impl From<&ib_xrc_xrcd_info> for XrcdInfo {
    fn from(raw: &ib_xrc_xrcd_info) -> Self {
        XrcdInfo {
            inode: raw.inode,
            dev: raw.dev,
            policy: Policy::from_raw(raw.policy),
            handles: raw.handles,
            tgt_qps: raw.tgt_qps,
            srqs: raw.srqs,
            bytes: raw.bytes,
        }
    }
}

pub(crate) struct XrcdInner {
    pub(crate) handle: Handle,
    /// Events of the domain come as long as the handle is open.
    _events: Option<Arc<EventFileInner>>,
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
        let options = RawOptions {
            fd: options.file.map_or(-1, |file| file.as_raw_fd()),
            oflags: oflags.bits(),
            policy: options.policy.map(DomainPolicy::to_raw).transpose()?,
            job_key: options.job_key.map(|key| key.0),
            events: options.events,
        };
        Self::open_raw(context, &options)
    }

    pub(crate) fn open_raw(context: &Arc<ContextInner>, options: &RawOptions<'_>) -> Result<Self> {
        let events = options.events.map(|to| to.file.of(context)).transpose()?;
        let mut request = Request::new(IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN)
            .new_handle(IB_XRC_ATTR_XRCD_OPEN_HANDLE)
            .raw_fd(IB_XRC_ATTR_XRCD_OPEN_FD, options.fd)
            .input(IB_XRC_ATTR_XRCD_OPEN_OFLAGS, &options.oflags);
        if let Some(policy) = &options.policy {
            request = request.input(IB_XRC_ATTR_XRCD_OPEN_POLICY, policy);
        }
        if let Some(key) = &options.job_key {
            request = request.input(IB_XRC_ATTR_XRCD_OPEN_JOB_KEY, key);
        }
        if let Some(events) = &options.events {
            request = events.add_to(
                request,
                IB_XRC_ATTR_XRCD_OPEN_EVENT_FILE,
                IB_XRC_ATTR_XRCD_OPEN_USER_HANDLE,
            );
        }
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
                    match options.policy {
                        None => {
                            "the file has a domain on this device already, and it was to be new"
                        }
                        Some(_) => {
                            "its policy makes no sense, or the file has a domain on this device \
                             already, and it was to be new"
                        }
                    },
                ),
                (
                    Errno::EEXIST,
                    "the file has a domain on this device already, with another policy",
                ),
                (
                    Errno::EACCES,
                    "its file must be open for reading, and for writing to make a domain with a \
                     policy",
                ),
            ];
            Error::explained("open the domain", errno, &meanings)
        })?;
        let id = reply.new_handle(IB_XRC_ATTR_XRCD_OPEN_HANDLE);
        Ok(Xrcd {
            inner: Arc::new(XrcdInner {
                handle: Handle::new(context, &KIND, id),
                _events: events,
            }),
        })
    }

    fn query_request(&self) -> Request<'_> {
        Request::new(IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_QUERY)
            .handle(IB_XRC_ATTR_XRCD_QUERY_HANDLE, self.inner.handle.id())
    }

    pub(crate) fn query_raw(&self) -> Result<ib_xrc_xrcd_info> {
        let mut info = ib_xrc_xrcd_info::default();
        let request = self
            .query_request()
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

    pub(crate) fn query_policy_raw(&self) -> Result<ib_xrc_policy> {
        let mut policy = ib_xrc_policy::default();
        let request = self
            .query_request()
            .output(IB_XRC_ATTR_XRCD_QUERY_RESP_POLICY, &mut policy);
        let reply = self.inner.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("query the policy of the domain", errno))?;
        Ok(policy)
    }

    /// The rules of the domain.
    pub fn query_policy(&self) -> Result<DomainPolicy> {
        Ok((&self.query_policy_raw()?).into())
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
        list::fill(
            qps,
            |qp| qp.qp_num,
            |after, part| self.list_tgt_qps(after, part),
        )
    }

    /// Lists the TGT QPs of the domain, whoever made them, in the order of their
    /// numbers.
    pub fn tgt_qps(&self) -> Result<Vec<TgtQpInfo>> {
        let raw = list::all(|qps| self.tgt_qps_into(qps))?;
        raw.iter().map(TgtQpInfo::try_from).collect()
    }

    /// Fills `srqs` as far as it reaches, with SRQs of greater numbers than `after`. Returns
    /// how many there are.
    fn list_srqs(&self, after: Option<u32>, srqs: &mut [ib_xrc_srq_info]) -> Result<u32> {
        let mut count = 0u32;
        let mut request = Request::new(IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_LIST_SRQS)
            .handle(IB_XRC_ATTR_XRCD_LIST_SRQS_HANDLE, self.inner.handle.id())
            .output(IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_COUNT, &mut count);
        if let Some(after) = &after {
            request = request.input(IB_XRC_ATTR_XRCD_LIST_SRQS_AFTER, after);
        }
        if !srqs.is_empty() {
            request = request.output_slice(IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_SRQS, srqs);
        }
        let reply = self.inner.context().call(request);
        reply
            .result()
            .map_err(|errno| Error::call("list the SRQs of the domain", errno))?;
        Ok(count)
    }

    /// Fills `srqs` as far as it reaches, with as many calls as that takes. Returns how
    /// many there are.
    pub(crate) fn srqs_into(&self, srqs: &mut [ib_xrc_srq_info]) -> Result<u32> {
        list::fill(
            srqs,
            |srq| srq.srq_num,
            |after, part| self.list_srqs(after, part),
        )
    }

    /// Lists the SRQs of the domain, whoever made them, in the order of their numbers.
    pub fn srqs(&self) -> Result<Vec<SrqInfo>> {
        let raw = list::all(|srqs| self.srqs_into(srqs))?;
        Ok(raw.iter().map(SrqInfo::from).collect())
    }

    /// Creates a TGT QP, in the RESET state, and registers with it. EDQUOT: the domain has
    /// as many as its policy lets it.
    pub fn create_tgt_qp(&self) -> Result<TgtQp> {
        self.create_tgt_qp_with(TgtQpOptions::default())
    }

    /// [`Xrcd::create_tgt_qp`] with options.
    pub fn create_tgt_qp_with(&self, options: TgtQpOptions<'_>) -> Result<TgtQp> {
        TgtQp::create(&self.inner, options)
    }

    /// Registers with the domain's TGT QP of this number, as ibv_open_qp(3): it lives
    /// at least as long as the registration. EINVAL: there is no such TGT QP.
    pub fn open_tgt_qp(&self, qp_num: u32) -> Result<TgtQp> {
        self.open_tgt_qp_with(qp_num, TgtQpOptions::default())
    }

    /// [`Xrcd::open_tgt_qp`] with options. If the TGT QP is in error already, the error is
    /// reported once more, to who opens it.
    pub fn open_tgt_qp_with(&self, qp_num: u32, options: TgtQpOptions<'_>) -> Result<TgtQp> {
        TgtQp::open(&self.inner, qp_num, options)
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
        tgt_qp::connect(&self.target(qp_num), attr, None)
    }

    /// [`TgtQp::connect_timeout`] by number, without being registered.
    pub fn connect_tgt_qp_timeout(
        &self,
        qp_num: u32,
        attr: &QpAttr,
        timeout: Duration,
    ) -> Result<QpState> {
        tgt_qp::connect(&self.target(qp_num), attr, Some(timeout))
    }

    /// [`TgtQp::disconnect`] by number, without being registered.
    pub fn disconnect_tgt_qp(&self, qp_num: u32, timeout: Duration) -> Result<DisconnectInfo> {
        tgt_qp::disconnect(&self.target(qp_num), timeout)
    }

    /// [`TgtQp::holders`] by number, without being registered.
    pub fn tgt_qp_holders(&self, qp_num: u32) -> Result<Vec<Holder>> {
        tgt_qp::holders(&self.target(qp_num))
    }

    /// Creates an SRQ in the domain, which completes into `cq`.
    ///
    /// EINVAL: the attributes are 0 or above [`crate::Limits`], or the CQ is of another
    /// context. EDQUOT: the domain has as many SRQs as its policy lets it.
    pub fn create_srq(&self, cq: &Cq, attr: SrqAttr) -> Result<Srq> {
        self.create_srq_with(cq, attr, SrqOptions::default())
    }

    /// [`Xrcd::create_srq`] with options.
    pub fn create_srq_with(&self, cq: &Cq, attr: SrqAttr, options: SrqOptions<'_>) -> Result<Srq> {
        Srq::create(&self.inner, cq, attr, options)
    }

    /// Registers memory of this process in the domain, which pins it. Whoever sends to a TGT QP
    /// of the domain may access it as `attr.access` says, whoever made the TGT QP and
    /// whatever job it is of.
    ///
    /// EINVAL: it is empty or wraps around, or `attr.iova` has another offset in the page.
    /// EFAULT: it is not mapped, or not writable although senders may write. ENOMEM, EPERM: more
    /// than RLIMIT_MEMLOCK allows. EDQUOT: the domain has as much as its policy lets it.
    ///
    /// # Safety
    ///
    /// Senders read and write this memory at any time, as far as they are let, until it is
    /// closed. Meanwhile there must be no reference to it which that contradicts.
    pub unsafe fn reg_mr(&self, attr: MrAttr) -> Result<Mr> {
        Mr::reg(&self.inner, attr)
    }

    /// The same with flags as ibv_reg_mr(3) has them.
    ///
    /// # Safety
    ///
    /// As [`Xrcd::reg_mr`].
    pub(crate) unsafe fn reg_mr_raw(
        &self,
        addr: u64,
        length: u64,
        iova: Option<u64>,
        access: u32,
    ) -> Result<Mr> {
        Mr::reg_raw(&self.inner, addr, length, iova, access)
    }

    /// Closes the handle. EBUSY: TGT QPs, SRQs or MRs made with it exist.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        let closed = self.inner.handle.close();
        CloseError::unless(closed, self)
    }
}

impl fmt::Debug for Xrcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xrcd")
            .field("handle", &self.inner.handle.id())
            .finish_non_exhaustive()
    }
}
