// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What can go wrong, as sentences that say what to do about it.

use std::{fmt, io};

use rustix::io::Errno as Raw;

use crate::{cq::WcStatus, qp_attr::QpState};

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An errno value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $raw:ident;)*) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "` of C.")]
                pub const $name: Errno = Errno(Raw::$raw.raw_os_error());
            )*

            /// Its symbol in C, for those that the kernel module returns.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = PERM;
    ENOENT = NOENT;
    EINTR = INTR;
    EIO = IO;
    ENXIO = NXIO;
    EBADF = BADF;
    EAGAIN = AGAIN;
    ENOMEM = NOMEM;
    EACCES = ACCESS;
    EFAULT = FAULT;
    EBUSY = BUSY;
    EEXIST = EXIST;
    ENODEV = NODEV;
    EINVAL = INVAL;
    EMFILE = MFILE;
    ENOTTY = NOTTY;
    ENOSPC = NOSPC;
    EPROTO = PROTO;
    EOVERFLOW = OVERFLOW;
    EMSGSIZE = MSGSIZE;
    EOPNOTSUPP = OPNOTSUPP;
    EPROTONOSUPPORT = PROTONOSUPPORT;
    ENETUNREACH = NETUNREACH;
    EHOSTUNREACH = HOSTUNREACH;
    ETIMEDOUT = TIMEDOUT;
    ESTALE = STALE;
    EDQUOT = DQUOT;
}

impl Errno {
    /// Of the value that `errno` has in C.
    pub const fn from_raw(raw: i32) -> Self {
        Errno(raw)
    }

    /// The value that `errno` has in C.
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl From<Raw> for Errno {
    fn from(raw: Raw) -> Self {
        Errno(raw.raw_os_error())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        match self.name() {
            Some(name) => write!(f, "{text} ({name})"),
            None => write!(f, "{text} (errno {})", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The character device is not there.
    #[error("the kernel module ib_xrc is not loaded ({node} does not exist): load it with `modprobe ib_xrc`")]
    NotLoaded {
        /// Path of the character device.
        node: String,
    },

    /// The character device may not be opened.
    #[error("no permission to open {node}: it is made with mode 0666, which something has changed; run as root or restore the mode")]
    NoPermission {
        /// Path of the character device.
        node: String,
        /// EACCES or EPERM.
        errno: Errno,
    },

    /// The character device could not be opened for another reason.
    #[error("cannot open {node}: {errno}")]
    OpenNode {
        /// Path of the character device.
        node: String,
        /// What open(2) returned.
        errno: Errno,
    },

    /// No device of this name or index.
    #[error("{}", no_device(wanted, available))]
    NoDevice {
        /// The name or index asked for.
        wanted: String,
        /// Names of the devices that there are.
        available: Vec<String>,
    },

    /// Library and module are of different ABI versions.
    #[error("the kernel module ib_xrc does not speak version {ours} of its interface, for which this library is built: install module and library of the same release")]
    AbiVersion {
        /// `IB_XRC_ABI_VERSION` of this library.
        ours: u32,
    },

    /// The device is gone: removed, or its driver unloaded.
    #[error("cannot {what}: the RDMA device is gone; close everything and open it again when it is back")]
    DeviceGone {
        /// What was to be done.
        what: &'static str,
    },

    /// The kernel refused.
    #[error("cannot {what}: {errno}{}", hint(advice))]
    Call {
        /// What was to be done.
        what: &'static str,
        /// What the kernel said.
        errno: Errno,
        /// What that means here, or nothing if it is not known.
        advice: &'static str,
    },

    /// A transition of a TGT QP failed in the middle of a connect.
    #[error("cannot connect the TGT QP: {errno}{}{}", stopped_in(*state), hint(general(*errno)))]
    Connect {
        /// The state which the QP is in now, if the kernel could tell.
        state: Option<QpState>,
        /// What the kernel said.
        errno: Errno,
    },

    /// The SRQ has as many work requests posted as fit.
    #[error("cannot post to the SRQ: it is full, {entries} receive work requests are posted")]
    SrqFull {
        /// How many fit.
        entries: u32,
    },

    /// The SRQ takes no more messages.
    #[error("the SRQ is in error and takes no more messages: a posted work request made no sense, its CQ overflowed, or the device is gone")]
    SrqError,

    /// Completions were lost.
    #[error(
        "the CQ overflowed and completions were lost: make it as large as the SRQs on it together"
    )]
    CqOverflow,

    /// A message could not be received.
    #[error("a message could not be received: {status}{}", lost(*status))]
    Completion {
        /// How its work request ended.
        status: WcStatus,
    },

    /// There is more to list than one call can.
    #[error(
        "cannot {what}: there are {count}, and one call of the kernel module lists at most {max}"
    )]
    TooMany {
        /// What was to be done.
        what: &'static str,
        /// How many there are.
        count: u32,
        /// How many could be listed.
        max: usize,
    },

