// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The sender's side of XRC over RC: an RC QP of libibverbs and an [`ibxrc::IniQp`] on it,
//! wrapped as far as the demo and the tests need it.
//!
//! ```no_run
//! # fn main() -> ibxrc_ini::Result<()> {
//! use ibxrc_ini::{Device, Send, Sender, SenderAttr};
//!
//! let device = Device::open("rxe0", 1)?;
//! let mut sender = Sender::create(&device, SenderAttr::default())?;
//! let tgt = todo!("create a TGT QP, connected with sender.address().tgt_attr(...)");
//! sender.connect(&tgt)?;
//! let slot = sender.free_slot()?;
//! sender.buffer(slot)[..5].copy_from_slice(b"hello");
//! sender.send(Send { slot, len: 5, srq_num: 1, imm: None, solicited: false })?;
//! sender.drain()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`IniQp`] is what is below it: any work requests, from any of its memory.

mod address;
mod device;
mod gid;
mod memory;
mod qp;
mod sender;
mod work;

pub use address::Address;
pub use device::Device;
pub use gid::{find_gid, Gid, GidEntry};
pub use qp::{IniQp, IniQpAttr};
pub use sender::{Send, Sender, SenderAttr};
pub use work::{Op, Work};

use std::io;

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device of this name.
    #[error("libibverbs knows no RDMA device {name}: is `rdma link` showing it, and is its provider library installed?")]
    NoDevice {
        /// The name.
        name: String,
    },

    /// The port has no GID that RoCE v2 over IPv4 can use.
    #[error("port {port} of {device} has no RoCE v2 GID with an IPv4 address: does its network interface have one?")]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
    },

    /// A call of libibverbs failed.
    #[error("cannot {what}: {error}")]
    Verbs {
        /// What was to be done.
        what: &'static str,
        /// Why it was not.
        #[source]
        error: io::Error,
    },

    /// A message could not be sent.
    #[error("a message could not be sent: {reason} (status {status})")]
    Send {
        /// What libibverbs says about it.
        reason: String,
        /// `enum ibv_wc_status`.
        status: u32,
    },

    /// Of the library.
    #[error(transparent)]
    Xrc(#[from] ibxrc::Error),
}

impl Error {
    /// `errno` says why.
    fn last(what: &'static str) -> Self {
        Error::Verbs {
            what,
            error: io::Error::last_os_error(),
        }
    }

    /// The errno value that a call returned.
    fn returned(what: &'static str, errno: i32) -> Self {
        Error::Verbs {
            what,
            error: io::Error::from_raw_os_error(errno.abs()),
        }
    }
}
