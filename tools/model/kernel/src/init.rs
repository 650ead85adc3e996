// SPDX-License-Identifier: GPL-2.0

//! Initialisers, which here are functions that return what they make.

use std::convert::Infallible;

/// Makes a `T`.
pub trait PinInit<T, E = Infallible> {
    /// Makes it.
    fn init(self) -> Result<T, E>;
}

impl<T, E, F: FnOnce() -> Result<T, E>> PinInit<T, E> for F {
    fn init(self) -> Result<T, E> {
        self()
    }
}

/// An initialiser of `Self` which cannot fail.
#[macro_export]
macro_rules! pin_init {
    (Self { $($fields:tt)* }) => {
        move || -> ::core::result::Result<Self, ::core::convert::Infallible> {
            Ok($crate::init_fields!([] $($fields)*))
        }
    };
}

/// An initialiser of `Self`.
#[macro_export]
macro_rules! try_pin_init {
    (Self { $($fields:tt)* }) => {
        move || -> ::core::result::Result<Self, $crate::error::Error> {
            Ok($crate::init_fields!([] $($fields)*))
        }
    };
}

/// A `Self` of `field <- initialiser`, `field: value` and `field`.
#[doc(hidden)]
#[macro_export]
macro_rules! init_fields {
    ([$($done:tt)*]) => {
        Self { $($done)* }
    };
    ([$($done:tt)*] $field:ident <- $init:expr $(, $($rest:tt)*)?) => {
        $crate::init_fields!([$($done)* $field: $crate::init::PinInit::init($init)?,] $($($rest)*)?)
    };
    ([$($done:tt)*] $field:ident: $value:expr $(, $($rest:tt)*)?) => {
        $crate::init_fields!([$($done)* $field: $value,] $($($rest)*)?)
    };
    ([$($done:tt)*] $field:ident $(, $($rest:tt)*)?) => {
        $crate::init_fields!([$($done)* $field,] $($($rest)*)?)
    };
}
