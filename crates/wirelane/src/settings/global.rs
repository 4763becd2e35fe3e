//! Global options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Global options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Settings file (default: /etc/wirelane/wirelane.yaml, if it exists)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Log level on stderr (default: the setting log_level)
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,

    /// Log format
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Use this libibverbs instead of the system's [env: WIRELANE_LIBIBVERBS]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) libibverbs: Option<PathBuf>,

    /// Use this libfabric instead of EFA's or the system's [env: WIRELANE_LIBFABRIC]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) libfabric: Option<PathBuf>,

    /// `--token-file` from the environment; not every command has the option.
    #[arg(skip)]
    pub(crate) token_file: Option<PathBuf>,
}

impl Global {
    /// Adds values of environment variables that the command line does not set; an empty variable counts as unset.
    pub(crate) fn with_environment(mut self) -> Self {
        let named =
            |name| std::env::var_os(name).filter(|file| !file.is_empty()).map(PathBuf::from);
        self.libibverbs = self.libibverbs.or(named("WIRELANE_LIBIBVERBS"));
        self.libfabric = self.libfabric.or(named("WIRELANE_LIBFABRIC"));
        self.token_file = named("WIRELANE_TOKEN_FILE");
        self
    }
}

/// Log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}
