// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Posting by calls: ibv_wr_start(3) and what goes with it.
//!
//! Between start and complete the QP is locked, as with the providers. What is built is
//! posted like any list of work requests.

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    ptr, slice,
};

use ibxrc::verbs::*;

use crate::qp;

/// A work request that is being built.
struct Built {
    wr: ibv_send_wr,
    sges: Vec<ibv_sge>,
    /// The data, if it is inline.
    inline: Vec<u8>,
}

pub(crate) struct Poster {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    /// Used under the lock.
    built: UnsafeCell<Vec<Built>>,
}

// SAFETY: What it has is used under its lock.
unsafe impl Send for Poster {}
// SAFETY: As above.
unsafe impl Sync for Poster {}

impl Poster {
    pub(crate) fn new() -> Self {
        Poster {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            built: UnsafeCell::default(),
        }
    }
}

/// What an XRC_SEND QP can be asked for.
const OPS: u32 = IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_IMM
    | IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// Puts the functions where the program calls them, if it wants that; whether it does. An
/// errno value: it wants one that is not there.
pub(crate) fn offer(attr: &ibv_qp_init_attr_ex, shell: &mut ibv_qp_ex) -> Result<bool, c_int> {
    if attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS == 0 {
        return Ok(false);
    }
    if attr.send_ops_flags & !u64::from(OPS) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    shell.wr_start = Some(start);
    shell.wr_complete = Some(complete);
    shell.wr_abort = Some(abort);
    shell.wr_send = Some(send);
    shell.wr_send_imm = Some(send_imm);
    shell.wr_rdma_write = Some(rdma_write);
    shell.wr_rdma_write_imm = Some(rdma_write_imm);
    shell.wr_rdma_read = Some(rdma_read);
    shell.wr_atomic_cmp_swp = Some(atomic_cmp_swp);
    shell.wr_atomic_fetch_add = Some(atomic_fetch_add);
    shell.wr_set_xrc_srqn = Some(set_xrc_srqn);
    shell.wr_set_sge = Some(set_sge);
    shell.wr_set_sge_list = Some(set_sge_list);
    shell.wr_set_inline_data = Some(set_inline_data);
    shell.wr_set_inline_data_list = Some(set_inline_data_list);
    Ok(true)
}

/// What is being built.
///
/// # Safety
///
/// A QP that has these functions, between start and complete in this thread; one reference
/// at a time.
unsafe fn built<'a>(qp: *mut ibv_qp_ex) -> &'a mut Vec<Built> {
    // SAFETY: The caller's word: it is known, and sends.
    let send = unsafe { qp::of(qp.cast()) }.and_then(qp::Qp::send);
    match send {
        // SAFETY: The lock is held.
        Some(send) => unsafe { &mut *send.poster().built.get() },
        None => unreachable!("only such a QP has these functions"),
    }
}

/// Begins a work request with what the program has set in the QP.
///
/// # Safety
///
/// As [`built`].
unsafe fn add<'a>(qp: *mut ibv_qp_ex, opcode: ibv_wr_opcode) -> &'a mut ibv_send_wr {
    // SAFETY: The caller's word.
    let (wr_id, send_flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
    // SAFETY: As above.
    let built = unsafe { built(qp) };
    built.push(Built {
        wr: ibv_send_wr {
            wr_id,
            opcode,
            // Whether data is inline tell the functions that set it.
            send_flags: send_flags & !IBV_SEND_INLINE,
            ..Default::default()
        },
        sges: Vec::new(),
        inline: Vec::new(),
    });
    let last = built.len() - 1;
    &mut built[last].wr
}

/// Changes the work request that was begun last.
///
/// # Safety
///
/// As [`built`].
unsafe fn change(qp: *mut ibv_qp_ex, how: impl FnOnce(&mut Built)) {
    // SAFETY: The caller's word.
    if let Some(last) = unsafe { built(qp) }.last_mut() {
        how(last);
    }
}

/// # Safety
///
/// A QP that has these functions.
unsafe fn lock_of(qp: *mut ibv_qp_ex) -> *mut libc::pthread_mutex_t {
    // SAFETY: The caller's word.
    let send = unsafe { qp::of(qp.cast()) }.and_then(qp::Qp::send);
    send.map_or(ptr::null_mut(), |send| send.poster().lock.get())
}

/// # Safety
///
/// See ibv_wr_start(3), as for all that follow.
unsafe extern "C" fn start(qp: *mut ibv_qp_ex) {
    // SAFETY: The caller's word.
    unsafe {
        libc::pthread_mutex_lock(lock_of(qp));
        built(qp).clear();
    }
}

unsafe extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: The caller's word. The list stays until it is posted.
    unsafe {
        let list = built(qp);
        let mut next = ptr::null_mut();
        for built in list.iter_mut().rev() {
            if built.wr.send_flags & IBV_SEND_INLINE != 0 {
                built.sges = vec![ibv_sge {
                    addr: built.inline.as_ptr() as u64,
                    length: built.inline.len() as u32,
                    lkey: 0,
                }];
            }
            built.wr.sg_list = built.sges.as_mut_ptr();
            built.wr.num_sge = built.sges.len() as c_int;
            built.wr.next = next;
            next = &mut built.wr;
        }
        let send = qp::of(qp.cast()).and_then(qp::Qp::send);
        let errno = match list.len() {
            0 => 0,
            n => send.map_or(libc::EINVAL, |send| {
                send.post(next, &mut ptr::null_mut(), n > 1)
            }),
        };
        libc::pthread_mutex_unlock(lock_of(qp));
        errno
    }
}

