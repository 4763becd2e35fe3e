//! A shared library opened at run time, and its symbols by name and version.
//!
//! Unsafe here: `dlopen` runs the library's constructors and `dlvsym` returns untyped addresses. The
//! tables in `verbs/mod.rs` and `ofi/mod.rs` guarantee that an address has the type it is converted
//! to; `tests/layout.rs` and `tests/layout_ofi.rs` compile their rows against the
//! installed headers.
#![allow(unsafe_code, reason = "the one place that calls dlopen and dlvsym")]

use std::ffi::{CStr, CString, OsStr, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Why a library could not be used. Expected on most machines, which have no RDMA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The dynamic linker found no such library, or could not load it.
    Absent {
        /// The requested file or soname.
        library: PathBuf,
        /// The dynamic linker's message.
        reason: String,
    },
    /// The library lacks a function, so it is too old or another library.
    Symbol {
        /// The file or soname that was opened.
        library: PathBuf,
        /// The missing function.
        symbol: &'static str,
        /// The requested symbol version.
        version: &'static str,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Absent { library, reason } => {
                write!(f, "{} cannot be loaded: {reason}", library.display())
            }
            LoadError::Symbol { library, symbol, version } => {
                write!(f, "{} has no {symbol}@{version}", library.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// An open library. Never closed: it loads providers that keep state for the process.
pub(crate) struct Library {
    name: PathBuf,
    handle: NonNull<c_void>,
}

impl Library {
    pub(crate) fn open(name: &Path) -> Result<Self, LoadError> {
        let absent = |reason: String| LoadError::Absent { library: name.to_owned(), reason };
        let c_name = CString::new(name.as_os_str().as_bytes())
            .map_err(|_| absent("its name contains a NUL byte".to_owned()))?;
        // SAFETY: `c_name` is a NUL-terminated string alive during the call; the user who installed or
        // named the file guarantees that it is a library that can be loaded.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Library { name: name.to_owned(), handle }),
            None => Err(absent(linker_message())),
        }
    }

    /// The library of this name, if it is already loaded in the process.
    pub(crate) fn loaded(name: &Path) -> Option<Self> {
        let c_name = CString::new(name.as_os_str().as_bytes()).ok()?;
        // SAFETY: `c_name` is a NUL-terminated string alive during the call; this flag loads
        // nothing, so that no code of the library runs.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        NonNull::new(handle).map(|handle| Library { name: name.to_owned(), handle })
    }

    /// The file that `address`, one of this library's symbols, was loaded from.
    pub(crate) fn file(&self, address: NonNull<c_void>) -> PathBuf {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `found` is writable and of the expected type.
        let known = unsafe { libc::dladdr(address.as_ptr(), found.as_mut_ptr()) } != 0;
        // SAFETY: all fields are pointers, for which zero is valid; the linker has filled
        // them if it knows the address.
        let file = unsafe { found.assume_init() }.dli_fname;
        if !known || file.is_null() {
            return self.name.clone();
        }
        // SAFETY: not null, checked above, so the linker's name of a library that is never
        // closed.
        let file = unsafe { CStr::from_ptr(file) };
        PathBuf::from(OsStr::from_bytes(file.to_bytes()))
    }

    /// The address of `symbol` under exactly `version`, never the library's default version.
    pub(crate) fn symbol(
        &self,
        symbol: &'static CStr,
        version: &'static CStr,
    ) -> Result<NonNull<c_void>, LoadError> {
        // SAFETY: the handle was returned by `dlopen` and is never closed; both names are
        // static NUL-terminated strings.
        let address =
            unsafe { libc::dlvsym(self.handle.as_ptr(), symbol.as_ptr(), version.as_ptr()) };
        NonNull::new(address).ok_or_else(|| LoadError::Symbol {
            library: self.name.clone(),
            symbol: symbol.to_str().unwrap_or("?"),
            version: version.to_str().unwrap_or("?"),
        })
    }
}

fn linker_message() -> String {
    // SAFETY: `dlerror` returns null or a thread-local string, valid
    // until the next dl call; it is copied below before that.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: not null, checked above, so a NUL-terminated string by dlerror's contract.
    let message = unsafe { CStr::from_ptr(message) };
    message.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_absent_library_has_the_reason() {
        let error = Library::open(Path::new("/nowhere/libibverbs.so.1")).err().unwrap();
        let LoadError::Absent { library, reason } = error else { panic!("{error}") };
        assert_eq!(library, Path::new("/nowhere/libibverbs.so.1"));
        assert!(reason.contains("No such file"), "{reason}");
    }

    #[test]
    fn loaded_finds_only_loaded_libraries() {
        let libc = Library::loaded(Path::new("libc.so.6")).expect("every program has it");
        let address = libc.symbol(c"getpid", GLIBC).unwrap();
        assert!(libc.file(address).ends_with("libc.so.6"), "{:?}", libc.file(address));
        assert!(Library::loaded(Path::new("libnowhere.so.1")).is_none());
    }

    #[test]
    fn the_error_for_an_absent_symbol_has_its_version() {
        let libc = Library::open(Path::new("libc.so.6")).unwrap();
        let error = libc.symbol(c"ibv_open_device", c"IBVERBS_1.1").unwrap_err();
        assert_eq!(error.to_string(), "libc.so.6 has no ibv_open_device@IBVERBS_1.1");
    }

    /// The first version of glibc on this architecture.
    #[cfg(target_arch = "x86_64")]
    const GLIBC: &CStr = c"GLIBC_2.2.5";
    #[cfg(not(target_arch = "x86_64"))]
    const GLIBC: &CStr = c"GLIBC_2.17";
}
