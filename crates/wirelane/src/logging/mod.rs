//! Log lines on stderr, as text or as one JSON object each.

mod background;

use std::io::IsTerminal;

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use crate::settings::Settings;
use crate::settings::{Global, LogFormat, LogLevel};
pub(crate) use background::BackgroundLog;

/// Starts logging, at the level of the settings.
pub(crate) fn start(global: &Global, settings: &Settings) {
    start_to(std::io::stderr, global, settings);
}

/// The same for a server, which must not block on stderr.
pub(crate) fn start_in_background(
    global: &Global,
    settings: &Settings,
) -> std::io::Result<BackgroundLog> {
    let log = BackgroundLog::open()?;
    start_to(log.clone(), global, settings);
    Ok(log)
}

fn start_to<W>(writer: W, global: &Global, settings: &Settings)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(settings.log_level)
        .with_writer(writer)
        // No colours in files.
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
