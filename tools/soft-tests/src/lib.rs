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
    use ibxrc::wire::{encode_send, HEADER_LEN};
    use proptest::prelude::*;

    use super::wire::{decode, Envelope};

    proptest! {
        #[test]
        fn the_module_understands_the_library(
            srq_num in 0u32..1 << 24,
            imm in prop::option::of(any::<u32>()),
            solicited in any::<bool>(),
            contents in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let encoded = encode_send(srq_num, imm, solicited).unwrap();
            let mut payload = encoded.header.map_or_else(Vec::new, |h| h.to_vec());
            payload.extend(&contents);
            let envelope = Envelope {
                srq_num,
                first: true,
                last: true,
                solicited,
                imm_data: imm,
                write_len: None,
                offset: imm.map_or(0, |_| HEADER_LEN),
            };
            prop_assert_eq!(decode(encoded.imm, &payload), Ok(envelope));
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
