// SPDX-License-Identifier: GPL-2.0

//! The XRC-over-RC wire format.
//!
//! Pure logic: it uses nothing but `core` and the ABI's constants, so that the same file is
//! compiled and tested on the host.
//!
//! C header: [`uapi/rdma/ib_user_xrc.h`](srctree/uapi/rdma/ib_user_xrc.h), "XRC over RC wire".

/// Size of `struct ib_xrc_wire_hdr`, bytes.
pub(crate) const HEADER_SIZE: usize = 8;
/// `IB_XRC_WIRE_PART_SIZE`
pub(crate) const PART_SIZE: usize = 4096;

/// Bytes of an RDMA WRITE at most, on any device.
const MAX_WRITE: u32 = 1 << 31;

const SRQ_NUM_SHIFT: u32 = 8;
const FLAGS_MASK: u32 = (1 << SRQ_NUM_SHIFT) - 1;

/// `IB_XRC_WIRE_HDR`: the payload starts with `struct ib_xrc_wire_hdr`.
const FLAG_HDR: u32 = 1 << 0;
/// `IB_XRC_WIRE_SOLICITED`: the sender asked for a solicited event.
const FLAG_SOLICITED: u32 = 1 << 1;
/// `IB_XRC_WIRE_MORE`: this is not the last part.
const FLAG_MORE: u32 = 1 << 2;
/// `IB_XRC_WIRE_CONT`: this is not the first part.
const FLAG_CONT: u32 = 1 << 3;
/// `IB_XRC_WIRE_WRITE`: the note that an RDMA WRITE has an immediate.
const FLAG_WRITE: u32 = 1 << 4;

/// Why a part of a message is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Flags that this version of the format does not know, or which exclude each other.
    Flags,
    /// The payload is shorter than its header.
    Truncated,
    /// A field of the header that has no meaning here is not zero.
    Reserved,
    /// The payload is not as long as it must be.
    Length,
}

/// What the wire says of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The SRQ that the message is for, 24 bits.
    pub(crate) srq_num: u32,
    /// The message begins here.
    pub(crate) first: bool,
    /// The message ends here.
    pub(crate) last: bool,
    /// The sender asked for a solicited event.
    pub(crate) solicited: bool,
    /// The immediate of a SEND_WITH_IMM or RDMA_WRITE_WITH_IMM, in host order.
    pub(crate) imm_data: Option<u32>,
    /// Bytes that the RDMA WRITE has written which this is about; else this is a SEND.
    pub(crate) write_len: Option<u32>,
    /// Where the contents of the message start in the payload, bytes.
    pub(crate) offset: usize,
}

