//! `wirelane config`: show, check and describe the settings.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};

use crate::output;
use crate::output::{Exit, Failure, wrap};
use crate::settings::file::{self, LoadError};
use crate::settings::{
    Global, Loaded, Origin, SETTINGS, Setting, Settings, Sourced, resolve, schema,
};
use crate::web_config::AccessRules;

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every setting with its value and source
    Show {
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: Format,
        /// The same as --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
    /// Check a settings file, and print each problem with its line and fix
    Check {
        /// The file to check
        file: PathBuf,
        /// Check a web config file (see `exporter --web-config`) instead
        #[arg(long)]
        web: bool,
    },
    /// Print the JSON schema of the settings file, for editors
    Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Three columns
    Text,
    /// With documentation, default and allowed values
    Json,
    /// A complete, commented settings file
    Yaml,
}

pub(crate) fn run(global: &Global, args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show { format, json } => {
            show(global, if *json { Format::Json } else { *format })
        }
        ConfigCommand::Check { file, web: true } => check_web(file),
        ConfigCommand::Check { file, web: false } => check(file),
        ConfigCommand::Schema => {
            output::json(&schema::json_schema())?;
            Ok(Exit::Done)
        }
    }
}

fn show(global: &Global, format: Format) -> Result<Exit, Failure> {
    let loaded = Settings::load(global)?;
    match format {
        Format::Text => output::answer(&text(&loaded))?,
        Format::Json => output::json(&json(&loaded))?,
        Format::Yaml => {
            let values = loaded.values.iter().map(|sourced| &sourced.value);
            output::answer(&schema::annotated_yaml(values))?;
        }
    }
    Ok(Exit::Done)
}

fn text(loaded: &Loaded) -> String {
    let rows: Vec<[String; 3]> = SETTINGS
        .iter()
        .zip(&loaded.values)
        .map(|(setting, sourced)| {
            [setting.key.to_owned(), sourced.value.to_yaml(), sourced.origin.to_string()]
        })
        .collect();
    wrap::table(&rows, wrap::columns())
}

fn json(loaded: &Loaded) -> Json {
    let row = |(setting, sourced): (&Setting, &Sourced)| {
        json!({
            "key": setting.key,
            "value": sourced.value.to_json(),
            "from": origin_json(&sourced.origin),
            "default": setting.default_value().to_json(),
            "allowed": setting.kind.allowed(),
            "doc": schema::sentence(setting.doc),
        })
    };
    SETTINGS.iter().zip(&loaded.values).map(row).collect()
}

fn origin_json(origin: &Origin) -> Json {
    match origin {
        Origin::Default => json!({"source": "default"}),
        Origin::Preset(name) => json!({"source": "preset", "preset": name}),
        Origin::File { file, line } => json!({"source": "file", "file": file, "line": line}),
        Origin::CommandLine(flag) => json!({"source": "command line", "flag": flag}),
    }
}

fn check(file: &Path) -> Result<Exit, Failure> {
    match file::read(file) {
        Ok(assigned) => {
            let count = assigned.len();
            for warning in &resolve(assigned).warnings {
                output::warning(warning);
            }
            let settings = if count == 1 { "setting" } else { "settings" };
            output::note(&format!("{}: OK ({count} {settings})", file.display()));
            Ok(Exit::Done)
        }
        Err(LoadError::Invalid(problems)) => {
            output::note(&file::paragraphs(&problems));
            Ok(Exit::No)
        }
        Err(unreadable) => Err(unreadable.into_failure()),
    }
}

/// Checks also the certificates and keys that it names.
fn check_web(file: &Path) -> Result<Exit, Failure> {
    let name = file.display();
    rustix::fs::access(file, rustix::fs::Access::READ_OK)
        .map_err(|error| Failure::failed(format!("read the web config file {name}: {error}")))?;
    match AccessRules::open(Some(file)) {
        Ok(rules) => {
            output::note(&format!("{name}: OK (serves {})", rules.scheme()));
            Ok(Exit::Done)
        }
        Err(problem) => {
            output::note(&problem.to_string());
            Ok(Exit::No)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_published_schema_is_the_current_one() {
        let published: Json = serde_json::from_str(&published("config.schema.json")).unwrap();
        let current = schema::json_schema();
        assert_eq!(
            published, current,
            "write it again: wirelane config schema > docs/config.schema.json"
        );
    }

    #[test]
    fn the_published_settings_file_is_the_current_one_and_has_the_defaults() {
        let defaults = resolve(Vec::new());
        let current = schema::annotated_yaml(defaults.values.iter().map(|s| &s.value));
        assert_eq!(
            published("wirelane.yaml"),
            current,
            "write it again: wirelane config show --format yaml > docs/wirelane.yaml"
        );
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wirelane.yaml");
        let read = file::read(&file).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(read.len(), SETTINGS.len());
        assert_eq!(resolve(read).settings, defaults.settings);
    }
}
