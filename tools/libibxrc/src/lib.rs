// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC domains on any RDMA device.
//!
//! With XRC the processes of a host share one connection for each remote peer: the
//! sender names in each message the SRQ of the process that shall have it. The
//! receiving end of a connection is a TGT QP. It belongs to a domain and not to a
//! process, and lives until the last process that registered with it has closed it or is
//! gone, or for as long as the domain's policy says.
//!
//! - [`Context`] is an open device.
//! - [`Xrcd`] is a handle on a domain, which processes find by a common file;
//!   [`DomainPolicy`] has its rules.
//! - [`TgtQp`] is a registration with a TGT QP.
//! - [`Receiver`] receives messages; [`Srq`], [`Cq`] and [`CompChannel`] are what it is
//!   made of.
//! - [`Mr`] is memory that senders read and write by RDMA.
//! - [`EventFile`] tells of TGT QPs that are created, in error or destroyed, and of what
//!   else happens.
//! - [`IniQp`] is the sender's side: an RC QP of libibverbs, used as if it were an XRC one.
//!   [`wire`] has what travels.
//!
//! Objects keep what they were made with alive, and are closed when they are dropped;
//! `close` tells whether that worked. All of them may be used from several threads.
//!
//! The crate is also a C library: `infiniband/xrc.h`.

mod capi;
mod comp_channel;
mod context;
mod cq;
mod error;
mod event;
mod event_file;
mod event_queue;
mod framing;
mod handle;
mod ini;
mod list;
mod mr;
mod policy;
mod qp_attr;
mod receiver;
mod ring;
mod srq;
mod sys;
mod tgt_qp;
mod time;
pub mod wire;
mod xrcd;

pub use comp_channel::{CompChannel, CompEvent};
pub use context::{list_devices, Context, DeviceInfo, DeviceSelector, Limits};
pub use cq::{Cq, Wc, WcOpcode, WcStatus};
pub use error::{CloseError, Errno, Error, Result};
pub use event::{Event, EventKind, QpError, ReclaimReason, SrqError};
pub use event_file::{EventFile, ReportTo};
pub use ini::{IniQp, IniQpAttr};
pub use mr::{Mr, MrAccess, MrAttr};
pub use policy::{DomainFlags, DomainPolicy, JobKey, Policy};
pub use qp_attr::{AltPath, GlobalRoute, Path, QpAttr, QpState};
pub use receiver::{Message, Receiver, ReceiverAttr};
pub use srq::{Sge, Srq, SrqAttr, SrqInfo, SrqOptions, SrqState};
pub use sys::{uapi, verbs};
pub use tgt_qp::{DisconnectInfo, Holder, TgtQp, TgtQpInfo, TgtQpOptions};
pub use xrcd::{Xrcd, XrcdInfo, XrcdOptions};
