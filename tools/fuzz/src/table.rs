// SPDX-License-Identifier: GPL-2.0

//! The methods of the ABI, as the module's own tables have them.

use serde::{Deserialize, Serialize};

/// What handles name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    Xrcd,
    TgtQp,
    Cq,
    Srq,
    Mr,
}

impl Object {
    /// All of them.
    pub const ALL: [Object; 5] = [
        Object::Xrcd,
        Object::TgtQp,
        Object::Cq,
        Object::Srq,
        Object::Mr,
    ];
}

/// What an attribute carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data for the kernel, of so many bytes.
    In(u16),
    /// Room for data from the kernel, of so many bytes.
    Out(u16),
    /// Room for elements of so many bytes.
    OutArray(u16),
    /// A handle that the kernel makes.
    New,
    /// A handle of such an object.
    Handle(Object),
    /// The same, to be closed.
    Destroy(Object),
    /// A descriptor that the kernel makes.
    NewFd,
    /// A descriptor of the caller.
    RawFd,
}

/// An attribute of a method.
#[derive(Clone, Copy, Debug)]
pub struct AttrSpec {
    /// As the module's source calls it.
    pub name: &'static str,
    pub id: u16,
    pub kind: Kind,
    pub mandatory: bool,
}

/// A method.
#[derive(Clone, Copy, Debug)]
pub struct MethodSpec {
    /// The name of its number.
    constant: &'static str,
    pub id: u16,
    pub attrs: &'static [AttrSpec],
}

impl MethodSpec {
    /// Its name, such as `XRCD_OPEN`.
    pub fn name(&self) -> &'static str {
        self.constant
            .rsplit("IB_XRC_METHOD_")
            .next()
            .unwrap_or(self.constant)
    }

    /// The attribute that the module calls so.
    pub fn attr(&self, name: &str) -> Option<&'static AttrSpec> {
        self.attrs.iter().find(|attr| attr.name == name)
    }

    /// What it closes, if it does nothing else.
    fn destroys(&self) -> Option<Object> {
        match self.attrs {
            [AttrSpec {
                kind: Kind::Destroy(object),
                ..
            }] => Some(*object),
            _ => None,
        }
    }
}

/// An object with its methods.
pub struct ObjectSpec {
    pub id: u16,
    pub methods: &'static [MethodSpec],
}

impl ObjectSpec {
    /// What a new handle of its methods names.
    pub fn object(&self) -> Option<Object> {
        self.methods.iter().find_map(MethodSpec::destroys)
    }
}

/// A method and its object.
#[derive(Clone, Copy)]
pub struct Method {
    /// Where it is among [`methods`].
    pub index: usize,
    pub object: &'static ObjectSpec,
    pub spec: &'static MethodSpec,
}

/// All methods.
pub fn methods() -> impl Iterator<Item = Method> + Clone {
    let all = OBJECTS
        .iter()
        .flat_map(|object| object.methods.iter().map(move |spec| (object, spec)));
    all.enumerate().map(|(index, (object, spec))| Method {
        index,
        object,
        spec,
    })
}

/// The method with these numbers, if there is one.
pub fn find(object_id: u16, method_id: u16) -> Option<Method> {
    methods().find(|m| m.object.id == object_id && m.spec.id == method_id)
}

/// The method of this name.
pub fn named(name: &str) -> Method {
    methods()
        .find(|m| m.spec.name() == name)
        .unwrap_or_else(|| panic!("the module has no method {name}"))
}

/// The method that closes such an object.
pub fn destructor(object: Object) -> Method {
    methods()
        .find(|m| m.spec.destroys() == Some(object))
        .unwrap_or_else(|| panic!("nothing closes a {object:?}"))
}

/// What the tables refer to, as types whose kinds are known.
mod shim {
    pub use std::sync::Arc;
    use std::{marker::PhantomData, mem::size_of};

    pub use ibxrc::uapi as bindings;

    use super::{Kind, Object};

    pub struct Soft;

    /// An object that a handle names.
    pub trait Named {
        const OBJECT: Object;
    }

    impl<T: Named> Named for Arc<T> {
        const OBJECT: Object = T::OBJECT;
    }

