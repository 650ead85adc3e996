// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A work request of the user, and the work requests of the RC QP that carry it out.

use std::ops::Range;

use crate::{
    error::{Errno, Error, Result},
    verbs::*,
    wire::{write_note, Message, Part, HEADER_LEN},
};

/// What becomes of it.
enum Form {
    /// One work request for each part.
    Send(Message),
    /// The work request itself, without its immediate, and a note.
    WriteWithImm(Part),
    /// The work request itself.
    Same,
}

/// A work request, with what it points to.
pub(super) struct Work {
    wr: ibv_send_wr,
    sges: Vec<ibv_sge>,
    len: u64,
    form: Form,
}

/// A work request of the RC QP, but for its number and scatter list.
pub(super) struct WorkStep {
    pub(super) wr: ibv_send_wr,
    /// What its payload begins with.
    pub(super) header: Option<[u8; HEADER_LEN]>,
    /// What of the work request's bytes follows.
    pub(super) range: Range<usize>,
}

impl Work {
    /// Copies it, but for the data. EINVAL: it makes no sense. EMSGSIZE: it is longer than
    /// `max_len`. EOPNOTSUPP: another opcode. ENOMEM.
    ///
    /// # Safety
    ///
    /// `sg_list` has `num_sge` elements.
    pub(super) unsafe fn new(wr: &ibv_send_wr, max_len: u64) -> Result<Self> {
        // SAFETY: The caller's word.
        let sges = unsafe { copy_sges(wr)? };
        let len = sges.iter().map(|sge| u64::from(sge.length)).sum();
        let solicited = wr.send_flags & IBV_SEND_SOLICITED != 0;
        // SAFETY: It is an integer, whatever it means.
        let srq_num = unsafe { wr.qp_type.xrc.remote_srqn };
        // SAFETY: The same.
        let imm = u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data });
        let message = |imm| Message::new(srq_num, imm, solicited, len as usize);
        let form = match wr.opcode {
            IBV_WR_SEND => Form::Send(message(None)?),
            IBV_WR_SEND_WITH_IMM => Form::Send(message(Some(imm))?),
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                Form::WriteWithImm(write_note(srq_num, imm, len as u32, solicited)?)
            }
            IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_READ
            | IBV_WR_ATOMIC_CMP_AND_SWP
            | IBV_WR_ATOMIC_FETCH_AND_ADD => Form::Same,
            _ => {
                return Err(Error::System {
                    what: "post a work request of this opcode to an INI QP",
                    errno: Errno::EOPNOTSUPP,
                })
            }
        };
        let same = matches!(form, Form::Same) && wr.opcode != IBV_WR_RDMA_WRITE;
        if same && wr.send_flags & IBV_SEND_INLINE != 0 {
            return Err(Error::invalid("only what is sent or written can be inline"));
        }
        if len > max_len {
            return Err(Error::Call {
                what: "post a work request",
                errno: Errno::EMSGSIZE,
                advice: "its data is longer than a message of the port",
            });
        }
        Ok(Work {
            wr: *wr,
            sges,
            len,
            form,
        })
    }

    /// How many steps it takes.
    pub(super) fn steps(&self) -> usize {
        match &self.form {
            Form::Send(message) => message.part_count(),
            Form::WriteWithImm(_) => 2,
            Form::Same => 1,
        }
    }

    /// One of them, from 0.
    pub(super) fn step(&self, index: usize) -> WorkStep {
        let all = 0..self.len as usize;
        let (opcode, part) = match &self.form {
            Form::Send(message) => (IBV_WR_SEND_WITH_IMM, Some(message.part(index))),
            Form::WriteWithImm(note) if index > 0 => (IBV_WR_SEND_WITH_IMM, Some(note.clone())),
            Form::WriteWithImm(_) => (IBV_WR_RDMA_WRITE, None),
            Form::Same => (self.wr.opcode, None),
        };
        // What is read before this must be there; the rest comes after it anyway.
        let mut flags = IBV_SEND_SOLICITED | IBV_SEND_FENCE;
        if index > 0 {
            flags &= !IBV_SEND_FENCE;
        }
        if index + 1 < self.steps() {
            flags &= !IBV_SEND_SOLICITED;
        }
        let mut step = WorkStep {
            wr: ibv_send_wr {
                opcode,
                send_flags: self.wr.send_flags & flags,
                ..self.wr
            },
            header: None,
            range: all,
        };
        if let Some(part) = part {
            step.wr.__bindgen_anon_1.imm_data = part.imm.to_be();
            step.header = part.header;
            step.range = part.range;
        }
        step
    }

    /// Appends where a range of its bytes is.
    pub(super) fn append_sges(&self, range: Range<usize>, out: &mut Vec<ibv_sge>) {
        let mut start = 0;
        for sge in &self.sges {
            let end = start + sge.length as usize;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                out.push(ibv_sge {
                    // Whether it is good is found out by the device.
                    addr: sge.addr.wrapping_add((from - start) as u64),
                    length: (to - from) as u32,
                    lkey: sge.lkey,
                });
            }
            start = end;
        }
    }

    /// It has a header in front of its data, which takes an element of a scatter list.
    pub(super) fn has_header(&self) -> bool {
        match &self.form {
            Form::Send(message) => message.part(0).header.is_some(),
            Form::WriteWithImm(_) | Form::Same => false,
        }
    }

    /// Where its data is.
    pub(super) fn sges(&self) -> &[ibv_sge] {
        &self.sges
    }

    /// Its data is there now.
    pub(super) fn set_sge(&mut self, sge: ibv_sge) {
        self.sges.truncate(0);
        self.sges.push(sge);
    }

    /// Its data is to be copied at once.
    pub(super) fn is_inline(&self) -> bool {
        self.wr.send_flags & IBV_SEND_INLINE != 0
    }

    /// It is an RDMA READ or atomic.
    pub(super) fn fetches(&self) -> bool {
        matches!(
            self.wr.opcode,
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
        )
    }

    /// It is to wait for the RDMA READs and atomics before it.
    pub(super) fn has_fence(&self) -> bool {
        self.wr.send_flags & IBV_SEND_FENCE != 0
    }

    /// It is an RDMA READ or WRITE of nothing.
    pub(super) fn is_empty_rdma(&self) -> bool {
        self.len == 0 && !matches!(self.form, Form::Send(_))
    }

    /// The user wants to know when it is done.
    pub(super) fn is_signaled(&self) -> bool {
        self.wr.send_flags & IBV_SEND_SIGNALED != 0
    }

    /// Makes of a completion of a step that of the work request, as the sender of a device
    /// with XRC sees it.
    pub(super) fn completion(&self, wc: &ibv_wc) -> ibv_wc {
        ibv_wc {
            wr_id: self.wr.wr_id,
            opcode: match self.wr.opcode {
                IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
                IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
                IBV_WR_ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
                IBV_WR_ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
                _ => IBV_WC_SEND,
            },
            byte_len: self.len as u32,
            // They say something about what was received.
            wc_flags: 0,
            ..*wc
        }
    }
}