/// Takes a part of a message apart.
///
/// `imm` is the immediate of the SEND_WITH_IMM in host order, `payload` what came with it.
pub(crate) fn decode(imm: u32, payload: &[u8]) -> Result<Envelope, Malformed> {
    let flags = imm & FLAGS_MASK;
    let has = |flag| flags & flag != 0;
    let (first, last) = (!has(FLAG_CONT), !has(FLAG_MORE));

    if flags & !(FLAG_HDR | FLAG_SOLICITED | FLAG_MORE | FLAG_CONT | FLAG_WRITE) != 0
        || has(FLAG_HDR) && !first
        || has(FLAG_SOLICITED) && !last
        || has(FLAG_WRITE) && !(has(FLAG_HDR) && first && last)
    {
        return Err(Malformed::Flags);
    }

    let mut envelope = Envelope {
        srq_num: imm >> SRQ_NUM_SHIFT,
        first,
        last,
        solicited: has(FLAG_SOLICITED),
        imm_data: None,
        write_len: None,
        offset: 0,
    };

    if has(FLAG_HDR) {
        let Some((&[a, b, c, d, e, f, g, h], _)) = payload.split_first_chunk::<HEADER_SIZE>()
        else {
            return Err(Malformed::Truncated);
        };
        let write_len = u32::from_be_bytes([e, f, g, h]);

        if has(FLAG_WRITE) {
            if write_len > MAX_WRITE {
                return Err(Malformed::Length);
            }
            envelope.write_len = Some(write_len);
        } else if write_len != 0 {
            return Err(Malformed::Reserved);
        }
        envelope.imm_data = Some(u32::from_be_bytes([a, b, c, d]));
        envelope.offset = HEADER_SIZE;
    }

    // So that a message of many parts comes to an end.
    let fits = match (first, last) {
        (_, false) => payload.len() == PART_SIZE,
        (false, true) => !payload.is_empty() && payload.len() <= PART_SIZE,
        (true, true) if has(FLAG_WRITE) => payload.len() == HEADER_SIZE,
        (true, true) => payload.len() <= PART_SIZE,
    };

    if !fits {
        return Err(Malformed::Length);
    }
    Ok(envelope)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Envelope = Envelope {
        srq_num: 1,
        first: true,
        last: true,
        solicited: false,
        imm_data: None,
        write_len: None,
        offset: 0,
    };

    #[test]
    fn plain_send() {
        assert_eq!(
            decode(0x123456 << 8, b"hello"),
            Ok(Envelope {
                srq_num: 0x123456,
                ..PLAIN
            })
        );
    }

    #[test]
    fn send_with_imm() {
        let payload = [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 7];

        assert_eq!(
            decode(1 << 8 | FLAG_HDR | FLAG_SOLICITED, &payload),
            Ok(Envelope {
                solicited: true,
                imm_data: Some(0xdeadbeef),
                offset: HEADER_SIZE,
                ..PLAIN
            })
        );
    }

    #[test]
    fn parts() {
        let full = [0; PART_SIZE];
        let part = |flags, payload: &[u8]| decode(1 << 8 | flags, payload);

        assert_eq!(
            part(FLAG_MORE | FLAG_HDR, &full),
            Ok(Envelope {
                last: false,
                imm_data: Some(0),
                offset: HEADER_SIZE,
                ..PLAIN
            })
        );
        assert_eq!(
            part(FLAG_MORE | FLAG_CONT, &full),
            Ok(Envelope {
                first: false,
                last: false,
                ..PLAIN
            })
        );
        assert_eq!(
            part(FLAG_CONT | FLAG_SOLICITED, &full[..1]),
            Ok(Envelope {
                first: false,
                solicited: true,
                ..PLAIN
            })
        );
    }

    #[test]
    fn write_with_imm() {
        let note = [0, 0, 0, 5, 0, 1, 0, 0];

        assert_eq!(
            decode(1 << 8 | FLAG_WRITE | FLAG_HDR, &note),
            Ok(Envelope {
                imm_data: Some(5),
                write_len: Some(0x10000),
                offset: HEADER_SIZE,
                ..PLAIN
            })
        );
        assert_eq!(
            decode(1 << 8 | FLAG_WRITE | FLAG_HDR, &[0; HEADER_SIZE + 1]),
            Err(Malformed::Length)
        );
        assert!(decode(1 << 8 | FLAG_WRITE | FLAG_HDR, &[0, 0, 0, 5, 0x80, 0, 0, 0]).is_ok());
        assert_eq!(
            decode(1 << 8 | FLAG_WRITE | FLAG_HDR, &[0, 0, 0, 5, 0x80, 0, 0, 1]),
            Err(Malformed::Length)
        );
    }

    #[test]
    fn unknown_flags_are_refused() {
        for bit in 5..8 {
            assert_eq!(decode(1 << 8 | 1 << bit, &[0; 16]), Err(Malformed::Flags));
        }
    }

    #[test]
    fn flags_that_exclude_each_other_are_refused() {
        for flags in [
            FLAG_HDR | FLAG_CONT,
            FLAG_SOLICITED | FLAG_MORE,
            FLAG_WRITE,
            FLAG_WRITE | FLAG_HDR | FLAG_MORE,
            FLAG_WRITE | FLAG_HDR | FLAG_CONT,
        ] {
            assert_eq!(
                decode(1 << 8 | flags, &[0; PART_SIZE]),
                Err(Malformed::Flags)
            );
        }
    }

    #[test]
    fn all_parts_but_the_last_are_full() {
        for flags in [FLAG_MORE, FLAG_MORE | FLAG_CONT, FLAG_MORE | FLAG_HDR] {
            for len in [HEADER_SIZE, PART_SIZE - 1, PART_SIZE + 1] {
                assert_eq!(
                    decode(1 << 8 | flags, &[0; PART_SIZE + 1][..len]),
                    Err(Malformed::Length)
                );
            }
        }
        assert_eq!(decode(1 << 8 | FLAG_CONT, &[]), Err(Malformed::Length));
        for flags in [0, FLAG_CONT] {
            assert_eq!(
                decode(1 << 8 | flags, &[0; PART_SIZE + 1]),
                Err(Malformed::Length)
            );
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
    fn only_a_write_has_a_length() {
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
