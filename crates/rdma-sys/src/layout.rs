//! Declarations that record their layout, so that a test can compare them with the C header.

use std::ffi::c_void;

/// A slot of an operation table that this crate never calls.
pub type Unused = *const c_void;

/// How a Rust struct may differ from the header's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Same size: C code fills or copies all of it.
    Exact,
    /// The header's may be larger: the call passes our size, or a mask of the known fields.
    Grows,
    /// The header's may be older and smaller: allocated in Rust, with zeros in fields that an older library does not know.
    Ahead,
    /// Allocated by the library and used by pointer: only the declared fields must match.
    Prefix,
    /// Like `Prefix`, but it grows at the front: offsets are relative to this last field.
    Before(&'static str),
}

/// The layout of a struct in Rust.
#[derive(Debug)]
pub struct Layout {
    /// Its name in C, without `struct`.
    pub name: &'static str,
    /// `struct` or `union`.
    pub kind: &'static str,
    /// How closely it must match.
    pub matches: Match,
    /// Its size in bytes.
    pub size: usize,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of a struct in Rust.
#[derive(Debug)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its type, as in the source.
    pub type_text: &'static str,
}

/// The signature of a library's function, as text, so that a test can compile it against the installed header.
#[derive(Debug)]
pub struct Signature {
    /// Its name in C.
    pub name: &'static str,
    /// The types of its arguments, as in the source.
    pub arguments: &'static [&'static str],
    /// Its return type, as in the source.
    pub returns: &'static str,
}

/// Declares C structs and the list of their layouts.
macro_rules! c_structs {
    ($(
        $(#[$meta:meta])*
        ($matches:expr)
        pub struct $name:ident { $( $(#[$fmeta:meta])* $vis:vis $field:ident: $ty:ty, )* }
    )*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[allow(non_camel_case_types, non_snake_case, missing_docs,
                    reason = "C's own names, documented by their manual pages")]
            pub struct $name { $( $(#[$fmeta])* $vis $field: $ty, )* }
        )*

        /// The layouts of this file's structs.
        #[doc(hidden)]
        pub const LAYOUTS: &[crate::layout::Layout] = &[ $(
            crate::layout::Layout {
                name: stringify!($name),
                kind: "struct",
                matches: $matches,
                size: size_of::<$name>(),
                fields: &[ $( crate::layout::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    size: size_of::<$ty>(),
                    type_text: stringify!($ty),
                }, )* ],
            },
        )* ];
    };
}
pub(crate) use c_structs;

/// Declares constants and the list that a test compares with the header.
macro_rules! constants {
    ($( $type:ident { $( $name:ident = $value:expr, )* } )*) => {
        $( $(
            #[allow(missing_docs, reason = "C's own names, documented by their manual pages")]
            pub const $name: $type = $value;
        )* )*

        /// Every constant by name and value.
        #[doc(hidden)]
        pub const CONSTANTS: &[(&str, i64)] = &[ $( $( (stringify!($name), $name as i64), )* )* ];
    };
}
pub(crate) use constants;
