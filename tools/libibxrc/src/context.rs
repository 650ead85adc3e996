// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! An open device.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{open, Mode, OFlags};

use crate::{
    comp_channel::CompChannel,
    cq::Cq,
    error::{CloseError, Errno, Error, Result},
    event_file::EventFile,
    framing::{Plain, Reply, Request},
    uapi::*,
    xrcd::{Xrcd, XrcdOptions},
};

/// Which device to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSelector<'a> {
    /// By its name as in rdma(8), for example `rxe0`.
    Name(&'a str),
    /// By its index as in rdma(8).
    Index(u32),
}

impl<'a> From<&'a str> for DeviceSelector<'a> {
    fn from(name: &'a str) -> Self {
        DeviceSelector::Name(name)
    }
}

impl<'a> From<&'a String> for DeviceSelector<'a> {
    fn from(name: &'a String) -> Self {
        DeviceSelector::Name(name)
    }
}

impl From<u32> for DeviceSelector<'_> {
    fn from(index: u32) -> Self {
        DeviceSelector::Index(index)
    }
}

impl fmt::Display for DeviceSelector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSelector::Name(name) => f.write_str(name),
            DeviceSelector::Index(index) => write!(f, "with index {index}"),
        }
    }
}

/// A device that domains can be opened on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Name as in rdma(8).
    pub name: String,
    /// Index as in rdma(8); not reused while the kernel runs.
    pub index: u32,
    /// Node GUID.
    pub node_guid: u64,
    /// `enum rdma_driver_id`.
    pub driver_id: u32,
    /// Ports of the device, numbered from 1.
    pub ports: u32,
    /// XRC is carried over RC on this device.
    pub soft: bool,
    /// `IB_XRC_ABI_VERSION` of the kernel module.
    pub abi_version: u32,
}

impl From<&ib_xrc_device_info> for DeviceInfo {
    fn from(raw: &ib_xrc_device_info) -> Self {
        let name = raw.name.split(|b| *b == 0).next().unwrap_or_default();
        DeviceInfo {
            name: String::from_utf8_lossy(name).into_owned(),
            index: raw.index,
            node_guid: u64::from_be(raw.node_guid),
            driver_id: raw.driver_id,
            ports: raw.phys_port_cnt,
            soft: raw.flags & IB_XRC_DEVICE_SOFT != 0,
            abi_version: raw.abi_version,
        }
    }
}

/// What the kernel module takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Entries of a CQ.
    pub max_cqe: u32,
    /// Work requests posted to an SRQ at a time.
    pub max_srq_wr: u32,
    /// Scatter entries of a receive work request.
    pub max_srq_sge: u32,
    /// Bytes of the longest message a TGT QP receives.
    pub max_msg_size: u32,
    /// Receive buffers that the kernel posts to each TGT QP.
    pub tgt_qp_recv_wr: u32,
    /// Bytes that a TGT QP counts against [`crate::DomainPolicy::max_bytes`].
    pub tgt_qp_bytes: u32,
    /// Bytes that an SRQ counts against it.
    pub srq_bytes: u32,
}

impl From<&ib_xrc_limits> for Limits {
    fn from(raw: &ib_xrc_limits) -> Self {
        Limits {
            max_cqe: raw.max_cqe,
            max_srq_wr: raw.max_srq_wr,
            max_srq_sge: raw.max_srq_sge,
            max_msg_size: raw.max_msg_size,
            tgt_qp_recv_wr: raw.tgt_qp_recv_wr,
            tgt_qp_bytes: raw.tgt_qp_bytes,
            srq_bytes: raw.srq_bytes,
        }
    }
}

fn node() -> String {
    let name = IB_XRC_DEVICE_NODE.split(|b| *b == 0).next();
    format!("/dev/{}", String::from_utf8_lossy(name.unwrap_or_default()))
}

fn open_node() -> Result<OwnedFd> {
    let node = node();
    open(&node, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| {
        let errno = Errno::from(e);
        match errno {
            Errno::ENOENT | Errno::ENODEV | Errno::ENXIO => Error::NotLoaded { node },
            Errno::EACCES | Errno::EPERM => Error::NoPermission { node, errno },
            _ => Error::OpenNode { node, errno },
        }
    })
}

/// Lists something with calls that fill a part of an array and tell how much there
/// is, until everything fits.
pub(crate) fn list<T: Plain + Default>(
    what: &'static str,
    mut call: impl FnMut(&mut [T]) -> Result<u32>,
) -> Result<Vec<T>> {
    let max = Request::max_elements::<T>();
    let mut elements = vec![T::default(); 32.min(max)];
    loop {
        let count = call(&mut elements)?;
        let n = count as usize;
        if n <= elements.len() {
            elements.truncate(n);
            return Ok(elements);
        }
        if n > max {
            return Err(Error::TooMany { what, count, max });
        }
        // A few more, since there may be more by then.
        elements.resize((n + n / 8 + 8).min(max), T::default());
    }
}

