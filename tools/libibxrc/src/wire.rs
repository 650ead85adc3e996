// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC over RC: how a message names the SRQ it is for.
//!
//! A SEND travels as SEND_WITH_IMM on an ordinary RC QP. The 32 bits of immediate
//! data are the SRQ number and flags; what has an immediate of its own carries it in
//! a header in front of the message. What does not fit in one part travels in several.

use std::ops::Range;

use crate::{
    error::{Error, Result},
    uapi::{
        ib_xrc_wire_hdr, IB_XRC_WIRE_CONT, IB_XRC_WIRE_HDR, IB_XRC_WIRE_MORE,
        IB_XRC_WIRE_PART_SIZE, IB_XRC_WIRE_SOLICITED, IB_XRC_WIRE_SRQ_NUM_MAX,
        IB_XRC_WIRE_SRQ_NUM_SHIFT, IB_XRC_WIRE_WRITE,
    },
};

/// Bytes of the header in front of a message that has an immediate.
pub const HEADER_LEN: usize = size_of::<ib_xrc_wire_hdr>();

/// Bytes of a part of a message, its header included.
pub const PART_SIZE: usize = IB_XRC_WIRE_PART_SIZE as usize;

fn check_srq_num(srq_num: u32) -> Result<()> {
    if srq_num > IB_XRC_WIRE_SRQ_NUM_MAX {
        return Err(Error::invalid(format!(
            "{srq_num:#x} is no SRQ number: they have 24 bits"
        )));
    }
    Ok(())
}

fn header(imm: u32, write_len: u32) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&imm.to_be_bytes());
    header[4..].copy_from_slice(&write_len.to_be_bytes());
    header
}

/// A part of a message: a SEND_WITH_IMM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its immediate data, in host byte order.
    pub imm: u32,
    /// What goes in front of its payload, in the first part of a message that has an
    /// immediate of its own.
    pub header: Option<[u8; HEADER_LEN]>,
    /// Which bytes of the message it carries.
    pub range: Range<usize>,
}

/// A SEND or SEND_WITH_IMM of any length, as the sequence of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    srq_num: u32,
    imm: Option<u32>,
    solicited: bool,
    len: usize,
}

impl Message {
    /// A message of `len` bytes to the SRQ of this number or, with `imm` (host byte order), a
    /// SEND_WITH_IMM. `solicited`: the sender asks for a solicited event. EINVAL: the number
    /// has more than 24 bits.
    pub fn new(srq_num: u32, imm: Option<u32>, solicited: bool, len: usize) -> Result<Self> {
        check_srq_num(srq_num)?;
        Ok(Message {
            srq_num,
            imm,
            solicited,
            len,
        })
    }

    fn header_len(&self) -> usize {
        self.imm.map_or(0, |_| HEADER_LEN)
    }

    /// How many parts it has, at least one.
    pub fn part_count(&self) -> usize {
        // A length near the end of what a usize can hold does not wrap around.
        let first = self.len.min(PART_SIZE - self.header_len());
        1 + (self.len - first).div_ceil(PART_SIZE)
    }

    /// One of its parts, from 0.
    ///
    /// # Panics
    ///
    /// If it has fewer.
    pub fn part(&self, index: usize) -> Part {
        let last = self.part_count() - 1;
        assert!(index <= last, "the message has no part {index}");
        let header_len = self.header_len();
        let start = match index {
            0 => 0,
            _ => index * PART_SIZE - header_len,
        };
        let end = match index == last {
            true => self.len,
            false => (index + 1) * PART_SIZE - header_len,
        };
        let mut flags = 0;
        if index > 0 {
            flags |= IB_XRC_WIRE_CONT;
        } else if self.imm.is_some() {
            flags |= IB_XRC_WIRE_HDR;
        }
        if index < last {
            flags |= IB_XRC_WIRE_MORE;
        } else if self.solicited {
            flags |= IB_XRC_WIRE_SOLICITED;
        }
        Part {
            imm: (self.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT) | flags,
            header: self.imm.filter(|_| index == 0).map(|imm| header(imm, 0)),
            range: start..end,
        }
    }

    /// All of its parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        (0..self.part_count()).map(|index| self.part(index))
    }
}

