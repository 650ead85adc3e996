// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Gives unmodified programs the XRC calls of libibverbs on devices without XRC.
//!
//! `ibxrc run` preloads it. Some functions of libibverbs are called by name; [`exports`] has
//! ours, which come before them. Others are inline and call through tables in what
//! ibv_open_device(3) returns, in which [`context`] puts ours.
//!
//! - An XRC domain ([`xrcd`]), an XRC SRQ ([`srq`]) and a QP of type XRC_RECV ([`recv_qp`])
//!   are objects of the kernel module.
//! - A QP of type XRC_SEND ([`send_qp`]) is an RC QP of the device, with
//!   [`ibxrc::IniQp`].
//! - A completion queue stays one of the device; when XRC objects complete into it,
//!   [`cq`] adds what they bring ([`sends`] that of QPs), and [`channel`] their events,
//!   if the program wants some ([`listener`]).
//! - Asynchronous events ([`events`]) come from both.
//! - Memory ([`mr`]) is registered with the kernel module too, if senders are to reach it.
//!
//! The program's pointers to what libibverbs made are those of libibverbs; [`table`] tells
//! which are known here.

mod channel;
mod context;
mod cq;
mod cq_ex;
mod dlsym;
mod element;
mod events;
mod exports;
mod fork;
mod inbox;
mod ioctl;
mod listener;
mod mr;
mod next;
mod poster;
mod progress;
mod qp;
mod real;
mod recv_qp;
mod report;
mod send_qp;
mod sender;
mod sends;
mod srq;
mod sys;
mod table;
mod unsupported;
mod wait;
mod xrcd;
