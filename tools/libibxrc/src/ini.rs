// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The sender's side: an ordinary RC QP of libibverbs.

use crate::{
    error::{Errno, Error, Result},
    verbs::*,
    wire::{encode_send, HEADER_LEN, PART_SIZE},
};

const POST: &str = "post a send work request";

/// Posts one work request to an RC QP that is connected to a TGT QP, as
/// ibv_post_send(3). `wr.qp_type.xrc.remote_srqn` names the SRQ, `wr.next` is ignored.
///
/// `IBV_WR_SEND` needs nothing more. For `IBV_WR_SEND_WITH_IMM` the message carries its
/// immediate (`wr.imm_data`, big endian) in a header, which this function writes into the
/// first [`HEADER_LEN`] bytes of `sg_list[0]`: they are to be left free by the caller
/// and are not part of the message. RDMA READ, RDMA WRITE and atomics are posted as they
/// are.
///
/// One work request stays one, so that this is for messages of one part.
///
/// EINVAL: no SRQ number, no room for the header. EMSGSIZE: message and header are longer
/// than a part, [`PART_SIZE`]. EOPNOTSUPP: another opcode. Else what ibv_post_send(3)
/// returns.
///
/// # Safety
///
/// `qp` and what `wr` points to are as ibv_post_send(3) wants them: `sg_list` has
/// `num_sge` elements, and the memory they name stays untouched until the work request
/// completes. With `IBV_WR_SEND_WITH_IMM` the first 8 bytes of it may be written to.
pub unsafe fn post_send(qp: *mut ibv_qp, wr: &ibv_send_wr) -> Result<()> {
    // SAFETY: The caller's word.
    let posted = unsafe { translate(wr)? };
    // SAFETY: The caller's word: a QP has a context, which has its operations.
    let post = unsafe { (*(*qp).context).ops.post_send };
    let Some(post) = post else {
        return Err(Error::System {
            what: POST,
            errno: Errno::EOPNOTSUPP,
        });
    };
    let mut posted = posted;
    let mut bad = std::ptr::null_mut();
    // SAFETY: As above; providers copy the work request.
    match unsafe { post(qp, &mut posted, &mut bad) } {
        0 => Ok(()),
        errno => Err(Error::System {
            what: POST,
            errno: Errno::from_raw(errno.abs()),
        }),
    }
}

/// Makes of a work request for an XRC QP one for an RC QP.
///
/// # Safety
///
/// As [`post_send`].
unsafe fn translate(wr: &ibv_send_wr) -> Result<ibv_send_wr> {
    let mut out = *wr;
    out.next = std::ptr::null_mut();
    let imm = match wr.opcode {
        IBV_WR_RDMA_WRITE
        | IBV_WR_RDMA_READ
        | IBV_WR_ATOMIC_CMP_AND_SWP
        | IBV_WR_ATOMIC_FETCH_AND_ADD => return Ok(out),
        IBV_WR_SEND => None,
        IBV_WR_SEND_WITH_IMM => {
            // SAFETY: With this opcode that field of the union is in use.
            Some(u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data }))
        }
        _ => {
            return Err(Error::System {
                what: "post a send work request of this opcode to a TGT QP",
                errno: Errno::EOPNOTSUPP,
            })
        }
    };
    let solicited = wr.send_flags & IBV_SEND_SOLICITED != 0;
    // SAFETY: It is an integer, whatever it means.
    let srq_num = unsafe { wr.qp_type.xrc.remote_srqn };
    let encoded = encode_send(srq_num, imm, solicited)?;
    // SAFETY: The caller's word.
    if unsafe { total_len(wr) } > PART_SIZE as u64 {
        return Err(Error::Call {
            what: POST,
            errno: Errno::EMSGSIZE,
            advice: "with its header it is longer than one part",
        });
    }
    if let Some(header) = encoded.header {
        let room = if wr.num_sge > 0 && !wr.sg_list.is_null() {
            // SAFETY: There is at least one element.
            Some(unsafe { *wr.sg_list })
        } else {
            None
        };
        let room = room
            .filter(|sge| sge.length as usize >= HEADER_LEN)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "a SEND_WITH_IMM must leave {HEADER_LEN} bytes free at the start of its \
                     first scatter entry, for the header that carries the immediate"
                ))
            })?;
        // SAFETY: The caller's word: at least 8 bytes, which we may write.
        unsafe {
            std::ptr::copy_nonoverlapping(header.as_ptr(), room.addr as *mut u8, HEADER_LEN);
        }
    }
    out.opcode = IBV_WR_SEND_WITH_IMM;
    out.__bindgen_anon_1.imm_data = encoded.imm.to_be();
    Ok(out)
}

