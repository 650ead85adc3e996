// SPDX-License-Identifier: GPL-2.0

//! The header and the attributes of a call, as they travel.
//!
//! Pure: needs `core` only, so that it is tested on the host too.
//!
//! C header: [`include/uapi/rdma/rdma_user_ioctl_cmds.h`](srctree/include/uapi/rdma/rdma_user_ioctl_cmds.h)

use super::errno::Errno;

/// `RDMA_VERBS_IOCTL`: `_IOWR(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_ioctl_hdr)`.
pub(crate) const RDMA_VERBS_IOCTL: u32 =
    (3 << 30) | ((Header::SIZE as u32) << 16) | (0x1b << 8) | 1;

/// `UVERBS_ATTR_F_MANDATORY`: refuse the call if the kernel does not know the attribute.
pub(crate) const F_MANDATORY: u16 = 1 << 0;

/// `UVERBS_ATTR_F_VALID_OUTPUT`: the kernel has written the attribute.
pub(crate) const F_VALID_OUTPUT: u16 = 1 << 1;

/// Bytes of `bytes` from `at` on; zeroes where there are none.
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "in range by the loop's condition; a const fn has no get()"
)]
const fn field<const N: usize, const LEN: usize>(bytes: &[u8; LEN], at: usize) -> [u8; N] {
    let mut value = [0; N];
    let mut i = 0;

    while i < N && at + i < LEN {
        value[i] = bytes[at + i];
        i += 1;
    }
    value
}

/// `struct ib_uverbs_ioctl_hdr`, without the attributes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Length of the header and the attributes, bytes.
    pub(crate) length: u16,
    pub(crate) object_id: u16,
    pub(crate) method_id: u16,
    pub(crate) num_attrs: u16,
    pub(crate) reserved1: u64,
    /// `enum rdma_driver_id`
    pub(crate) driver_id: u32,
    pub(crate) reserved2: u32,
}

impl Header {
    pub(crate) const SIZE: usize = 24;

    /// Takes the fields apart.
    pub(crate) const fn parse(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            length: u16::from_ne_bytes(field(bytes, 0)),
            object_id: u16::from_ne_bytes(field(bytes, 2)),
            method_id: u16::from_ne_bytes(field(bytes, 4)),
            num_attrs: u16::from_ne_bytes(field(bytes, 6)),
            reserved1: u64::from_ne_bytes(field(bytes, 8)),
            driver_id: u32::from_ne_bytes(field(bytes, 16)),
            reserved2: u32::from_ne_bytes(field(bytes, 20)),
        }
    }

    /// What `ib_uverbs_ioctl()` and `ib_uverbs_cmd_verbs()` check in it, in their order.
    ///
    /// `max_length` is the size of a page.
    pub(crate) const fn check(&self, max_length: usize, driver_id: u32) -> Result<(), Errno> {
        let length = self.length as usize;

        let attrs = (self.num_attrs as usize).saturating_mul(RawAttr::SIZE);

        if length > max_length || length != attrs.saturating_add(Self::SIZE) {
            return Err(Errno::Inval);
        }
        if self.reserved1 != 0 || self.reserved2 != 0 {
            return Err(Errno::ProtoNoSupport);
        }
        if self.driver_id != driver_id {
            return Err(Errno::Inval);
        }
        Ok(())
    }
}

/// `struct ib_uverbs_attr`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawAttr {
    pub(crate) attr_id: u16,
    pub(crate) len: u16,
    pub(crate) flags: u16,
    pub(crate) reserved: u16,
    pub(crate) data: u64,
}

impl RawAttr {
    pub(crate) const SIZE: usize = 16;

    /// Where `flags` is.
    pub(crate) const FLAGS_OFFSET: usize = 4;

    /// Where `data` is.
    pub(crate) const DATA_OFFSET: usize = 8;

    /// Longest data that is in `data` itself.
    pub(crate) const INLINE_LEN: usize = 8;

    /// Takes the fields apart.
    pub(crate) const fn parse(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            attr_id: u16::from_ne_bytes(field(bytes, 0)),
            len: u16::from_ne_bytes(field(bytes, 2)),
            flags: u16::from_ne_bytes(field(bytes, Self::FLAGS_OFFSET)),
            reserved: u16::from_ne_bytes(field(bytes, 6)),
            data: u64::from_ne_bytes(field(bytes, Self::DATA_OFFSET)),
        }
    }

    /// Length of the data, bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the input data is in the attribute.
    pub(crate) const fn is_inline(&self) -> bool {
        self.len() <= Self::INLINE_LEN
    }

    /// The inline data. What is beyond `len` does not count.
    pub(crate) const fn inline_data(&self) -> [u8; Self::INLINE_LEN] {
        self.data.to_ne_bytes()
    }

    /// `data_s64`
    pub(crate) const fn data_s64(&self) -> i64 {
        self.data as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            length: 24 + 2 * 16,
            object_id: 0x1001,
            method_id: 0x1000,
            num_attrs: 2,
            reserved1: 0,
            driver_id: 7,
            reserved2: 0,
        }
    }

    #[test]
    fn ioctl_number() {
        assert_eq!(RDMA_VERBS_IOCTL, 0xc018_1b01);
    }

    #[test]
    fn parses_header() {
        let mut bytes = [0; Header::SIZE];
        bytes[0..2].copy_from_slice(&56u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&0x1001u16.to_ne_bytes());
        bytes[4..6].copy_from_slice(&0x1000u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&2u16.to_ne_bytes());
        bytes[16..20].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(Header::parse(&bytes), header());
    }

    #[test]
    fn parses_attr() {
        let mut bytes = [0; RawAttr::SIZE];
        bytes[0..2].copy_from_slice(&0x1002u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&4u16.to_ne_bytes());
        bytes[4..6].copy_from_slice(&1u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&9u16.to_ne_bytes());
        bytes[8..16].copy_from_slice(&(-2i64).to_ne_bytes());
        let attr = RawAttr::parse(&bytes);
        assert_eq!(
            (attr.attr_id, attr.len, attr.flags, attr.reserved),
            (0x1002, 4, 1, 9)
        );
        assert_eq!(attr.data_s64(), -2);
        assert!(attr.is_inline());
    }

    #[test]
    fn checks_header_in_order() {
        assert_eq!(header().check(4096, 7), Ok(()));
        assert_eq!(header().check(55, 7), Err(Errno::Inval));
        // Length before reserved, reserved before driver.
        let h = Header {
            length: 57,
            reserved1: 1,
            ..header()
        };
        assert_eq!(h.check(4096, 7), Err(Errno::Inval));
        let h = Header {
            reserved1: 1,
            ..header()
        };
        assert_eq!(h.check(4096, 8), Err(Errno::ProtoNoSupport));
        let h = Header {
            reserved2: 1,
            ..header()
        };
        assert_eq!(h.check(4096, 7), Err(Errno::ProtoNoSupport));
        assert_eq!(header().check(4096, 8), Err(Errno::Inval));
        let h = Header {
            num_attrs: u16::MAX,
            length: u16::MAX,
            ..header()
        };
        assert_eq!(h.check(65536, 7), Err(Errno::Inval));
    }
}