unsafe extern "C" fn abort(qp: *mut ibv_qp_ex) {
    // SAFETY: The caller's word.
    unsafe {
        built(qp).clear();
        libc::pthread_mutex_unlock(lock_of(qp));
    }
}

unsafe extern "C" fn send(qp: *mut ibv_qp_ex) {
    // SAFETY: The caller's word.
    unsafe { add(qp, IBV_WR_SEND) };
}

unsafe extern "C" fn send_imm(qp: *mut ibv_qp_ex, imm: __be32) {
    // SAFETY: The caller's word.
    unsafe { add(qp, IBV_WR_SEND_WITH_IMM) }
        .__bindgen_anon_1
        .imm_data = imm;
}

unsafe extern "C" fn rdma_write(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64) {
    // SAFETY: The caller's word.
    let wr = unsafe { add(qp, IBV_WR_RDMA_WRITE) };
    wr.wr.rdma.rkey = rkey;
    wr.wr.rdma.remote_addr = remote_addr;
}

unsafe extern "C" fn rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, imm: __be32) {
    // SAFETY: The caller's word.
    let wr = unsafe { add(qp, IBV_WR_RDMA_WRITE_WITH_IMM) };
    wr.wr.rdma.rkey = rkey;
    wr.wr.rdma.remote_addr = remote_addr;
    wr.__bindgen_anon_1.imm_data = imm;
}

unsafe extern "C" fn rdma_read(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64) {
    // SAFETY: The caller's word.
    let wr = unsafe { add(qp, IBV_WR_RDMA_READ) };
    wr.wr.rdma.rkey = rkey;
    wr.wr.rdma.remote_addr = remote_addr;
}

unsafe extern "C" fn atomic_cmp_swp(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    compare: u64,
    swap: u64,
) {
    // SAFETY: The caller's word.
    let wr = unsafe { add(qp, IBV_WR_ATOMIC_CMP_AND_SWP) };
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.remote_addr = remote_addr;
    wr.wr.atomic.compare_add = compare;
    wr.wr.atomic.swap = swap;
}

unsafe extern "C" fn atomic_fetch_add(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    addend: u64,
) {
    // SAFETY: The caller's word.
    let wr = unsafe { add(qp, IBV_WR_ATOMIC_FETCH_AND_ADD) };
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.remote_addr = remote_addr;
    wr.wr.atomic.compare_add = addend;
}

unsafe extern "C" fn set_xrc_srqn(qp: *mut ibv_qp_ex, srq_num: u32) {
    // SAFETY: The caller's word.
    unsafe { change(qp, |built| built.wr.qp_type.xrc.remote_srqn = srq_num) };
}

unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let sge = ibv_sge { addr, length, lkey };
    // SAFETY: The caller's word.
    unsafe { change(qp, |built| built.sges = vec![sge]) };
}

unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, n: usize, list: *const ibv_sge) {
    if n > 0 {
        // SAFETY: The caller's word.
        unsafe {
            change(qp, |built| {
                built.sges = slice::from_raw_parts(list, n).to_vec()
            })
        };
    }
}

unsafe extern "C" fn set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    let buf = ibv_data_buf { addr, length };
    // SAFETY: The caller's word.
    unsafe { set_inline_data_list(qp, 1, &buf) };
}

unsafe extern "C" fn set_inline_data_list(qp: *mut ibv_qp_ex, n: usize, list: *const ibv_data_buf) {
    // SAFETY: The caller's word.
    unsafe {
        change(qp, |built| {
            // Whether or not the flag is set.
            built.wr.send_flags |= IBV_SEND_INLINE;
            built.inline.clear();
            for i in 0..n {
                let buf = &*list.add(i);
                if buf.length > 0 {
                    let data = slice::from_raw_parts(buf.addr.cast(), buf.length);
                    built.inline.extend_from_slice(data);
                }
            }
        });
    }
}