pub(crate) fn list_devices_into(
    fd: BorrowedFd<'_>,
    driver_id: u32,
    devices: &mut [ib_xrc_device_info],
) -> Result<u32> {
    let mut count = 0u32;
    let mut request = Request::new(IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_LIST_DEVICES)
        .output(IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, &mut count);
    if !devices.is_empty() {
        request = request.output_slice(IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES, devices);
    }
    let reply = request.submit(fd, driver_id);
    reply
        .result()
        .map_err(|errno| Error::call(LIST_DEVICES, errno))?;
    Ok(count)
}

const LIST_DEVICES: &str = "list the devices";

fn list_devices_of(fd: BorrowedFd<'_>, driver_id: u32) -> Result<Vec<DeviceInfo>> {
    let raw = list(LIST_DEVICES, |devices| {
        list_devices_into(fd, driver_id, devices)
    })?;
    Ok(raw.iter().map(DeviceInfo::from).collect())
}

/// Lists the devices that may be opened: those that can do RC and are in the
/// caller's network namespace.
///
/// ENOENT: the kernel module is not loaded. EACCES: no permission.
pub fn list_devices() -> Result<Vec<DeviceInfo>> {
    let file = open_node()?;
    list_devices_of(file.as_fd(), RDMA_DRIVER_UNKNOWN)
}

pub(crate) fn list_devices_raw(devices: &mut [ib_xrc_device_info]) -> Result<u32> {
    let file = open_node()?;
    list_devices_into(file.as_fd(), RDMA_DRIVER_UNKNOWN, devices)
}

pub(crate) struct ContextInner {
    file: OwnedFd,
    device: ib_xrc_device_info,
}

impl ContextInner {
    pub(crate) fn call(&self, request: Request<'_>) -> Reply {
        request.submit(self.file.as_fd(), self.device.driver_id)
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// An open device. Clones share it; it is closed with the last object made with it.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<ContextInner>,
}

impl Context {
    /// Opens a device.
    ///
    /// ENOENT: the kernel module is not loaded. EACCES: no permission. ENODEV: no such
    /// device, it cannot do RC, or it is in another network namespace. EPROTO: the
    /// kernel module is of an incompatible version.
    ///
    /// ```no_run
    /// # fn main() -> ibxrc::Result<()> {
    /// let context = ibxrc::Context::open("rxe0")?;
    /// println!("{}", context.device().name);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open<'a>(device: impl Into<DeviceSelector<'a>>) -> Result<Self> {
        let selector = device.into();
        let file = open_node()?;
        let mut info = ib_xrc_device_info::default();
        let abi_version = IB_XRC_ABI_VERSION;
        let index;
        let request = Request::new(IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_BIND)
            .input(IB_XRC_ATTR_BIND_ABI_VERSION, &abi_version);
        let request = match selector {
            DeviceSelector::Name(name) => {
                if name.is_empty() || name.len() >= IB_XRC_DEVICE_NAME_MAX as usize {
                    return Err(Error::invalid(format!(
                        "{name:?} is no name of an RDMA device: it needs 1 to {} bytes",
                        IB_XRC_DEVICE_NAME_MAX - 1
                    )));
                }
                request.input_bytes(IB_XRC_ATTR_BIND_NAME, name.as_bytes())
            }
            DeviceSelector::Index(i) => {
                index = i;
                request.input(IB_XRC_ATTR_BIND_INDEX, &index)
            }
        };
        let reply = request
            .output(IB_XRC_ATTR_BIND_RESP_DEVICE, &mut info)
            .submit(file.as_fd(), RDMA_DRIVER_UNKNOWN);
        match reply.result() {
            Ok(()) => (),
            Err(Errno::ENODEV) => {
                let available = list_devices_of(file.as_fd(), RDMA_DRIVER_UNKNOWN)
                    .unwrap_or_default()
                    .into_iter()
                    .map(|d| d.name)
                    .collect();
                return Err(Error::NoDevice {
                    wanted: selector.to_string(),
                    available,
                });
            }
            Err(Errno::EPROTO) => {
                return Err(Error::AbiVersion {
                    ours: IB_XRC_ABI_VERSION,
                })
            }
            Err(errno) => return Err(Error::call("open the RDMA device", errno)),
        }
        Ok(Context {
            inner: Arc::new(ContextInner { file, device: info }),
        })
    }

    /// The device, as it was when it was opened.
    pub fn device(&self) -> DeviceInfo {
        DeviceInfo::from(&self.inner.device)
    }

