//! Errors of commands on hosts.

use std::error::Error as StdError;
use std::time::Duration;
use std::{fmt, io};

use super::shell::Shell;

/// Why a command could not be run on a host, or its answer not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Not a valid host name.
    InvalidHost(String),
    /// A local operation failed.
    Local {
        /// As in `run ssh to node2`.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// No answer within the time limit; the command was killed.
    TimedOut {
        /// The host.
        host: String,
        /// ssh or srun, which was killed.
        program: &'static str,
        /// The limit.
        after: Duration,
    },
    /// The answer is longer than the limit; the command was killed.
    TooLong {
        /// The host.
        host: String,
        /// ssh or srun, which was killed.
        program: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },
    /// ssh itself failed.
    Unreachable {
        /// The host.
        host: String,
        /// ssh or srun.
        program: &'static str,
        /// The last line of what it wrote to stderr.
        reason: String,
        /// A command to test the connection by hand.
        test_command: String,
    },
    /// The command ran there, and failed.
    Command {
        /// The host.
        host: String,
        /// The command.
        command: String,
        /// Its exit code; `None`: ended by a signal.
        code: Option<i32>,
        /// The last line of what it wrote to stderr.
        reason: String,
    },
    /// This program was copied to the host, and does not run there.
    CannotRun {
        /// The host.
        host: String,
        /// The shell's error.
        reason: String,
    },
    /// The answer cannot be used.
    Answer {
        /// The host.
        host: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl Error {
    /// ssh, srun or sh could not be started.
    pub(super) fn start(shell: &Shell, source: io::Error) -> Self {
        let action = format!("run {} to {}", shell.program(), shell.host());
        Error::Local { action, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidHost(name) => write!(f, "{name:?} is not a host name"),
            Error::Local { action, source } => write!(f, "{action}: {source}"),
            Error::TimedOut { host, program, after } => {
                let seconds = after.as_secs();
                write!(f, "{host} does not answer within {seconds} s; {program} was killed")
            }
            Error::TooLong { host, program, limit } => {
                let limit = limit >> 20;
                write!(f, "{host} sends more than the limit of {limit} MiB; {program} was killed")
            }
            Error::Unreachable { host, program, reason, test_command } => {
                write!(f, "{program} to {host}: {reason}; try `{test_command}`")
            }
            Error::Command { host, command, code: Some(code), reason } => {
                write!(f, "`{command}` on {host} ended with code {code}: {reason}")
            }
            Error::Command { host, command, code: None, reason } => {
                write!(f, "`{command}` on {host} ended with a signal: {reason}")
            }
            Error::CannotRun { host, reason } => write!(
                f,
                "this program does not run on {host} ({reason}); if the architecture differs, install \
                 wirelane there, or take a snapshot there and pass its file instead of the host"
            ),
            Error::Answer { host, source } => write!(f, "unusable answer from {host}: {source}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Local { source, .. } => Some(source),
            Error::Answer { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
