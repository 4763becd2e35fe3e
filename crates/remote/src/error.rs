//! Why something could not be done on a host.

use std::error::Error as StdError;
use std::time::Duration;
use std::{fmt, io};

use super::shell::Shell;

/// Why a command could not be run on a host, or what it answered not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be a host's name.
    InvalidHost(String),
    /// This machine could not do its part.
    Local {
        /// As in `run ssh to node2`.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// No answer within the time limit; the command was ended.
    TimedOut {
        /// Who did not answer.
        host: String,
        /// ssh or srun, which was ended.
        program: &'static str,
        /// The limit.
        after: Duration,
    },
    /// A longer answer than is read; the command was ended.
    TooLong {
        /// Who sent it.
        host: String,
        /// ssh or srun, which was ended.
        program: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },
    /// ssh itself failed.
    Unreachable {
        /// Who cannot be reached.
        host: String,
        /// By what.
        program: &'static str,
        /// The last line of what it wrote to stderr.
        reason: String,
        /// A command by which a person can try the same.
        trial: String,
    },
    /// The command ran there, and failed.
    Command {
        /// Where.
        host: String,
        /// What ran.
        command: String,
        /// Its exit code; none: it was ended by a signal.
        code: Option<i32>,
        /// The last line of what it wrote to stderr.
        reason: String,
    },
    /// This program was copied to the host, and does not run there.
    CannotRun {
        /// Where.
        host: String,
        /// What the shell there said.
        reason: String,
    },
    /// What the host sent is not what was asked for.
    Answer {
        /// Who sent it.
        host: String,
        /// What is wrong with it.
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
                write!(f, "{host} does not answer within {seconds} s; {program} was ended")
            }
            Error::TooLong { host, program, limit } => {
                let limit = limit >> 20;
                write!(
                    f,
                    "{host} sends more than the {limit} MiB that are read; {program} was ended"
                )
            }
            Error::Unreachable { host, program, reason, trial } => {
                write!(f, "{program} to {host}: {reason}; try `{trial}`")
            }
            Error::Command { host, command, code: Some(code), reason } => {
                write!(f, "`{command}` on {host} ended with code {code}: {reason}")
            }
            Error::Command { host, command, code: None, reason } => {
                write!(f, "`{command}` on {host} ended with a signal: {reason}")
            }
            Error::CannotRun { host, reason } => write!(
                f,
                "this program does not run on {host} ({reason}): is it another architecture? Install \
                 wirelane there, or take a snapshot there and name its file instead of the host"
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
