//! Log lines on stderr, as text or as one JSON object each.

use std::io::IsTerminal;

use tracing::Level;

use crate::cli::{Global, LogFormat, LogLevel};
use crate::config::Settings;

/// Starts logging, at the level of the settings.
pub(crate) fn start(global: &Global, settings: &Settings) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(settings.log_level)
        .with_writer(std::io::stderr)
        // Colours are for eyes, not for files.
        .with_ansi(std::io::stderr().is_terminal());
    match global.log_format {
        LogFormat::Text => subscriber.with_target(false).init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Level {
        match level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Trace => Level::TRACE,
        }
    }
}