    macro_rules! named {
        ($($name:ident: $object:ident;)*) => {
            $(
                pub struct $name<B>(PhantomData<B>);

                impl<B> Named for $name<B> {
                    const OBJECT: Object = Object::$object;
                }
            )*
        };
    }

    named! {
        Xrcd: Xrcd;
        TgtQpHandle: TgtQp;
        CqHandle: Cq;
        SrqHandle: Srq;
        MrHandle: Mr;
    }

    /// The type of an attribute.
    pub trait Attribute {
        const KIND: Kind;
    }

    macro_rules! attributes {
        ($($name:ident<$T:ident $(: $bound:ident)?> = $kind:expr;)*) => {
            $(
                pub struct $name<$T>(PhantomData<$T>);

                impl<$T $(: $bound)?> Attribute for $name<$T> {
                    const KIND: Kind = $kind;
                }
            )*
        };
    }

    attributes! {
        In<T> = Kind::In(size_of::<T>() as u16);
        InStruct<T> = Kind::In(size_of::<T>() as u16);
        Out<T> = Kind::Out(size_of::<T>() as u16);
        OutArray<T> = Kind::OutArray(size_of::<T>() as u16);
        Handle<T: Named> = Kind::Handle(T::OBJECT);
        Destroy<T: Named> = Kind::Destroy(T::OBJECT);
    }

    pub struct InStr<const N: usize>;

    impl<const N: usize> Attribute for InStr<N> {
        const KIND: Kind = Kind::In(N as u16);
    }

    pub struct New;

    impl Attribute for New {
        const KIND: Kind = Kind::New;
    }

    pub struct NewFd;

    impl Attribute for NewFd {
        const KIND: Kind = Kind::NewFd;
    }

    pub struct RawFd;

    impl Attribute for RawFd {
        const KIND: Kind = Kind::RawFd;
    }

    /// Where the tables look for things.
    pub mod uverbs {
        /// As the module has it.
        pub mod attr {
            pub use super::super::Destroy;
        }

        /// Makes a type with the table as a constant.
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
                $vis struct $name;

                impl $name {
                    $vis const METHOD: $crate::table::MethodSpec = $crate::table::MethodSpec {
                        constant: stringify!($id),
                        id: $id as u16,
                        attrs: &[$(
                            $crate::table::AttrSpec {
                                name: stringify!($field),
                                id: $attr as u16,
                                kind: <$kind as Attribute>::KIND,
                                mandatory: $crate::table::shim::uverbs::method!(@$presence),
                            },
                        )*],
                    };
                }
            };
            (@mandatory) => { true };
            (@optional) => { false };
        }
        pub(crate) use method;
    }
}

use ibxrc::uapi as bindings;

#[allow(
    unused_imports,
    reason = "not each of them needs all that the tables refer to"
)]
mod generated {
    use super::{bindings, shim, ObjectSpec};

    include!(concat!(env!("OUT_DIR"), "/table.rs"));
}

use generated::OBJECTS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_of_the_header() {
        let open = named("XRCD_OPEN");
        assert_eq!(u32::from(open.object.id), bindings::IB_XRC_OBJECT_XRCD);
        assert_eq!(u32::from(open.spec.id), bindings::IB_XRC_METHOD_XRCD_OPEN);
        let attr = open.spec.attr("job_key").unwrap();
        assert_eq!(u32::from(attr.id), bindings::IB_XRC_ATTR_XRCD_OPEN_JOB_KEY);
        assert_eq!((attr.kind, attr.mandatory), (Kind::In(8), false));
        assert!(open.spec.attr("handle").unwrap().mandatory);
    }

    #[test]
    fn each_object_can_be_closed() {
        for object in Object::ALL {
            let method = destructor(object);
            assert_eq!(method.object.object(), Some(object));
            assert!(find(method.object.id, method.spec.id).is_some());
        }
        assert!(find(0, 0).is_none());
    }

    #[test]
    fn no_method_is_missing() {
        // Those of the header: `IB_XRC_METHOD_...`.
        assert_eq!(methods().count(), 27);
    }
}