/// Bytes of the scatter list.
///
/// # Safety
///
/// As [`post_send`].
unsafe fn total_len(wr: &ibv_send_wr) -> u64 {
    if wr.sg_list.is_null() {
        return 0;
    }
    let n = usize::try_from(wr.num_sge).unwrap_or(0);
    // SAFETY: The caller's word.
    let sges = unsafe { std::slice::from_raw_parts(wr.sg_list, n) };
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wr(opcode: ibv_wr_opcode, sge: &mut [ibv_sge]) -> ibv_send_wr {
        let mut wr = ibv_send_wr {
            opcode,
            wr_id: 1,
            sg_list: sge.as_mut_ptr(),
            num_sge: sge.len() as i32,
            ..Default::default()
        };
        wr.qp_type.xrc.remote_srqn = 0x42;
        wr.__bindgen_anon_1.imm_data = 0x0a0b_0c0d_u32.to_be();
        wr
    }

    fn sge(buffer: &mut [u8]) -> ibv_sge {
        ibv_sge {
            addr: buffer.as_mut_ptr() as u64,
            length: buffer.len() as u32,
            lkey: 0,
        }
    }

    fn imm(wr: &ibv_send_wr) -> u32 {
        // SAFETY: It is an integer.
        u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data })
    }

    #[test]
    fn a_send_gets_the_srq_number_as_immediate() {
        let mut buffer = [7; 16];
        let mut sges = [sge(&mut buffer)];
        let mut wr = wr(IBV_WR_SEND, &mut sges);
        wr.send_flags = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED;
        // SAFETY: All pointers are good.
        let out = unsafe { translate(&wr) }.unwrap();
        assert_eq!((out.opcode, imm(&out)), (IBV_WR_SEND_WITH_IMM, 0x4202));
        assert_eq!((out.num_sge, out.send_flags), (1, wr.send_flags));
        assert_eq!(buffer, [7; 16]);
    }

    #[test]
    fn an_immediate_goes_into_the_room_in_front() {
        let mut buffer = [7; 16];
        let mut sges = [sge(&mut buffer)];
        let wr = wr(IBV_WR_SEND_WITH_IMM, &mut sges);
        // SAFETY: All pointers are good.
        let out = unsafe { translate(&wr) }.unwrap();
        assert_eq!(imm(&out), 0x4201);
        assert_eq!(buffer[..8], [0xa, 0xb, 0xc, 0xd, 0, 0, 0, 0]);
        assert_eq!(buffer[8..], [7; 8]);
    }

    #[test]
    fn without_room_it_is_refused() {
        let mut buffer = [7; 7];
        let mut sges = [sge(&mut buffer)];
        for n in 0..2 {
            let wr = wr(IBV_WR_SEND_WITH_IMM, &mut sges[..n]);
            // SAFETY: All pointers are good.
            let error = unsafe { translate(&wr) }.map(|_| ()).unwrap_err();
            assert_eq!(error.errno(), Errno::EINVAL);
        }
        assert_eq!(buffer, [7; 7]);
    }

    #[test]
    fn what_is_longer_than_a_part_is_refused() {
        let mut buffer = vec![7; PART_SIZE + 1];
        for opcode in [IBV_WR_SEND, IBV_WR_SEND_WITH_IMM] {
            let (first, second) = buffer.split_at_mut(PART_SIZE);
            let mut sges = [sge(first), sge(second)];
            // SAFETY: All pointers are good.
            let error = unsafe { translate(&wr(opcode, &mut sges)) }.map(|_| ());
            assert_eq!(error.unwrap_err().errno(), Errno::EMSGSIZE);
            assert_eq!(buffer[..8], [7; 8]);
        }
        let mut sges = [sge(&mut buffer[1..])];
        // SAFETY: All pointers are good.
        assert!(unsafe { translate(&wr(IBV_WR_SEND, &mut sges)) }.is_ok());
    }

    #[test]
    fn one_sided_operations_are_left_alone() {
        let mut sges = [];
        let read = wr(IBV_WR_RDMA_READ, &mut sges);
        // SAFETY: All pointers are good.
        let out = unsafe { translate(&read) }.unwrap();
        assert_eq!(out.opcode, IBV_WR_RDMA_READ);
        let other = wr(IBV_WR_RDMA_WRITE_WITH_IMM, &mut sges);
        // SAFETY: All pointers are good.
        let error = unsafe { translate(&other) }.map(|_| ()).unwrap_err();
        assert_eq!(error.errno(), Errno::EOPNOTSUPP);
    }
}