    pub(crate) fn query_raw(
        &self,
        device: Option<&mut ib_xrc_device_info>,
        limits: Option<&mut ib_xrc_limits>,
    ) -> Result<()> {
        let mut request = Request::new(IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_QUERY_CONTEXT);
        if let Some(device) = device {
            request = request.output(IB_XRC_ATTR_QUERY_CONTEXT_RESP_DEVICE, device);
        }
        if let Some(limits) = limits {
            request = request.output(IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS, limits);
        }
        let reply = self.inner.call(request);
        reply
            .result()
            .map_err(|errno| Error::call("query the device", errno))
    }

    /// Describes the device and the limits of the kernel module. EIO: it is gone.
    pub fn query(&self) -> Result<(DeviceInfo, Limits)> {
        let mut device = ib_xrc_device_info::default();
        let mut limits = ib_xrc_limits::default();
        self.query_raw(Some(&mut device), Some(&mut limits))?;
        Ok(((&device).into(), (&limits).into()))
    }

    /// The devices that may be opened: [`list_devices`].
    pub fn list_devices(&self) -> Result<Vec<DeviceInfo>> {
        list_devices_of(self.inner.file(), self.inner.device.driver_id)
    }

    /// Opens a domain, as ibv_open_xrcd(3). See [`XrcdOptions`].
    pub fn open_xrcd(&self, options: XrcdOptions<'_>) -> Result<Xrcd> {
        Xrcd::open(&self.inner, options)
    }

    /// Creates a descriptor that tells of completions.
    pub fn create_comp_channel(&self) -> Result<CompChannel> {
        CompChannel::create(&self.inner)
    }

    /// Creates a descriptor that tells of asynchronous events, with room for `depth` of
    /// them, or 256. EINVAL: `depth` is 0 or above 4096.
    pub fn create_event_file(&self, depth: Option<u32>) -> Result<EventFile> {
        EventFile::create(&self.inner, depth)
    }

    /// Creates a CQ with room for at least `entries` completions.
    ///
    /// `user_handle` is what its events on `channel` carry. EINVAL: `entries` is 0 or
    /// above [`Limits::max_cqe`], or the channel is of another context.
    pub fn create_cq(
        &self,
        entries: u32,
        channel: Option<&CompChannel>,
        user_handle: u64,
    ) -> Result<Cq> {
        Cq::create(&self.inner, entries, channel, user_handle)
    }

    /// Closes the device, if nothing else uses it. EBUSY: objects made with it, or
    /// clones of it, exist.
    pub fn close(self) -> Result<(), CloseError<Self>> {
        match Arc::try_unwrap(self.inner) {
            Ok(_) => Ok(()),
            Err(inner) => Err(CloseError {
                object: Context { inner },
                error: Error::Call {
                    what: "close the device",
                    errno: Errno::EBUSY,
                    advice: "objects made with it still exist",
                },
            }),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device().name)
            .finish_non_exhaustive()
    }
}

/// The character device, to pass it on to a child or to look at it; poll(2) does not
/// say anything about it.
impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_described_in_words_of_rust() {
        let mut raw = ib_xrc_device_info {
            node_guid: 0x0102_0304_0506_0708_u64.to_be(),
            index: 3,
            phys_port_cnt: 2,
            flags: IB_XRC_DEVICE_SOFT,
            ..Default::default()
        };
        raw.name[..4].copy_from_slice(b"rxe0");
        let info = DeviceInfo::from(&raw);
        assert_eq!(info.name, "rxe0");
        assert_eq!(info.node_guid, 0x0102_0304_0506_0708);
        assert!(info.soft);
        raw.name = [b'x'; 64];
        assert_eq!(DeviceInfo::from(&raw).name.len(), 64);
    }

    #[test]
    fn the_node_is_below_dev() {
        assert_eq!(node(), "/dev/infiniband/xrc");
    }

    #[test]
    fn names_are_checked_before_anything_is_opened() {
        // Also where there is no character device: that error comes first.
        for name in ["", &"x".repeat(64)] {
            let errno = Context::open(name).unwrap_err().errno();
            assert!([Errno::EINVAL, Errno::ENOENT].contains(&errno));
        }
    }

    #[test]
    fn lists_grow_until_everything_fits() {
        let mut sizes = Vec::new();
        let all = list("list", |elements: &mut [u32]| {
            sizes.push(elements.len());
            let there = 40 + sizes.len() as u32 * 20;
            for (i, e) in elements.iter_mut().enumerate() {
                *e = i as u32;
            }
            Ok(there)
        })
        .unwrap();
        assert_eq!(sizes, [32, 75, 98, 120]);
        assert_eq!(all, (0..120).collect::<Vec<u32>>());
    }

    #[test]
    fn too_long_lists_are_an_error() {
        let error = list("list the words", |_: &mut [u64]| Ok(9000)).unwrap_err();
        assert_eq!(error.errno(), Errno::EOVERFLOW);
        assert!(error.to_string().contains("there are 9000"));
    }
}