/// What follows the RDMA WRITE of an RDMA_WRITE_WITH_IMM of `write_len` bytes. It has
/// nothing but its header. Else as [`Message::new`].
pub fn write_note(srq_num: u32, imm: u32, write_len: u32, solicited: bool) -> Result<Part> {
    let mut note = Message::new(srq_num, Some(imm), solicited, 0)?.part(0);
    note.imm |= IB_XRC_WIRE_WRITE;
    note.header = Some(header(imm, write_len));
    Ok(note)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_send_needs_no_header() {
        let part = Message::new(0x0012_3456, None, false, 9).unwrap().part(0);
        assert_eq!((part.imm, part.header), (0x1234_5600, None));
    }

    #[test]
    fn an_immediate_goes_into_the_header() {
        let message = Message::new(1, Some(0x0102_0304), true, 9).unwrap();
        let part = message.part(0);
        assert_eq!(part.imm, 0x103);
        assert_eq!(part.header, Some([1, 2, 3, 4, 0, 0, 0, 0]));
    }

    #[test]
    fn srq_numbers_have_24_bits() {
        assert!(Message::new(IB_XRC_WIRE_SRQ_NUM_MAX, None, false, 0).is_ok());
        let error = Message::new(IB_XRC_WIRE_SRQ_NUM_MAX + 1, None, false, 0).unwrap_err();
        assert_eq!(error.errno(), crate::Errno::EINVAL);
    }

    #[test]
    fn parts_end_where_they_should() {
        let ends = |imm, len| -> Vec<_> {
            let message = Message::new(1, imm, false, len).unwrap();
            message.parts().map(|part| part.range.end).collect()
        };
        assert_eq!(ends(None, 0), [0]);
        assert_eq!(ends(None, 4096), [4096]);
        assert_eq!(ends(None, 4097), [4096, 4097]);
        assert_eq!(ends(Some(1), 0), [0]);
        assert_eq!(ends(Some(1), 4088), [4088]);
        assert_eq!(ends(Some(1), 4089), [4088, 4089]);
        assert_eq!(ends(Some(1), 8184), [4088, 8184]);
        assert_eq!(ends(None, 8193), [4096, 8192, 8193]);
    }

    #[test]
    fn flags_say_where_a_part_is() {
        let message = Message::new(1, Some(2), true, 3 * PART_SIZE).unwrap();
        let imms: Vec<_> = message.parts().map(|part| part.imm).collect();
        assert_eq!(imms, [0x105, 0x10c, 0x10c, 0x10a]);
        let only = Message::new(1, Some(2), true, 1).unwrap();
        assert_eq!(only.part(0).imm, 0x103);
    }

    #[test]
    fn a_write_tells_its_length() {
        let e = write_note(1, 0x0102_0304, 0x0506_0708, true).unwrap();
        assert_eq!(e.imm, 0x113);
        assert_eq!(e.header, Some([1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(write_note(1 << 24, 0, 0, false).is_err());
    }

    proptest! {
        #[test]
        fn parts_make_up_the_message(
            srq_num in 0..=IB_XRC_WIRE_SRQ_NUM_MAX,
            imm in prop::option::of(any::<u32>()),
            solicited in any::<bool>(),
            len in prop_oneof![0..5 * PART_SIZE, 0..64 * PART_SIZE],
        ) {
            let message = Message::new(srq_num, imm, solicited, len).unwrap();
            let parts: Vec<_> = message.parts().collect();
            let last = parts.len() - 1;
            let mut at = 0;
            for (i, part) in parts.iter().enumerate() {
                prop_assert_eq!(part.range.start, at);
                at = part.range.end;
                let payload = part.header.map_or(0, |h| h.len()) + part.range.len();
                if i < last {
                    prop_assert_eq!(payload, PART_SIZE);
                } else {
                    prop_assert!(payload <= PART_SIZE && (i == 0 || payload > 0));
                }
                prop_assert_eq!(part.imm >> IB_XRC_WIRE_SRQ_NUM_SHIFT, srq_num);
                let flag = |flag| part.imm & flag != 0;
                prop_assert_eq!(flag(IB_XRC_WIRE_MORE), i < last);
                prop_assert_eq!(flag(IB_XRC_WIRE_CONT), i > 0);
                prop_assert_eq!(flag(IB_XRC_WIRE_SOLICITED), solicited && i == last);
                prop_assert_eq!(flag(IB_XRC_WIRE_HDR), imm.is_some() && i == 0);
                prop_assert_eq!(part.header.is_some(), imm.is_some() && i == 0);
                prop_assert!(!flag(IB_XRC_WIRE_WRITE));
            }
            prop_assert_eq!(at, len);
        }
    }
}
