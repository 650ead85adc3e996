// SPDX-License-Identifier: GPL-2.0

//! The kinds of attributes, and what a handler gets of each.
//!
//! The types [`New`], [`Handle`] and so on only name a kind in the tables of [`method!`]; the
//! documentation of each says what its value is.
//!
//! [`method!`]: super::method!

use core::{
    marker::PhantomData,
    ops::Deref, //
};

use kernel::{
    fs::file::FileDescriptorReservation,
    prelude::*,
    transmute::{
        AsBytes,
        FromBytes, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

use crate::linux::anon_file::NewFile;

use super::{
    handle::{
        Exclusive,
        Found,
        Reservation,
        Use, //
    },
    spec::{
        Access,
        Kind, //
    },
    wire::{
        RawAttr,
        F_VALID_OUTPUT, //
    },
    Context,
    FromObject, //
};

/// A kind of attribute.
pub(crate) trait Attribute<C: Context> {
    /// What a handler gets.
    type Value<'a>;

    /// What is checked.
    const KIND: Kind;

    /// Whether the object that a handle names is of the right kind.
    fn accepts(object: &C::Object) -> bool {
        let _ = object;
        true
    }

    /// Makes the value, once the attribute has passed the checks.
    fn value(slot: Slot<'_, C::Object>) -> Result<Self::Value<'_>>;
}

/// An attribute that has passed the checks.
pub(crate) struct Slot<'a, O>(pub(super) State<'a, O>);

pub(super) enum State<'a, O> {
    Data(Data),
    New(Reservation<'a, O>),
    Use(Use<'a, O>),
    /// To be destroyed, if it turns out that nothing is missing.
    Found(Found<'a, O>),
    Exclusive(Exclusive<'a, O>),
    NewFd(FileDescriptorReservation),
    RawFd(i32),
}

/// Data of the caller, or room for it.
#[derive(Copy, Clone)]
pub(super) struct Data {
    pub(super) attr: RawAttr,
    /// Where the attribute is in the memory of the caller.
    pub(super) address: UserPtr,
}

impl Data {
    /// Where the data is if it is not inline: `u64_to_user_ptr()`.
    fn pointer(&self) -> UserPtr {
        // CAST: What 32-bit kernels cut off does not count there.
        UserPtr::from_addr(self.attr.data as usize)
    }

    /// Copies the data, `N` bytes at most, into `buf`. Returns its length.
    fn copy_in<const N: usize>(&self, buf: &mut [u8; N]) -> Result<usize> {
        let len = self.attr.len().min(N);
        let (buf, _) = buf.split_at_mut(len);

        if self.attr.is_inline() {
            for (to, from) in buf.iter_mut().zip(self.attr.inline_data()) {
                *to = from;
            }
        } else {
            UserSlice::new(self.pointer(), len)
                .reader()
                .read_slice(buf)?;
        }
        Ok(len)
    }

    /// Copies a value in.
    fn read<T: FromBytes>(&self) -> Result<T> {
        if self.attr.is_inline() {
            let bytes = self.attr.inline_data();
            let (value, _) = T::from_bytes_copy_prefix(&bytes).ok_or(EINVAL)?;

            Ok(value)
        } else {
            UserSlice::new(self.pointer(), size_of::<T>())
                .reader()
                .read()
        }
    }

    /// Copies as much of `bytes` out as there is room for, and says so in the attribute.
    fn write(&self, bytes: &[u8]) -> Result {
        let len = bytes.len().min(self.attr.len());
        let (bytes, _) = bytes.split_at(len);

        UserSlice::new(self.pointer(), len)
            .writer()
            .write_slice(bytes)?;

        let flags = self.address.wrapping_byte_add(RawAttr::FLAGS_OFFSET);

        UserSlice::new(flags, size_of::<u16>())
            .writer()
            .write(&(self.attr.flags | F_VALID_OUTPUT))
    }

    /// Fills the buffer with zeroes from `offset` on.
    fn clear_from(&self, offset: usize) -> Result {
        const ZEROES: [u8; 256] = [0; 256];

        let len = self.attr.len().saturating_sub(offset);
        let mut writer = UserSlice::new(self.pointer().wrapping_byte_add(offset), len).writer();

        while !writer.is_empty() {
            let (zeroes, _) = ZEROES.split_at(writer.len().min(ZEROES.len()));

            writer.write_slice(zeroes)?;
        }
        Ok(())
    }
}

/// Whether what is in the memory of the caller from `pointer` on is zero. What cannot be read is
/// not: `ib_is_buffer_cleared()`.
pub(super) fn is_zero(pointer: UserPtr, len: usize) -> bool {
    let mut reader = UserSlice::new(pointer, len).reader();
    let mut buf = [0; 128];

    while !reader.is_empty() {
        let (buf, _) = buf.split_at_mut(reader.len().min(128));

        if reader.read_slice(buf).is_err() || buf.iter().any(|byte| *byte != 0) {
            return false;
        }
    }
    true
}

/// An integer, as attributes carry them.
pub(crate) trait Scalar: FromBytes {}

impl Scalar for u8 {}
impl Scalar for u16 {}
impl Scalar for u32 {}
impl Scalar for u64 {}
impl Scalar for i32 {}
impl Scalar for i64 {}

/// The size of `T` as lengths of attributes are.
const fn size_as_u16<T>() -> u16 {
    let size = size_of::<T>();

    assert!(size <= u16::MAX as usize, "too large for an attribute");
    // CAST: Just checked.
    size as u16
}

/// An integer for the kernel, of exactly its size: `UVERBS_ATTR_TYPE()`. The value is a `T`.
pub(crate) struct In<T>(PhantomData<T>);

impl<C: Context, T: Scalar> Attribute<C> for In<T> {
    type Value<'a> = T;

    const KIND: Kind = Kind::PtrIn {
        min: size_as_u16::<T>(),
        len: size_as_u16::<T>(),
        zero_trailing: false,
    };

    fn value(slot: Slot<'_, C::Object>) -> Result<T> {
        slot.data()?.read()
    }
}

/// A structure for the kernel, which may be longer if the rest is zero: `UVERBS_ATTR_STRUCT()`. The
/// value is a `T`.
pub(crate) struct InStruct<T>(PhantomData<T>);

impl<C: Context, T: FromBytes> Attribute<C> for InStruct<T> {
    type Value<'a> = T;

    const KIND: Kind = Kind::PtrIn {
        min: size_as_u16::<T>(),
        len: size_as_u16::<T>(),
        zero_trailing: true,
    };

    fn value(slot: Slot<'_, C::Object>) -> Result<T> {
        slot.data()?.read()
    }
}

/// A string for the kernel, 1 to `N` bytes. The value is a [`Str`].
pub(crate) struct InStr<const N: usize>;

impl<C: Context, const N: usize> Attribute<C> for InStr<N> {
    type Value<'a> = Str<N>;

    const KIND: Kind = Kind::PtrIn {
        min: 1,
        len: size_as_u16::<[u8; N]>(),
        zero_trailing: false,
    };

    fn value(slot: Slot<'_, C::Object>) -> Result<Str<N>> {
        let mut buf = [0; N];
        let len = slot.data()?.copy_in(&mut buf)?;
        let (string, _) = buf.split_at(len);
        let string = string.strip_suffix(&[0]).unwrap_or(string);

        if string.is_empty() || string.contains(&0) {
            return Err(EINVAL);
        }

        let len = string.len();

        Ok(Str { buf, len })
    }
}

/// A string of 1 to `N` bytes, none of which is NUL.
pub(crate) struct Str<const N: usize> {
    buf: [u8; N],
    len: usize,
}

impl<const N: usize> Str<N> {
    /// The bytes, without the NUL that may have been at the end.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

/// Room for a value from the kernel. The value is an [`OutSlot`].
pub(crate) struct Out<T>(PhantomData<T>);

impl<C: Context, T: AsBytes> Attribute<C> for Out<T> {
    type Value<'a> = OutSlot<T>;

    const KIND: Kind = Kind::PtrOut {
        min: size_as_u16::<T>(),
        len: size_as_u16::<T>(),
        zero_trailing: true,
    };

    fn value(slot: Slot<'_, C::Object>) -> Result<OutSlot<T>> {
        Ok(OutSlot {
            data: slot.data()?,
            _t: PhantomData,
        })
    }
}

/// Where to write a `T`.
pub(crate) struct OutSlot<T> {
    data: Data,
    _t: PhantomData<T>,
}

impl<T: AsBytes> OutSlot<T> {
    /// Writes the value, fills up a longer buffer with zeroes and flags the attribute as written, as
    /// `uverbs_copy_to_struct_or_zero()` does. `EFAULT`.
    pub(crate) fn write(&self, value: &T) -> Result {
        self.data.clear_from(size_of::<T>())?;
        self.data.write(value.as_bytes())
    }
}

/// Room for some values from the kernel. The value is an [`OutArraySlot`].
pub(crate) struct OutArray<T>(PhantomData<T>);

impl<C: Context, T> Attribute<C> for OutArray<T>
where
    [T]: AsBytes,
{
    type Value<'a> = OutArraySlot<T>;

    const KIND: Kind = Kind::PtrOut {
        min: 0,
        len: u16::MAX,
        zero_trailing: false,
    };

    fn value(slot: Slot<'_, C::Object>) -> Result<OutArraySlot<T>> {
        Ok(OutArraySlot {
            data: slot.data()?,
            _t: PhantomData,
        })
    }
}

/// Where to write values.
pub(crate) struct OutArraySlot<T> {
    data: Data,
    _t: PhantomData<T>,
}

impl<T> OutArraySlot<T>
where
    [T]: AsBytes,
{
    /// How many there is room for: 65535 bytes of them at most.
    pub(crate) fn capacity(&self) -> usize {
        self.data
            .attr
            .len()
            .checked_div(size_of::<T>())
            .unwrap_or_default()
    }

    /// Writes as many of `values` as there is room for, and flags the attribute as written. `EFAULT`.
    pub(crate) fn write(&self, values: &[T]) -> Result {
        let (values, _) = values.split_at(values.len().min(self.capacity()));

        self.data.write(values.as_bytes())
    }
}

/// A new handle. The value is a [`NewHandle`].
pub(crate) struct New;

impl<C: Context> Attribute<C> for New {
    type Value<'a> = NewHandle<'a, C::Object>;

    const KIND: Kind = Kind::Handle(Access::New);

    fn value(slot: Slot<'_, C::Object>) -> Result<NewHandle<'_, C::Object>> {
        match slot.0 {
            State::New(reservation) => Ok(NewHandle(reservation)),
            _ => Err(EINVAL),
        }
    }
}

/// A handle whose number the caller already knows and which does not exist until it is committed.
/// Dropping it gives the number back.
pub(crate) struct NewHandle<'a, O>(Reservation<'a, O>);

impl<O> NewHandle<'_, O> {
    /// The number.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Makes it the handle of `object`. This should be the last thing that a handler does: other
    /// threads may use and destroy it at once.
    pub(crate) fn commit(self, object: O) {
        self.0.commit(object);
    }
}

/// A handle of an object that is a `T`. The value is a [`HandleUse`].
pub(crate) struct Handle<T>(PhantomData<T>);

impl<C: Context, T: FromObject<C::Object>> Attribute<C> for Handle<T> {
    type Value<'a> = HandleUse<'a, T, C::Object>;

    const KIND: Kind = Kind::Handle(Access::Read);

    fn accepts(object: &C::Object) -> bool {
        T::from_object(object).is_some()
    }

    fn value(slot: Slot<'_, C::Object>) -> Result<HandleUse<'_, T, C::Object>> {
        match slot.0 {
            State::Use(usage) => Ok(HandleUse {
                object: T::from_object(&usage).ok_or(EINVAL)?.clone(),
                _usage: usage,
            }),
            _ => Err(EINVAL),
        }
    }
}

/// An object in use: until this is dropped, its handle is not destroyed.
pub(crate) struct HandleUse<'a, T, O> {
    // Dropped before the use ends.
    object: T,
    _usage: Use<'a, O>,
}

impl<T, O> Deref for HandleUse<'_, T, O> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// A handle to be destroyed, of an object that is a `T`. The value is a [`HandleDestroy`].
pub(crate) struct Destroy<T>(PhantomData<T>);

impl<C: Context, T: FromObject<C::Object>> Attribute<C> for Destroy<T> {
    type Value<'a> = HandleDestroy<'a, T, C::Object>;

    const KIND: Kind = Kind::Handle(Access::Destroy);

    fn accepts(object: &C::Object) -> bool {
        T::from_object(object).is_some()
    }

    fn value(slot: Slot<'_, C::Object>) -> Result<HandleDestroy<'_, T, C::Object>> {
        match slot.0 {
            State::Exclusive(exclusive) => Ok(HandleDestroy {
                object: T::from_object(exclusive.object()).ok_or(EINVAL)?.clone(),
                exclusive,
            }),
            _ => Err(EINVAL),
        }
    }
}

/// An object that no other call uses. Dropping this leaves the handle as it was.
pub(crate) struct HandleDestroy<'a, T, O> {
    object: T,
    exclusive: Exclusive<'a, O>,
}

impl<T, O> HandleDestroy<'_, T, O> {
    /// Takes the handle away.
    pub(crate) fn remove(self) -> T {
        self.exclusive.remove();
        self.object
    }
}

impl<T, O> Deref for HandleDestroy<'_, T, O> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// A new descriptor, close-on-exec. The value is a [`NewFdSlot`].
pub(crate) struct NewFd;

impl<C: Context> Attribute<C> for NewFd {
    type Value<'a> = NewFdSlot;

    const KIND: Kind = Kind::NewFd;

    fn value(slot: Slot<'_, C::Object>) -> Result<NewFdSlot> {
        match slot.0 {
            State::NewFd(reservation) => Ok(NewFdSlot(reservation)),
            _ => Err(EINVAL),
        }
    }
}

/// A descriptor whose number the caller already knows and which is not open until it is installed.
/// Dropping it gives the number back.
pub(crate) struct NewFdSlot(FileDescriptorReservation);

impl NewFdSlot {
    /// Makes the descriptor refer to `file`. This should be the last thing that a handler does:
    /// other threads may use and close it at once.
    pub(crate) fn install(self, file: NewFile) {
        self.0.fd_install(file.into_file());
    }
}

/// A descriptor of the caller, of any kind, or a number that is none. The value is an `i32`.
pub(crate) struct RawFd;

impl<C: Context> Attribute<C> for RawFd {
    type Value<'a> = i32;

    const KIND: Kind = Kind::RawFd;

    fn value(slot: Slot<'_, C::Object>) -> Result<i32> {
        match slot.0 {
            State::RawFd(fd) => Ok(fd),
            _ => Err(EINVAL),
        }
    }
}

impl<O> Slot<'_, O> {
    fn data(&self) -> Result<Data> {
        match self.0 {
            State::Data(data) => Ok(data),
            _ => Err(EINVAL),
        }
    }
}
