// SPDX-License-Identifier: GPL-2.0

//! The XRC-over-RC wire format.
//!
//! Pure logic: it uses nothing but `core` and the ABI's constants, so that the same file is
//! compiled and tested on the host.
//!
//! C header: [`uapi/rdma/ib_user_xrc.h`](srctree/uapi/rdma/ib_user_xrc.h), "XRC over RC wire".

/// Size of `struct ib_xrc_wire_hdr`, bytes.
pub(crate) const HEADER_SIZE: usize = 8;

const SRQ_NUM_SHIFT: u32 = 8;
const FLAGS_MASK: u32 = (1 << SRQ_NUM_SHIFT) - 1;

/// The payload starts with `struct ib_xrc_wire_hdr` (`IB_XRC_WIRE_HDR`).
const FLAG_HDR: u32 = 1 << 0;
/// The sender asked for a solicited event (`IB_XRC_WIRE_SOLICITED`).
const FLAG_SOLICITED: u32 = 1 << 1;

/// Why a message is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Flags that this version of the format does not know.
    Flags,
    /// The payload is shorter than its header.
    Truncated,
    /// A reserved field of the header is not zero.
    Reserved,
}

/// What the wire says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The SRQ that the message is for, 24 bits.
    pub(crate) srq_num: u32,
    /// The sender asked for a solicited event.
    pub(crate) solicited: bool,
    /// The immediate of a SEND_WITH_IMM, in host order.
    pub(crate) imm_data: Option<u32>,
    /// Where the message itself starts in the payload, bytes.
    pub(crate) offset: usize,
}

/// Takes a message apart.
///
/// `imm` is the immediate of the SEND_WITH_IMM in host order, `payload` what came with it.
pub(crate) fn decode(imm: u32, payload: &[u8]) -> Result<Envelope, Malformed> {
    let flags = imm & FLAGS_MASK;

    if flags & !(FLAG_HDR | FLAG_SOLICITED) != 0 {
        return Err(Malformed::Flags);
    }

    let mut envelope = Envelope {
        srq_num: imm >> SRQ_NUM_SHIFT,
        solicited: flags & FLAG_SOLICITED != 0,
        imm_data: None,
        offset: 0,
    };

    if flags & FLAG_HDR != 0 {
        let Some((header, _)) = payload.split_first_chunk::<HEADER_SIZE>() else {
            return Err(Malformed::Truncated);
        };
        let [a, b, c, d, reserved @ ..] = *header;

        if reserved != [0; 4] {
            return Err(Malformed::Reserved);
        }
        envelope.imm_data = Some(u32::from_be_bytes([a, b, c, d]));
        envelope.offset = HEADER_SIZE;
    }

    Ok(envelope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_send() {
        assert_eq!(
            decode(0x123456 << 8, b"hello"),
            Ok(Envelope {
                srq_num: 0x123456,
                solicited: false,
                imm_data: None,
                offset: 0,
            })
        );
    }

    #[test]
    fn send_with_imm() {
        let payload = [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 7];

        assert_eq!(
            decode(1 << 8 | FLAG_HDR | FLAG_SOLICITED, &payload),
            Ok(Envelope {
                srq_num: 1,
                solicited: true,
                imm_data: Some(0xdeadbeef),
                offset: HEADER_SIZE,
            })
        );
    }

    #[test]
    fn unknown_flags_are_refused() {
        for bit in 2..8 {
            assert_eq!(decode(1 << 8 | 1 << bit, &[0; 16]), Err(Malformed::Flags));
        }
    }

    #[test]
    fn short_header_is_refused() {
        for len in 0..HEADER_SIZE {
            assert_eq!(
                decode(1 << 8 | FLAG_HDR, &[0; HEADER_SIZE][..len]),
                Err(Malformed::Truncated)
            );
        }
        assert!(decode(1 << 8 | FLAG_HDR, &[0; HEADER_SIZE]).is_ok());
    }

    #[test]
    fn reserved_bytes_must_be_zero() {
        for byte in 4..HEADER_SIZE {
            let mut payload = [0; HEADER_SIZE];

            payload[byte] = 1;
            assert_eq!(
                decode(1 << 8 | FLAG_HDR, &payload),
                Err(Malformed::Reserved)
            );
        }
    }
}
