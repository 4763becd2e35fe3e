//! The variables by which libfabric is told how to work; it has no other way to set them. A user's own stay as they are.
//!
//! Unsafe here: the environment is changed while the program has one thread, before any library is loaded.
#![allow(unsafe_code, reason = "changes the environment")]

use std::ffi::OsStr;

/// Sets what links need, for commands that make some and start no other programs with them: those would inherit it.
pub(crate) fn prepare() {
    for (name, value) in fabric::ofi::ENVIRONMENT {
        if std::env::var_os(name).is_none_or(|told| told == OsStr::new("")) {
            // SAFETY: called by `run` before anything else is done: nobody else reads or changes the environment.
            unsafe { std::env::set_var(name, value) };
        }
    }
}
