// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel module's soft backend that need nothing but `core`, with
//! their tests, and what the module and the library must agree on.

// The module's lints are the kernel's.
#[allow(dead_code)]
#[path = "../../../rust/soft/sequence.rs"]
mod sequence;
#[allow(dead_code, clippy::precedence)]
#[path = "../../../rust/soft/wire.rs"]
mod wire;

#[cfg(test)]
mod tests {
    use ibxrc::wire::{write_note, Message, Part, HEADER_LEN, PART_SIZE};
    use proptest::prelude::*;

    use super::{
        sequence::Sequence,
        wire::{decode, Envelope},
    };

    /// What travels of a part, but for the immediate.
    fn payload(part: &Part, contents: &[u8]) -> Vec<u8> {
        let mut payload = part.header.map_or_else(Vec::new, |h| h.to_vec());
        payload.extend(&contents[part.range.clone()]);
        payload
    }

    proptest! {
        #[test]
        fn the_module_understands_the_library(
            srq_num in 0u32..1 << 24,
            imm in prop::option::of(any::<u32>()),
            solicited in any::<bool>(),
            // Around the ends of parts, which a header moves.
            parts in 0usize..4,
            more in 0..2 * HEADER_LEN + 2,
        ) {
            let len = (parts * PART_SIZE + more).saturating_sub(HEADER_LEN + 1);
            let contents: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let message = Message::new(srq_num, imm, solicited, len).unwrap();
            let last = message.part_count() - 1;
            let mut sequence = Sequence::default();
            let mut received: Vec<u8> = Vec::new();
            for (index, part) in message.parts().enumerate() {
                let payload = payload(&part, &contents);
                let imm_data = imm.filter(|_| index == 0);
                let envelope = Envelope {
                    srq_num,
                    first: index == 0,
                    last: index == last,
                    solicited: solicited && index == last,
                    imm_data,
                    write_len: None,
                    offset: imm_data.map_or(0, |_| HEADER_LEN),
                };
                prop_assert_eq!(decode(part.imm, &payload), Ok(envelope));
                let piece = &payload[envelope.offset..];
                let max = len as u32;
                prop_assert_eq!(sequence.next(&envelope, piece.len(), max), Ok(1));
                received.extend(piece);
            }
            prop_assert_eq!(sequence.cut(), None);
            prop_assert!(received == contents);
        }

        #[test]
        fn the_module_understands_notes(
            srq_num in 0u32..1 << 24,
            imm in any::<u32>(),
            write_len in 0u32..=1 << 31,
            solicited in any::<bool>(),
        ) {
            let note = write_note(srq_num, imm, write_len, solicited).unwrap();
            let envelope = Envelope {
                srq_num,
                first: true,
                last: true,
                solicited,
                imm_data: Some(imm),
                write_len: Some(write_len),
                offset: HEADER_LEN,
            };
            prop_assert_eq!(decode(note.imm, &payload(&note, &[])), Ok(envelope));
        }

        #[test]
        fn nothing_that_comes_is_a_panic(
            imm in any::<u32>(),
            payload in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            if let Ok(envelope) = decode(imm, &payload) {
                prop_assert!(envelope.offset <= payload.len());
            }
        }
    }
}
