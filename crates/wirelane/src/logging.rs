//! Log lines on stderr, as text or as one JSON object each.

use tracing::Level;

use crate::cli::{Global, LogFormat, LogLevel};
use crate::config::Settings;

/// Starts logging: the command line's level if given, else the setting's.
pub(crate) fn start(global: &Global, settings: &Settings) {
    let level = global.log_level.map_or(settings.log_level, LogLevel::into);
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
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
