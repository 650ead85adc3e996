// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The uverbs ioctl framing: a header and its attributes.
//!
//! C header: `rdma/rdma_user_ioctl_cmds.h`

use std::{
    ffi::c_void,
    marker::PhantomData,
    mem::{offset_of, size_of},
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use crate::{
    error::Errno,
    uapi::{
        ib_uverbs_attr, ib_uverbs_ioctl_hdr, IBXRC_VERBS_IOCTL, UVERBS_ATTR_F_MANDATORY,
        UVERBS_ATTR_F_VALID_OUTPUT,
    },
};

/// More than any method has.
const MAX_ATTRS: usize = 12;

/// Types that the kernel may read and write as bytes.
///
/// # Safety
///
/// The type has no padding, and every bit pattern is a valid value of it.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: Integers.
unsafe impl Plain for u8 {}
// SAFETY: Integers.
unsafe impl Plain for u32 {}
// SAFETY: Integers.
unsafe impl Plain for u64 {}
// SAFETY: The ABI has no implicit padding, and only integers.
unsafe impl Plain for crate::uapi::ib_xrc_device_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_limits {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_xrcd_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_tgt_qp_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_policy {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_srq_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_srq_attr {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_holder_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_disconnect_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_event {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_ring_info {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_xrc_cqe {}
// SAFETY: As above: it is 144 bytes of u32, u16 and u8 fields, with `reserved`
// where there would be padding.
unsafe impl Plain for crate::uapi::ib_uverbs_qp_attr {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::ib_uverbs_comp_event_desc {}

/// The bytes of a value.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` has no padding, so that all bytes are initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The bytes of a value, to be overwritten.
pub(crate) fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: As in `bytes_of`, and whatever is written is valid.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}

/// The bytes of an array, to be overwritten.
pub(crate) fn bytes_of_slice_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: As in `bytes_of_mut`.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

#[repr(C)]
struct Message {
    header: ib_uverbs_ioctl_hdr,
    attrs: [ib_uverbs_attr; MAX_ATTRS],
}

/// A call in the making. It borrows its inputs and outputs until it has been made.
///
/// All attributes are sent as mandatory: a kernel that does not know one shall
/// refuse the call instead of doing something else.
pub(crate) struct Request<'a> {
    message: Box<Message>,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Request<'a> {
    /// A call of `method` of `object`, which are ids of the ABI.
    pub(crate) fn new(object: u32, method: u32) -> Self {
        Request {
            message: Box::new(Message {
                header: ib_uverbs_ioctl_hdr {
                    length: offset_of!(Message, attrs) as u16,
                    object_id: id(object),
                    method_id: id(method),
                    ..Default::default()
                },
                attrs: [ib_uverbs_attr::default(); MAX_ATTRS],
            }),
            borrowed: PhantomData,
        }
    }

    /// A new handle, which the reply will have.
    pub(crate) fn new_handle(self, attr: u32) -> Self {
        self.push(attr, 0, 0)
    }

    /// A handle of this file.
    pub(crate) fn handle(self, attr: u32, handle: u32) -> Self {
        self.push(attr, 0, u64::from(handle))
    }

    /// A new descriptor, which the reply will have.
    pub(crate) fn new_fd(self, attr: u32) -> Self {
        self.push(attr, 0, 0)
    }

    /// A descriptor of the caller's, if it is one: the kernel checks that.
    pub(crate) fn raw_fd(self, attr: u32, fd: RawFd) -> Self {
        // Sign extended, as data_s64 of C.
        self.push(attr, 0, i64::from(fd) as u64)
    }

    /// An input.
    pub(crate) fn input<T: Plain>(self, attr: u32, value: &'a T) -> Self {
        self.input_bytes(attr, bytes_of(value))
    }

    /// An input of a length that the caller has checked against the ABI.
    pub(crate) fn input_bytes(self, attr: u32, bytes: &'a [u8]) -> Self {
        let mut inline = [0; size_of::<u64>()];
        let data = match inline.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                u64::from_ne_bytes(inline)
            }
            None => bytes.as_ptr() as u64,
        };
        self.push(attr, bytes.len(), data)
    }

    /// An output.
    pub(crate) fn output<T: Plain>(self, attr: u32, value: &'a mut T) -> Self {
        self.push(attr, size_of::<T>(), std::ptr::from_mut(value) as u64)
    }

    /// An array as output, of which the kernel writes as many elements as fit. An
    /// attribute's length has 16 bits: what is longer is not offered to it.
    pub(crate) fn output_slice<T: Plain>(self, attr: u32, values: &'a mut [T]) -> Self {
        let len = values.len().min(Self::max_elements::<T>()) * size_of::<T>();
        self.push(attr, len, values.as_mut_ptr() as u64)
    }

    /// How many elements `output_slice` can take.
    pub(crate) const fn max_elements<T>() -> usize {
        u16::MAX as usize / size_of::<T>()
    }

    fn push(mut self, attr: u32, len: usize, data: u64) -> Self {
        let header = &mut self.message.header;
        let n = usize::from(header.num_attrs);
        self.message.attrs[n] = ib_uverbs_attr {
            attr_id: id(attr),
            len: u16::try_from(len).expect("attributes of the ABI are short"),
            flags: UVERBS_ATTR_F_MANDATORY as u16,
            ..Default::default()
        };
        self.message.attrs[n].__bindgen_anon_1.data = data;
        header.num_attrs += 1;
        let len = offset_of!(Message, attrs) + (n + 1) * size_of::<ib_uverbs_attr>();
        header.length = len as u16;
        self
    }

    /// Makes the call on an open file of the character device.
    pub(crate) fn submit(mut self, fd: BorrowedFd<'_>, driver_id: u32) -> Reply {
        self.message.header.driver_id = driver_id;
        let result = {
            let call = Call(&mut self.message);
            // SAFETY: `call` describes a message whose pointers are those of
            // references that `self` holds, with their lengths.
            unsafe { ioctl::ioctl(fd, call) }
        };
        Reply {
            message: self.message,
            error: result.err().map(Errno::from),
        }
    }
}

/// Ids of the ABI have 16 bits, but bindgen makes them `u32`.
fn id(id: u32) -> u16 {
    u16::try_from(id).expect("ids of the ABI have 16 bits")
}

struct Call<'a>(&'a mut Message);

// SAFETY: The opcode and the pointer to a header with its attributes belong
// together; the kernel may write to the attributes.
unsafe impl Ioctl for Call<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        IBXRC_VERBS_IOCTL as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// What came back.
pub(crate) struct Reply {
    message: Box<Message>,
    error: Option<Errno>,
}

impl Reply {
    /// Ok if the call succeeded.
    pub(crate) fn result(&self) -> Result<(), Errno> {
        match self.error {
            None => Ok(()),
            Some(errno) => Err(errno),
        }
    }

    fn attr(&self, attr: u32) -> Option<&ib_uverbs_attr> {
        let n = usize::from(self.message.header.num_attrs);
        self.message.attrs[..n]
            .iter()
            .find(|a| u32::from(a.attr_id) == attr)
    }

    /// The new handle. Only after success.
    pub(crate) fn new_handle(&self, attr: u32) -> u32 {
        self.attr(attr).map_or(0, |a| {
            // SAFETY: Both fields of the union are 64-bit integers.
            unsafe { a.__bindgen_anon_1.data as u32 }
        })
    }

    /// The new descriptor. Only after success.
    ///
    /// # Safety
    ///
    /// `attr` was given to `new_fd`, and this is called once.
    pub(crate) unsafe fn new_fd(&self, attr: u32) -> Option<OwnedFd> {
        // SAFETY: Both fields of the union are 64-bit integers.
        let fd = unsafe { self.attr(attr)?.__bindgen_anon_1.data_s64 };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: The kernel just installed it, for us.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Whether the kernel wrote this output.
    pub(crate) fn written(&self, attr: u32) -> bool {
        self.attr(attr)
            .is_some_and(|a| u32::from(a.flags) & UVERBS_ATTR_F_VALID_OUTPUT != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel would see.
    fn seen<'a>(r: &'a Request<'_>) -> (&'a ib_uverbs_ioctl_hdr, &'a [ib_uverbs_attr]) {
        let n = usize::from(r.message.header.num_attrs);
        (&r.message.header, &r.message.attrs[..n])
    }

    fn data(attr: &ib_uverbs_attr) -> u64 {
        // SAFETY: Both fields of the union are 64-bit integers.
        unsafe { attr.__bindgen_anon_1.data }
    }

    #[test]
    fn an_empty_request_is_its_header() {
        let r = Request::new(0x1001, 0x1002);
        let (header, attrs) = seen(&r);
        assert_eq!((header.object_id, header.method_id), (0x1001, 0x1002));
        assert_eq!((header.length, header.num_attrs), (24, 0));
        assert_eq!((header.reserved1, header.reserved2), (0, 0));
        assert!(attrs.is_empty());
    }

    #[test]
    fn attributes_are_laid_out_as_uverbs_wants() {
        let (a, b) = (0x1122_3344u32, [7u8; 9]);
        let mut out = [0u64; 3];
        let address = out.as_ptr() as u64;
        let r = Request::new(0x1000, 0x1000)
            .handle(0x1000, 42)
            .input(0x1001, &a)
            .input_bytes(0x1002, &b)
            .output_slice(0x1003, &mut out);
        let (header, attrs) = seen(&r);
        assert_eq!(header.num_attrs, 4);
        assert_eq!(header.length, 24 + 4 * 16);
        let got: Vec<_> = attrs.iter().map(|a| (a.attr_id, a.len, data(a))).collect();
        let inline = u64::from_ne_bytes(*b"\0\0\0\0\0\0\0\0") + {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&a.to_ne_bytes());
            u64::from_ne_bytes(bytes)
        };
        assert_eq!(
            got,
            [
                (0x1000, 0, 42),
                (0x1001, 4, inline),
                (0x1002, 9, b.as_ptr() as u64),
                (0x1003, 24, address),
            ]
        );
        assert!(attrs
            .iter()
            .all(|a| u32::from(a.flags) == UVERBS_ATTR_F_MANDATORY));
    }

    #[test]
    fn long_arrays_are_offered_in_part() {
        let mut long = vec![0u64; 10_000];
        let r = Request::new(0x1000, 0x1000).output_slice(0x1000, &mut long);
        assert_eq!(usize::from(seen(&r).1[0].len), 8191 * 8);
    }

    #[test]
    fn a_wrong_file_is_an_error() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let reply = Request::new(0x1000, 0x1000).submit(std::os::fd::AsFd::as_fd(&null), 0);
        assert_eq!(reply.result(), Err(Errno::ENOTTY));
        assert!(!reply.written(0x1000));
    }

    proptest! {
        #[test]
        fn inputs_up_to_eight_bytes_are_inline(bytes in prop::collection::vec(any::<u8>(), 1..20)) {
            let r = Request::new(0x1000, 0x1000).input_bytes(0x1000, &bytes);
            let attr = seen(&r).1[0];
            prop_assert_eq!(usize::from(attr.len), bytes.len());
            if bytes.len() <= 8 {
                let mut expected = bytes.clone();
                expected.resize(8, 0);
                prop_assert_eq!(&data(&attr).to_ne_bytes()[..], &expected[..]);
            } else {
                prop_assert_eq!(data(&attr), bytes.as_ptr() as u64);
            }
        }
    }
}
