//! Environment variables that configure libfabric, which has no API for these settings. Variables set by the user are kept.
//!
//! Unsafe here: the environment is changed while the program has one thread, before any library is loaded.
#![allow(unsafe_code, reason = "changes the environment")]

use std::ffi::OsStr;

/// Sets them, for commands that open links and do not start other programs, which would inherit them.
pub(crate) fn prepare() {
    for (name, value) in fabric::ofi::ENVIRONMENT {
        if std::env::var_os(name).is_none_or(|value| value == OsStr::new("")) {
            // SAFETY: `run` calls this before anything else, while there is one thread: no other reads or changes the environment.
            unsafe { std::env::set_var(name, value) };
        }
    }
}
