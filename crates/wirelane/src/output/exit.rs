//! Outcomes and their exit codes, in one place.
//!
//! Unsafe here: `_exit` ends the process without asking anybody, for `immediately`.
#![allow(unsafe_code, reason = "calls _exit")]

use std::fmt;

use fabric::Kind;

use crate::output;
use access::files::{FileError, FileErrorKind};

/// How the program ends. `--help` lists the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    No,
    Usage,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Usage => 2,
        }
    }
}

/// Ends the process now, whatever its other threads wait for. Nothing may be left to write.
pub(crate) fn immediately(outcome: Result<Exit, Failure>) -> ! {
    let code = match outcome {
        Ok(exit) => exit.code(),
        Err(failure) => {
            output::error(&failure);
            failure.code
        }
    };
    // SAFETY: `_exit` touches no memory of ours; that nothing is left to write, the caller keeps.
    unsafe { libc::_exit(code.into()) }
}

/// Why a command could not do its work. The text names the thing, the cause and the fix.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The answer is no, and this is why.
    pub(crate) fn no(text: impl Into<String>) -> Self {
        Failure { code: 1, text: text.into() }
    }

    /// The user asked for something that cannot be meant.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure { code: 2, text: text.into() }
    }

    /// The world did not allow it.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure { code: 3, text: text.into() }
    }

    /// A command could not be started: the code that a shell has for it.
    pub(crate) fn command(code: u8, text: impl Into<String>) -> Self {
        Failure { code, text: text.into() }
    }

    /// Of two failures the worse; the first of equals.
    pub(crate) fn worse(one: Option<Failure>, other: Option<Failure>) -> Option<Failure> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other.code > one.code { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

/// What is refused is a no; what is gone or broken could not be done.
impl From<fabric::Error> for Failure {
    fn from(error: fabric::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            Kind::Denied | Kind::Unsupported | Kind::Full => Failure::no(text),
            Kind::Misuse => Failure::usage(text),
            Kind::Gone | Kind::System => Failure::failed(text),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error.kind() {
            FileErrorKind::Unreadable(_) => Failure::failed(error.to_string()),
            _ => Failure::usage(error.to_string()),
        }
    }
}

impl From<remote::Error> for Failure {
    fn from(error: remote::Error) -> Self {
        let text = error.to_string();
        match error {
            remote::Error::InvalidHost(_) => Failure::usage(text),
            _ => Failure::failed(text),
        }
    }
}

/// A store that says no has answered; one that cannot be asked has not.
impl From<kv_disk::Error> for Failure {
    fn from(error: kv_disk::Error) -> Self {
        Failure::failed(error.to_string())
    }
}

impl From<kv_client::Error> for Failure {
    fn from(error: kv_client::Error) -> Self {
        use kv_client::Kind;
        let text = client_error(&error);
        match error.kind() {
            Kind::Condition(_) | Kind::Full | Kind::TooLong | Kind::Overloaded => Failure::no(text),
            Kind::Denied | Kind::Unsupported => Failure::no(text),
            Kind::Misuse => Failure::usage(text),
            _ => Failure::failed(text),
        }
    }
}

/// An error of the client's library with its causes, and with the option of ours that governs what ran out.
pub(crate) fn client_error(error: &kv_client::Error) -> String {
    use kv_client::Resource;
    let option = match error.resource() {
        Some(Resource::ReceiveBuffer) => "--buffer",
        Some(Resource::StoreMemory) => "the server's --memory and --when-full",
        Some(Resource::StoreInFlight) => "the server's --max-in-flight",
        Some(Resource::StoreRate) => "the server's --max-rate",
        Some(Resource::StoreDisk) => "`wirelane kv fsck` checks it",
        _ => return format!("{error:#}"),
    };
    format!("{error:#} ({option})")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
