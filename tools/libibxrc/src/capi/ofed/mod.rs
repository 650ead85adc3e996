// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC as OFED had it: `infiniband/xrc_ofed.h` says what each function does.
//!
//! Nothing here is in libibverbs' way: its objects stay as they are, and what the program
//! does with them goes to it. Only a CQ ([`cq`]) that an XRC SRQ ([`srq`]) or an XRC QP
//! ([`qp`]) completes into has more sources than libibverbs knows of, and a completion
//! channel ([`channel`]) and the asynchronous events ([`async_event`]) likewise.

mod acks;
mod async_event;
mod channel;
mod cq;
mod device;
mod domain;
mod libibverbs;
mod qp;
mod rcv_qp;
mod srq;
mod table;
mod wait;

use std::{
    ffi::c_int,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{fail, null, set_errno, status};
use crate::error::{Errno, Error, Result};

/// Nobody panics while he has one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// NULL and errno.
fn failed<T>(error: Error) -> *mut T {
    set_errno(fail(error));
    ptr::null_mut()
}

/// What a function of libibverbs that returns a pointer has left in errno.
fn last(what: &'static str) -> Error {
    let errno = std::io::Error::last_os_error().raw_os_error();
    Error::System {
        what,
        errno: Errno::from_raw(errno.unwrap_or(libc::ENOMEM)),
    }
}

/// What a function of libibverbs has returned.
fn checked(what: &'static str, errno: c_int) -> Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(Error::System {
            what,
            errno: Errno::from_raw(errno),
        }),
    }
}

/// The functions have the types that the header declares: an array has one element type.
#[allow(clashing_extern_declarations)]
mod declared {
    use crate::verbs as header;

    macro_rules! as_declared {
        ($($module:ident: $($function:ident)*;)*) => {
            $($(const _: () = {
                let _ = [header::$function, super::$module::$function];
            };)*)*
        };
    }

    as_declared! {
        domain: ibv_open_xrc_domain ibv_close_xrc_domain ibxrc_ofed_xrcd;
        rcv_qp: ibv_create_xrc_rcv_qp ibv_modify_xrc_rcv_qp ibv_query_xrc_rcv_qp
            ibv_reg_xrc_rcv_qp ibv_unreg_xrc_rcv_qp;
        srq: ibv_create_xrc_srq ibxrc_ofed_create_srq ibxrc_ofed_modify_srq
            ibxrc_ofed_query_srq ibxrc_ofed_destroy_srq ibxrc_ofed_post_srq_recv;
        qp: ibxrc_ofed_create_qp ibxrc_ofed_modify_qp ibxrc_ofed_query_qp
            ibxrc_ofed_destroy_qp ibxrc_ofed_post_send;
        cq: ibxrc_ofed_poll_cq ibxrc_ofed_req_notify_cq ibxrc_ofed_destroy_cq
            ibxrc_ofed_ack_cq_events;
        channel: ibxrc_ofed_get_cq_event;
        async_event: ibxrc_ofed_get_async_event ibxrc_ofed_ack_async_event;
        device: ibxrc_ofed_query_device;
    }
}

/// What is handed to libibverbs begins as its own does.
mod layout {
    use std::mem::offset_of;

    use crate::verbs::*;

    macro_rules! same_offsets {
        ($ours:ident $theirs:ident: $($field:ident)*) => {
            $(const _: () = assert!(offset_of!($ours, $field) == offset_of!($theirs, $field));)*
        };
    }

    same_offsets!(ibxrc_ofed_srq ibv_srq: context srq_context pd handle mutex cond
        events_completed);
    same_offsets!(ibxrc_ofed_qp_init_attr ibv_qp_init_attr: qp_context send_cq recv_cq srq cap
        qp_type sq_sig_all);
    same_offsets!(ibxrc_ofed_send_wr ibv_send_wr: wr_id next sg_list num_sge opcode send_flags
        wr);
    const _: () = assert!(
        offset_of!(ibxrc_ofed_send_wr, __bindgen_anon_2) == offset_of!(ibv_send_wr, qp_type)
    );
    const _: () = assert!(size_of::<ibxrc_ofed_send_wr>() == size_of::<ibv_send_wr>());
    same_offsets!(ibxrc_ofed_async_event ibv_async_event: element event_type);
    const _: () = assert!(size_of::<ibxrc_ofed_async_event>() == size_of::<ibv_async_event>());
}