/// # Safety
///
/// `sg_list` has `num_sge` elements.
unsafe fn copy_sges(wr: &ibv_send_wr) -> Result<Vec<ibv_sge>> {
    let n = usize::try_from(wr.num_sge)
        .map_err(|_| Error::invalid(format!("a scatter list of {} elements", wr.num_sge)))?;
    let mut sges = Vec::new();
    if n == 0 {
        return Ok(sges);
    }
    if wr.sg_list.is_null() {
        return Err(Error::invalid("a scatter list that is NULL"));
    }
    sges.try_reserve_exact(n).map_err(|_| Error::System {
        what: "post a work request",
        errno: Errno::ENOMEM,
    })?;
    // SAFETY: The caller's word.
    sges.extend_from_slice(unsafe { std::slice::from_raw_parts(wr.sg_list, n) });
    Ok(sges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(opcode: ibv_wr_opcode, flags: u32, lengths: &[u32]) -> Result<Work> {
        let mut sges: Vec<_> = (1u32..)
            .zip(lengths)
            .map(|(i, length)| ibv_sge {
                addr: u64::from(i) << 32,
                length: *length,
                lkey: i,
            })
            .collect();
        let mut wr = ibv_send_wr {
            wr_id: 7,
            opcode,
            send_flags: flags,
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as i32,
            ..Default::default()
        };
        wr.qp_type.xrc.remote_srqn = 5;
        wr.__bindgen_anon_1.imm_data = 0x0102_0304u32.to_be();
        // SAFETY: The list is what it says.
        unsafe { Work::new(&wr, 10_000) }
    }

    fn imm(step: &WorkStep) -> u32 {
        // SAFETY: It is an integer.
        u32::from_be(unsafe { step.wr.__bindgen_anon_1.imm_data })
    }

    #[test]
    fn a_send_becomes_parts() {
        let flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED | IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        let work = work(IBV_WR_SEND_WITH_IMM, flags, &[4000, 0, 100, 100]).unwrap();
        assert!(work.is_signaled() && work.is_inline() && work.has_header());
        assert_eq!(work.steps(), 2);
        let [first, second] = [0, 1].map(|i| work.step(i));
        assert_eq!(first.header, Some([1, 2, 3, 4, 0, 0, 0, 0]));
        assert_eq!((imm(&first), first.range.clone()), (0x505, 0..4088));
        assert_eq!((imm(&second), second.range.clone()), (0x50a, 4088..4200));
        assert_eq!(second.header, None);
        assert_eq!(first.wr.send_flags, IBV_SEND_FENCE);
        assert_eq!(second.wr.send_flags, IBV_SEND_SOLICITED);
        assert_eq!(second.wr.opcode, IBV_WR_SEND_WITH_IMM);

        let places = |step: WorkStep| -> Vec<_> {
            let mut sges = Vec::new();
            work.append_sges(step.range, &mut sges);
            sges.iter().map(|s| (s.addr, s.length, s.lkey)).collect()
        };
        assert_eq!(places(first), [(1 << 32, 4000, 1), (3 << 32, 88, 3)]);
        assert_eq!(places(second), [((3 << 32) + 88, 12, 3), (4 << 32, 100, 4)]);
    }

    #[test]
    fn a_write_is_followed_by_a_note() {
        let flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED;
        let work = work(IBV_WR_RDMA_WRITE_WITH_IMM, flags, &[1000]).unwrap();
        assert_eq!(work.steps(), 2);
        let [write, note] = [0, 1].map(|i| work.step(i));
        assert_eq!(write.wr.opcode, IBV_WR_RDMA_WRITE);
        assert_eq!((write.range, write.header), (0..1000, None));
        assert_eq!(write.wr.send_flags, IBV_SEND_FENCE);
        assert_eq!(note.wr.opcode, IBV_WR_SEND_WITH_IMM);
        assert_eq!((imm(&note), note.range.clone()), (0x513, 0..0));
        assert_eq!(note.header, Some([1, 2, 3, 4, 0, 0, 3, 0xe8]));
        assert_eq!(note.wr.send_flags, IBV_SEND_SOLICITED);
    }

    #[test]
    fn one_sided_operations_stay_what_they_are() {
        for opcode in [
            IBV_WR_RDMA_WRITE,
            IBV_WR_RDMA_READ,
            IBV_WR_ATOMIC_CMP_AND_SWP,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
        ] {
            let work = work(opcode, IBV_SEND_FENCE, &[8]).unwrap();
            assert_eq!(work.steps(), 1);
            let step = work.step(0);
            assert_eq!((step.wr.opcode, step.header), (opcode, None));
            assert_eq!(step.wr.send_flags, IBV_SEND_FENCE);
            assert_eq!(step.range, 0..8);
        }
    }

    #[test]
    fn bad_ones_are_refused() {
        let errno = |work: Result<Work>| work.map(|_| ()).unwrap_err().errno();
        assert_eq!(errno(work(IBV_WR_BIND_MW, 0, &[])), Errno::EOPNOTSUPP);
        assert_eq!(errno(work(IBV_WR_SEND, 0, &[9000, 1001])), Errno::EMSGSIZE);
        let inline = work(IBV_WR_RDMA_READ, IBV_SEND_INLINE, &[8]);
        assert_eq!(errno(inline), Errno::EINVAL);
        let wr = ibv_send_wr {
            num_sge: 1,
            ..Default::default()
        };
        // SAFETY: There is no list.
        assert_eq!(errno(unsafe { Work::new(&wr, 1) }), Errno::EINVAL);
        let wr = ibv_send_wr { num_sge: -1, ..wr };
        // SAFETY: There is no list.
        assert_eq!(errno(unsafe { Work::new(&wr, 1) }), Errno::EINVAL);
    }

    #[test]
    fn completions_are_the_users() {
        let work = work(IBV_WR_RDMA_WRITE_WITH_IMM, 0, &[10, 20]).unwrap();
        let wc = work.completion(&ibv_wc {
            wr_id: 99,
            opcode: IBV_WC_SEND,
            byte_len: 8,
            qp_num: 17,
            wc_flags: IBV_WC_WITH_IMM,
            ..Default::default()
        });
        assert_eq!(
            (wc.wr_id, wc.opcode, wc.byte_len),
            (7, IBV_WC_RDMA_WRITE, 30)
        );
        assert_eq!((wc.qp_num, wc.wc_flags), (17, 0));
    }
}
