//! libfabric: its structs, its functions, and the inline functions of its headers.
//!
//! Few functions are exported; most calls use the tables of objects, in [`inline`].
//! The exported functions that take an [`info::fi_info`] exist for every version of that struct:
//! the newest known version is bound ([`Ofi::abi`]), the same for all three.
//!
//! Unsafe here: every row of the table is a C function. The caller must fulfil the requirements of its
//! manual page.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

pub mod consts;
mod find;
pub mod info;
pub mod inline;
pub mod objects;
pub mod tables;
pub mod work;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::layout::Signature;
use crate::library::{Library, LoadError};
use crate::returns::{Convention, Errno, FabricStatus, NullErrno, Plain};
use consts::FI_VERSION;
use info::*;
use objects::fid_fabric;

/// The soname of libfabric, the same in every distribution.
pub const SONAME: &str = "libfabric.so.1";

/// A peer's handle in an address vector.
#[allow(non_camel_case_types, reason = "C's own name")]
pub type fi_addr_t = u64;

/// The known symbol versions of `fi_getinfo`, `fi_dupinfo` and `fi_freeinfo`, newest
/// first; [`info`] lists what each of them added. A library with a newer version has these too. Older
/// versions lack declared fields: libfabric before 1.9 is not supported.
const ABIS: [&CStr; 4] = [c"FABRIC_1.9", c"FABRIC_1.8", c"FABRIC_1.7", c"FABRIC_1.3"];

/// The newest API version for which all structs allocated in Rust are declared completely.
const NEWEST_API: u32 = FI_VERSION(2, 6);

/// The symbol version of a row: a fixed one, or that of `fi_info`.
enum Version {
    Own(&'static CStr),
    Abi,
}

/// Generates the table: a function pointer per row, the loader that fills it, and one method per row
/// that calls the function and converts its result by the row's convention.
macro_rules! symbols {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, $convention:ident, $version:expr;
    )*) => {
        /// libfabric, loaded and bound. Never unloaded.
        pub struct Ofi {
            abi: &'static CStr,
            file: PathBuf,
            $( $name: unsafe extern "C" fn($($ty),*) -> $ret, )*
        }

        impl Ofi {
            fn bind(library: &Library, abi: &'static CStr) -> Result<Self, LoadError> {
                let file = library.file(library.symbol(c"fi_getinfo", abi)?);
                Ok(Ofi {
                    abi,
                    file,
                    $( $name: {
                        let version = match $version {
                            Version::Own(version) => version,
                            Version::Abi => abi,
                        };
                        let name = concat!(stringify!($name), "\0");
                        let name = CStr::from_bytes_with_nul(name.as_bytes())
                            .expect("one NUL, at the end");
                        let address = library.symbol(name, version)?;
                        // SAFETY: the library exports this name under this version with the type
                        // of this row; `tests/layout_ofi.rs` compiles the row against its header.
                        unsafe { std::mem::transmute::<*mut c_void,
                            unsafe extern "C" fn($($ty),*) -> $ret>(address.as_ptr()) }
                    }, )*
                })
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The requirements of the C manual page.
                pub unsafe fn $name(&self, $($arg: $ty),*)
                    -> <$convention as Convention<$ret>>::Out
                {
                    // SAFETY: guaranteed by the caller.
                    <$convention as Convention<$ret>>::read(unsafe { (self.$name)($($arg),*) })
                }
            )*
        }

        /// The rows as text.
        #[doc(hidden)]
        pub const SIGNATURES: &[Signature] = &[
            $( Signature {
                name: stringify!($name),
                arguments: &[$(stringify!($ty)),*], returns: stringify!($ret),
            }, )*
        ];
    };
}

symbols! {
    /// Lists the providers that match the hints; freed with `fi_freeinfo`. `ENODATA` if there is none.
    fi_getinfo(version: u32, node: *const c_char, service: *const c_char, flags: u64,
        hints: *const fi_info, info: *mut *mut fi_info) -> c_int, FabricStatus, Version::Abi;
    /// Frees a list, or hints.
    fi_freeinfo(info: *mut fi_info) -> (), Plain, Version::Abi;
    /// Copies one entry of a list.
    fi_dupinfo(info: *const fi_info) -> *mut fi_info, NullErrno, Version::Abi;
    /// Opens a provider.
    fi_fabric(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void)
        -> c_int, FabricStatus, Version::Own(c"FABRIC_1.1");
    /// The library's version; [`Ofi::version`] has its parts.
    fi_version() -> u32, Plain, Version::Own(c"FABRIC_1.0");
    /// The library's text for an error; [`Errno`] has its own.
    fi_strerror(number: c_int) -> *const c_char, Plain, Version::Own(c"FABRIC_1.0");
}

impl Ofi {
    /// Loads libfabric and binds its functions. A copy that is already loaded in this process always
    /// takes precedence; then `explicit`, a file or a soname; by default EFA's own
    /// in `/opt/amazon/efa`, then the system's. [`Ofi::file`] returns the file used.
    pub fn load(explicit: Option<&Path>) -> Result<Self, LoadError> {
        let library = find::open(explicit)?;
        Self::bind(&library, newest(&library))
    }

    /// The library's version, such as (1, 17).
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: takes nothing and reads a constant of the library.
        let version = unsafe { self.fi_version() };
        (version >> 16, version & 0xffff)
    }

    /// The API version for `fi_getinfo`: the newest that the library and this crate support.
    pub fn api_version(&self) -> u32 {
        let (major, minor) = self.version();
        FI_VERSION(major, minor).min(NEWEST_API)
    }

    /// The symbol version of the bound `fi_getinfo`, such as `FABRIC_1.3`.
    pub fn abi(&self) -> &'static str {
        self.abi.to_str().unwrap_or("?")
    }

    /// The file that the library was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Allocates empty hints with all their parts, in this library's size; freed with `fi_freeinfo`.
    pub fn fi_allocinfo(&self) -> Result<NonNull<fi_info>, Errno> {
        // SAFETY: with null this function allocates a new one.
        unsafe { self.fi_dupinfo(std::ptr::null()) }
    }
}

/// The newest version of `fi_info` that the library and this crate support. If there is none, the oldest,
/// which is then reported as missing.
fn newest(library: &Library) -> &'static CStr {
    let has = |abi: &&'static CStr| library.symbol(c"fi_getinfo", abi).is_ok();
    let oldest = ABIS[ABIS.len() - 1];
    ABIS.into_iter().find(has).unwrap_or(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_another_library_has_the_missing_symbol() {
        let error = Ofi::load(Some(Path::new("libc.so.6"))).err().unwrap();
        assert_eq!(error.to_string(), "libc.so.6 has no fi_getinfo@FABRIC_1.3");
    }
}
