//! What every command can be told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Settings file; without it /etc/wirelane/wirelane.yaml is read if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// How much to log to stderr (default: the setting log_level)
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,

    /// How to write log lines
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Use this libibverbs instead of the system's; also by the variable WIRELANE_LIBIBVERBS
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) libibverbs: Option<PathBuf>,

    /// Use this libfabric instead of EFA's or the system's; so does the variable WIRELANE_LIBFABRIC
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) libfabric: Option<PathBuf>,

    /// What the environment says of `--token-file`, which not every command has.
    #[arg(skip)]
    pub(crate) token_file: Option<PathBuf>,
}

impl Global {
    /// What the environment says where the command line said nothing; an empty variable is none.
    pub(crate) fn with_environment(mut self) -> Self {
        let named =
            |name| std::env::var_os(name).filter(|file| !file.is_empty()).map(PathBuf::from);
        self.libibverbs = self.libibverbs.or(named("WIRELANE_LIBIBVERBS"));
        self.libfabric = self.libfabric.or(named("WIRELANE_LIBFABRIC"));
        self.token_file = named("WIRELANE_TOKEN_FILE");
        self
    }
}

/// How much to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How to write log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}
