// SPDX-License-Identifier: GPL-2.0

//! The tables of objects and methods.

use kernel::prelude::*;

use super::{
    attr::{
        Attribute,
        Slot, //
    },
    spec::{
        AttrSpec,
        MAX_ATTRS, //
    },
    Context, //
};

/// An object and what can be done with it.
pub(crate) struct ObjectSpec<C: Context> {
    pub(crate) id: u16,
    pub(crate) methods: &'static [MethodSpec<C>],
}

/// A method. Made by [`method!`].
pub(crate) struct MethodSpec<C: Context> {
    /// Number of the method in its object.
    pub(crate) id: u16,
    /// Its attributes, in the order of the fields of its arguments.
    pub(crate) attrs: &'static [AttrSpec],
    /// For each of `attrs`, what says whether an object is of the right kind for it.
    pub(crate) accepts: &'static [fn(&C::Object) -> bool],
    /// Makes the arguments and calls the handler.
    pub(crate) run: fn(&C, &mut Bundle<'_, C>) -> Result,
}

/// The attributes of a call, checked, in the order of [`MethodSpec::attrs`].
pub(crate) struct Bundle<'a, C: Context> {
    pub(super) slots: [Option<Slot<'a, C::Object>>; MAX_ATTRS],
    /// The next one to be made an argument.
    next: usize,
}

impl<'a, C: Context> Bundle<'a, C> {
    /// No attributes.
    pub(super) fn new() -> Self {
        Self {
            slots: [const { None }; MAX_ATTRS],
            next: 0,
        }
    }

    /// The value of the next attribute, if the call has it.
    pub(crate) fn optional<A: Attribute<C>>(&mut self) -> Result<Option<A::Value<'a>>> {
        let slot = self.slots.get_mut(self.next).and_then(Option::take);

        self.next = self.next.saturating_add(1);
        slot.map(A::value).transpose()
    }

    /// The value of the next attribute.
    pub(crate) fn mandatory<A: Attribute<C>>(&mut self) -> Result<A::Value<'a>> {
        // It was checked that nothing is missing.
        self.optional::<A>()?.ok_or(EINVAL)
    }
}

/// A constant of the ABI as the number of an object, a method or an attribute.
pub(crate) const fn attr_id(id: u64) -> u16 {
    assert!(id <= 0xffff, "not a number of an attribute");
    // CAST: Just checked. This is evaluated at compile time.
    id as u16
}

/// Describes a method.
///
/// The arguments become a struct with a field for each attribute, which is an `Option` if it is
/// optional; [`attr`](super::attr) lists the kinds of attributes and what their values are. The
/// handler is a function that takes the context and the arguments.
///
/// # Examples
///
/// ```ignore
/// method! {
///     /// Open a domain.
///     struct XrcdOpen for Context, id bindings::IB_XRC_METHOD_XRCD_OPEN, handler xrcd_open {
///         handle: New = bindings::IB_XRC_ATTR_XRCD_OPEN_HANDLE, mandatory;
///         fd: RawFd = bindings::IB_XRC_ATTR_XRCD_OPEN_FD, optional;
///     }
/// }
///
/// fn xrcd_open(context: &Context, args: XrcdOpen<'_>) -> Result {
///     let domain = context.open(args.fd)?;
///
///     args.handle.commit(Object::Xrcd(domain));
///     Ok(())
/// }
///
/// static XRCD: ObjectSpec<Context> = ObjectSpec {
///     id: bindings::IB_XRC_OBJECT_XRCD as u16,
///     methods: &[XrcdOpen::METHOD],
/// };
/// ```
macro_rules! method {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident for $context:ty, id $id:expr, handler $handler:path {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $kind:ty = $attr:expr, $presence:ident;
            )*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name<'a> {
            $(
                $(#[$field_meta])*
                $vis $field: $crate::uverbs::method!(@type $presence, 'a, $context, $kind),
            )*
            _call: ::core::marker::PhantomData<&'a $context>,
        }

        impl<'a> $name<'a> {
            /// The method, for the table of its object.
            $vis const METHOD: $crate::uverbs::MethodSpec<$context> = {
                const ATTRS: &[$crate::uverbs::macros::AttrSpec] = &[
                    $(
                        $crate::uverbs::macros::AttrSpec {
                            id: $crate::uverbs::macros::attr_id($attr as u64),
                            kind: <$kind as $crate::uverbs::macros::Attribute<$context>>::KIND,
                            mandatory: $crate::uverbs::method!(@mandatory $presence),
                        },
                    )*
                ];

                assert!(
                    $crate::uverbs::macros::is_well_formed(ATTRS),
                    concat!("the table of ", stringify!($name), " contradicts itself")
                );

                $crate::uverbs::MethodSpec {
                    id: $crate::uverbs::macros::attr_id($id as u64),
                    attrs: ATTRS,
                    accepts: &[
                        $(<$kind as $crate::uverbs::macros::Attribute<$context>>::accepts,)*
                    ],
                    run: |context, bundle| $handler(context, $name::parse(bundle)?),
                }
            };

            fn parse(
                #[allow(unused_variables)]
                bundle: &mut $crate::uverbs::macros::Bundle<'a, $context>,
            ) -> ::kernel::error::Result<Self> {
                Ok(Self {
                    $($field: bundle.$presence::<$kind>()?,)*
                    _call: ::core::marker::PhantomData,
                })
            }
        }
    };

    (@type mandatory, $a:lifetime, $context:ty, $kind:ty) => {
        <$kind as $crate::uverbs::macros::Attribute<$context>>::Value<$a>
    };
    (@type optional, $a:lifetime, $context:ty, $kind:ty) => {
        ::core::option::Option<
            <$kind as $crate::uverbs::macros::Attribute<$context>>::Value<$a>
        >
    };

    (@mandatory mandatory) => { true };
    (@mandatory optional) => { false };
}
pub(crate) use method;
