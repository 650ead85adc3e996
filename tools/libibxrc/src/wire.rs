// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! XRC over RC: how a message names the SRQ it is for.
//!
//! A SEND travels as SEND_WITH_IMM on an ordinary RC QP. The 32 bits of immediate
//! data are the SRQ number and flags; what has an immediate of its own carries it in
//! a header in front of the message.

use crate::{
    error::{Error, Result},
    uapi::{
        ib_xrc_wire_hdr, IB_XRC_WIRE_HDR, IB_XRC_WIRE_PART_SIZE, IB_XRC_WIRE_SOLICITED,
        IB_XRC_WIRE_SRQ_NUM_MAX, IB_XRC_WIRE_SRQ_NUM_SHIFT,
    },
};

/// Bytes of the header in front of a message that has an immediate.
pub const HEADER_LEN: usize = size_of::<ib_xrc_wire_hdr>();

/// Bytes of a part of a message, its header included.
pub const PART_SIZE: usize = IB_XRC_WIRE_PART_SIZE as usize;

/// What a message is to carry in addition to its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Immediate data of the SEND_WITH_IMM, in host byte order.
    pub imm: u32,
    /// What goes in front of the message, if it has an immediate of its own.
    pub header: Option<[u8; HEADER_LEN]>,
}

/// Encodes a SEND to the SRQ of this number or, with `imm` (host byte order), a
/// SEND_WITH_IMM. `solicited`: the sender asks for a solicited event. EINVAL: the
/// number has more than 24 bits.
pub fn encode_send(srq_num: u32, imm: Option<u32>, solicited: bool) -> Result<Encoded> {
    if srq_num > IB_XRC_WIRE_SRQ_NUM_MAX {
        return Err(Error::invalid(format!(
            "{srq_num:#x} is no SRQ number: they have 24 bits"
        )));
    }
    let mut flags = 0;
    if imm.is_some() {
        flags |= IB_XRC_WIRE_HDR;
    }
    if solicited {
        flags |= IB_XRC_WIRE_SOLICITED;
    }
    Ok(Encoded {
        imm: (srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT) | flags,
        header: imm.map(|imm| {
            let mut header = [0; HEADER_LEN];
            header[..4].copy_from_slice(&imm.to_be_bytes());
            header
        }),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_send_needs_no_header() {
        let e = encode_send(0x0012_3456, None, false).unwrap();
        assert_eq!(e.imm, 0x1234_5600);
        assert_eq!(e.header, None);
    }

    #[test]
    fn an_immediate_goes_into_the_header() {
        let e = encode_send(1, Some(0x0102_0304), true).unwrap();
        assert_eq!(e.imm, 0x103);
        assert_eq!(e.header, Some([1, 2, 3, 4, 0, 0, 0, 0]));
    }

    #[test]
    fn srq_numbers_have_24_bits() {
        assert!(encode_send(IB_XRC_WIRE_SRQ_NUM_MAX, None, false).is_ok());
        let error = encode_send(IB_XRC_WIRE_SRQ_NUM_MAX + 1, None, false).unwrap_err();
        assert_eq!(error.errno(), crate::Errno::EINVAL);
    }

    proptest! {
        #[test]
        fn everything_can_be_read_back(
            srq_num in 0..=IB_XRC_WIRE_SRQ_NUM_MAX,
            imm in prop::option::of(any::<u32>()),
            solicited in any::<bool>(),
        ) {
            let e = encode_send(srq_num, imm, solicited).unwrap();
            prop_assert_eq!(e.imm >> IB_XRC_WIRE_SRQ_NUM_SHIFT, srq_num);
            prop_assert_eq!(e.imm & IB_XRC_WIRE_HDR != 0, imm.is_some());
            prop_assert_eq!(e.imm & IB_XRC_WIRE_SOLICITED != 0, solicited);
            prop_assert_eq!(e.imm & 0xff & !(IB_XRC_WIRE_HDR | IB_XRC_WIRE_SOLICITED), 0);
            let header = e.header.map(|h| {
                assert_eq!(h[4..], [0; 4]);
                u32::from_be_bytes([h[0], h[1], h[2], h[3]])
            });
            prop_assert_eq!(header, imm);
        }
    }
}
