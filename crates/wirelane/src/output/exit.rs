//! Outcomes and their exit codes.
//!
//! Unsafe here: `_exit` ends the process without running exit handlers, for `immediately`.
#![allow(unsafe_code, reason = "calls _exit")]

use std::error::Error as StdError;
use std::fmt;

use fabric::ErrorKind;
use fabric::session::Reason;

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

/// Ends the process now, even if other threads hang. All output must have been written.
pub(crate) fn immediately(outcome: Result<Exit, Failure>) -> ! {
    let code = match outcome {
        Ok(exit) => exit.code(),
        Err(failure) => {
            output::error(&failure);
            failure.code
        }
    };
    // SAFETY: `_exit` accesses no memory of this process.
    unsafe { libc::_exit(code.into()) }
}

/// Why a command could not do its work. The text names the thing, the cause and the fix.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// A negative result.
    pub(crate) fn no(text: impl Into<String>) -> Self {
        Failure { code: 1, text: text.into() }
    }

    /// A usage error.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure { code: 2, text: text.into() }
    }

    /// A failure.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure { code: 3, text: text.into() }
    }

    /// A command failed, or could not be started: with the exit code of a shell.
    pub(crate) fn command(code: u8, text: impl Into<String>) -> Self {
        Failure { code, text: text.into() }
    }

    /// The failure with the higher code; the first if equal.
    pub(crate) fn worse(one: Option<Failure>, other: Option<Failure>) -> Option<Failure> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other.code > one.code { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

/// Refusals are negative results; other errors are failures.
impl From<fabric::Error> for Failure {
    fn from(error: fabric::Error) -> Self {
        let text = with_options(error.to_string(), &error);
        match error.kind() {
            ErrorKind::Denied | ErrorKind::Unsupported | ErrorKind::Full => Failure::no(text),
            ErrorKind::Misuse => Failure::usage(text),
            ErrorKind::Gone | ErrorKind::System => Failure::failed(text),
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

impl From<kv_disk::Error> for Failure {
    fn from(error: kv_disk::Error) -> Self {
        Failure::failed(error.to_string())
    }
}

/// A refusal of the store is a negative result; a store that cannot be reached is a failure.
impl From<kv_client::Error> for Failure {
    fn from(error: kv_client::Error) -> Self {
        use kv_client::ErrorKind;
        let text = client_error(&error);
        match error.kind() {
            ErrorKind::Condition(_)
            | ErrorKind::Full
            | ErrorKind::TooLong
            | ErrorKind::Overloaded => Failure::no(text),
            ErrorKind::Denied | ErrorKind::Unsupported => Failure::no(text),
            ErrorKind::Misuse => Failure::usage(text),
            _ => Failure::failed(text),
        }
    }
}

/// An error of the client library with its causes, and the option that configures the exhausted resource.
pub(crate) fn client_error(error: &kv_client::Error) -> String {
    use kv_client::Resource;
    let option = match error.resource() {
        Some(Resource::ClientBuffer) => "--buffer",
        Some(Resource::StoreMemory) => "the server's --memory and --when-full",
        Some(Resource::StoreInFlight) => "the server's --max-in-flight",
        Some(Resource::StoreRate) => "the server's --max-rate",
        Some(Resource::StoreDisk) => "`wirelane kv fsck` checks it",
        _ => return with_options(format!("{error:#}"), error),
    };
    format!("{error:#} ({option})")
}

/// The text of an error; if a peer refused the credentials, with the options for them.
pub(crate) fn with_options(text: String, error: &(dyn StdError + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |&cause| cause.source());
    let refusal = causes.find_map(|cause| cause.downcast_ref::<fabric::Error>()?.refusal());
    let row = CREDENTIAL_OPTIONS.iter().find(|(reason, _)| Some(reason.name()) == refusal);
    match row {
        Some((_, options)) => format!("{text} ({options})"),
        None => text,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What to do with the options for credentials when a peer refuses.
const CREDENTIAL_OPTIONS: [(Reason, &str); 3] = [
    (
        Reason::Unauthenticated,
        "pass --token-file FILE, or what else the server accepts: a client certificate, or settings with its key_file",
    ),
    (
        Reason::WrongKey,
        "the line of --token-file must be in the server's token file too, and a key_file must be the server's",
    ),
    (
        Reason::NoAuthentication,
        "omit --token-file, unset WIRELANE_TOKEN_FILE, or use settings without a key_file",
    ),
];
