//! Outcomes and their exit codes, in one place.

use std::fmt;
use std::process::ExitCode;

/// How the program ends. `--help` lists the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    No,
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Usage => 2,
        })
    }
}

/// Why a command could not do its work. The text names the thing, the cause and the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The user asked for something that cannot be meant.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure { code: 2, text: text.into() }
    }

    /// The world did not allow it.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure { code: 3, text: text.into() }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