    /// The caller's arguments make no sense.
    #[error("{0}")]
    InvalidArgument(String),

    /// libibverbs, or another call of the system, failed.
    #[error("cannot {what}: {errno}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What it said.
        errno: Errno,
    },

    /// The kernel module said something that cannot be.
    #[error("the kernel module ib_xrc gave an answer that makes no sense: {0}")]
    Unexpected(String),
}

impl Error {
    /// The errno value which the C API returns for it, and which the kernel did if
    /// the error comes from there.
    pub fn errno(&self) -> Errno {
        match self {
            Error::NotLoaded { .. } => Errno::ENOENT,
            Error::NoPermission { errno, .. }
            | Error::OpenNode { errno, .. }
            | Error::Call { errno, .. }
            | Error::Connect { errno, .. }
            | Error::System { errno, .. } => *errno,
            Error::NoDevice { .. } => Errno::ENODEV,
            Error::AbiVersion { .. } | Error::Unexpected(_) => Errno::EPROTO,
            Error::DeviceGone { .. } | Error::SrqError => Errno::EIO,
            Error::SrqFull { .. } => Errno::ENOMEM,
            Error::CqOverflow | Error::TooMany { .. } => Errno::EOVERFLOW,
            Error::Completion {
                status: WcStatus::LOC_LEN_ERR,
            } => Errno::EMSGSIZE,
            Error::Completion { .. } => Errno::EPROTO,
            Error::InvalidArgument(_) => Errno::EINVAL,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::InvalidArgument(message.into())
    }

    /// An ioctl to do `what` failed.
    pub(crate) fn call(what: &'static str, errno: Errno) -> Self {
        Error::explained(what, errno, &[])
    }

    /// The same, where some errnos have a particular meaning.
    pub(crate) fn explained(
        what: &'static str,
        errno: Errno,
        meanings: &[(Errno, &'static str)],
    ) -> Self {
        if errno == Errno::EIO {
            return Error::DeviceGone { what };
        }
        let advice = meanings
            .iter()
            .find(|(e, _)| *e == errno)
            .map_or_else(|| general(errno), |(_, advice)| *advice);
        Error::Call {
            what,
            errno,
            advice,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = io::Error::from_raw_os_error(error.errno().raw()).kind();
        io::Error::new(kind, error)
    }
}

/// What an errno means in most calls, or nothing.
fn general(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOTTY => "what is open is not the character device of ib_xrc",
        Errno::EPROTONOSUPPORT => "the kernel module is older than this library and cannot do it",
        Errno::ENOSPC => "the context has as many objects as it can",
        Errno::EACCES => {
            "the domain was opened with a file that is not open for writing, or the TGT QP has \
             another job key"
        }
        Errno::ESTALE => "the TGT QP was destroyed; close the registration",
        Errno::EDQUOT => "a limit of the domain is reached",
        _ => "",
    }
}

fn hint(advice: &str) -> String {
    match advice {
        "" => String::new(),
        _ => format!(": {advice}"),
    }
}

fn no_device(wanted: &str, available: &[String]) -> String {
    match available {
        [] => format!(
            "there is no RDMA device {wanted}, and no other that can do RC in this network \
             namespace: `rdma link` lists what there is, `rdma link add rxe0 type rxe netdev \
             eth0` makes a Soft-RoCE device"
        ),
        _ => format!(
            "there is no RDMA device {wanted} that can do RC in this network namespace: there \
             {} {}",
            if available.len() == 1 { "is" } else { "are" },
            available.join(", ")
        ),
    }
}

fn lost(status: WcStatus) -> &'static str {
    match status {
        WcStatus::LOC_LEN_ERR => ": it is longer than the buffers of its SRQ",
        WcStatus::LOC_PROT_ERR => ": its buffer cannot be written",
        _ => "",
    }
}

fn stopped_in(state: Option<QpState>) -> String {
    match state {
        Some(state) => format!("; it is in state {state} now"),
        None => String::new(),
    }
}

/// Closing failed; the object is as it was.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CloseError<T> {
    /// What was to be closed. Dropping it tries again and ignores the outcome.
    pub object: T,
    /// Why it could not be.
    #[source]
    pub error: Error,
}

impl<T> CloseError<T> {
    /// What became of closing an object, which is given back if it failed.
    #[allow(clippy::result_large_err, reason = "it is what was given")]
    pub(crate) fn unless<R>(closed: Result<R>, object: T) -> std::result::Result<R, Self> {
        closed.map_err(|error| CloseError { object, error })
    }
}

impl<T> From<CloseError<T>> for Error {
    fn from(e: CloseError<T>) -> Self {
        e.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_have_their_names() {
        assert_eq!(Errno::from_raw(22), Errno::EINVAL);
        assert_eq!(Errno::EINVAL.to_string(), "Invalid argument (EINVAL)");
        assert_eq!(Errno::from_raw(95).name(), Some("EOPNOTSUPP"));
        assert!(Errno::from_raw(4095).to_string().ends_with("(errno 4095)"));
    }

    #[test]
    fn a_missing_device_lists_what_there_is() {
        let error = |available: &[&str]| {
            Error::NoDevice {
                wanted: "mlx5_0".into(),
                available: available.iter().map(|s| s.to_string()).collect(),
            }
            .to_string()
        };
        assert!(error(&[]).contains("rdma link add"));
        assert!(error(&["rxe0"]).ends_with("there is rxe0"));
        assert!(error(&["rxe0", "siw0"]).ends_with("there are rxe0, siw0"));
    }

    #[test]
    fn calls_say_what_and_why() {
        let meanings = [(Errno::EBUSY, "SRQs still exist")];
        let error = Error::explained("close the domain", Errno::EBUSY, &meanings);
        assert_eq!(
            error.to_string(),
            "cannot close the domain: Device or resource busy (EBUSY): SRQs still exist"
        );
        let error = Error::explained("create a TGT QP", Errno::EDQUOT, &meanings);
        assert!(error
            .to_string()
            .ends_with("limit of the domain is reached"));
        let error = Error::explained("close the domain", Errno::EINVAL, &meanings);
        assert_eq!(
            error.to_string(),
            "cannot close the domain: Invalid argument (EINVAL)"
        );
        assert_eq!(
            Error::call("close it", Errno::EIO),
            Error::DeviceGone { what: "close it" }
        );
    }

    #[test]
    fn connect_says_where_it_stopped() {
        let error = Error::Connect {
            state: Some(QpState::Init),
            errno: Errno::EINVAL,
        };
        assert!(error.to_string().ends_with("it is in state INIT now"));
        assert_eq!(error.errno(), Errno::EINVAL);
        let error = Error::Connect {
            state: None,
            errno: Errno::ESTALE,
        };
        assert!(error.to_string().ends_with("close the registration"));
    }

    #[test]
    fn io_errors_keep_their_kind() {
        let error: io::Error = Error::NotLoaded {
            node: "/dev/infiniband/xrc".into(),
        }
        .into();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("modprobe"));
    }
}
