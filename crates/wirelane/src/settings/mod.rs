//! The settings of the program: a table, a file, and the origin of each value.
//!
//! `table` lists every setting with its default, its range and its documentation; the typed
//! [`Settings`], the file reader, the JSON schema and the annotated example are all derived from it.

pub(crate) mod file;
mod global;
mod peer_policy;
pub(crate) mod problem;
pub(crate) mod schema;
mod table;
mod value;
pub(crate) mod yaml;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use global::{Global, LogFormat, LogLevel};
pub use table::{Preset, SETTINGS, Setting, Settings};
pub use value::{Kind, Value};

use crate::output::Failure;
use problem::Problem;

/// Read without `--config`, if it exists.
pub(crate) const SYSTEM_FILE: &str = "/etc/wirelane/wirelane.yaml";

/// The effective settings, and the origin of each.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// One per row of [`SETTINGS`], in its order.
    pub(crate) values: Vec<Sourced>,
    /// On valid values that are probably mistakes.
    pub(crate) warnings: Vec<Problem>,
}

/// A value and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Sourced {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    Preset(&'static str),
    File { file: PathBuf, line: usize },
    CommandLine(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::File { file, line } => write!(f, "{}:{line}", file.display()),
            Origin::CommandLine(flag) => write!(f, "command line {flag}"),
        }
    }
}

impl Settings {
    /// The settings for this run: the command line overrides the file, the preset and the defaults, in this order.
    /// Prints warnings on stderr; errors in the file are a failure.
    pub(crate) fn load(global: &Global) -> Result<Loaded, Failure> {
        let assigned = match &global.config {
            Some(file) => file::read(file),
            // Only a missing file is ignored, not an unreadable one.
            None => match Path::new(SYSTEM_FILE).symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                _ => file::read(Path::new(SYSTEM_FILE)),
            },
        };
        let assigned = assigned.map_err(file::LoadError::into_failure)?;
        let mut loaded = resolve(assigned);
        if let Some(level) = global.log_level {
            loaded.override_log_level(level);
        }
        for warning in &loaded.warnings {
            crate::output::warning(warning);
        }
        Ok(loaded)
    }
}

impl Loaded {
    fn override_log_level(&mut self, level: LogLevel) {
        self.settings.log_level = level.into();
        let row = table::row("log_level");
        let text = self.settings.log_level.to_string().to_lowercase();
        self.values[row] =
            Sourced { value: Value::Text(text), origin: Origin::CommandLine("--log-level") };
    }
}

/// The default settings.
pub(crate) fn defaults() -> Settings {
    resolve(Vec::new()).settings
}

/// Applies the preset of the file to the defaults, then the file's other values.
pub(crate) fn resolve(assigned: Vec<file::Assignment>) -> Loaded {
    let mut values: Vec<Sourced> = SETTINGS
        .iter()
        .map(|setting| Sourced { value: setting.default_value(), origin: Origin::Default })
        .collect();
    let preset = assigned.iter().find(|a| SETTINGS[a.row].key == table::PRESET_KEY);
    if let Some(preset) = preset.and_then(|a| Preset::named(&a.value)) {
        for (key, value) in preset.values() {
            values[table::row(key)] = Sourced { value, origin: Origin::Preset(preset.name()) };
        }
    }
    let mut warnings = Vec::new();
    for file::Assignment { row, value, file, line } in assigned {
        if let Some(text) = SETTINGS[row].warn(&value) {
            warnings.push(Problem::at(&file, line, text));
        }
        values[row] = Sourced { value, origin: Origin::File { file, line } };
    }
    let settings = Settings::from_values(values.iter().map(|sourced| &sourced.value));
    Loaded { settings, values, warnings }
}
