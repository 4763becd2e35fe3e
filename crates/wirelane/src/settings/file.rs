//! Reads a settings file, with a size limit, and checks it against the table.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::problem::{Problem, quoted};
use super::table::{SETTINGS, Setting};
use super::value::Value;
use super::yaml::{self, Node, Shape};
use crate::output::Failure;
use access::files::InputFile;

/// A setting in the file.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Its row in the table.
    pub(crate) row: usize,
    pub(crate) value: Value,
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

/// Why a file could not be loaded.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// It could not be read.
    Unreadable(String),
    /// It has errors; all of them, in order.
    Invalid(Vec<Problem>),
}

impl LoadError {
    /// The failure of a command that needs the settings.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            LoadError::Unreadable(text) => Failure::failed(text),
            LoadError::Invalid(problems) => Failure::usage(paragraphs(&problems)),
        }
    }
}

/// The problems as text, one paragraph each.
pub(crate) fn paragraphs(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads the file. Returns all problems, up to a screenful.
pub(crate) fn read(file: &Path) -> Result<Vec<Assignment>, LoadError> {
    let text = text(file)?;
    let document = yaml::parse(&text).map_err(|error| {
        let fix = "`wirelane config show --format yaml` prints a file to start from.";
        let text = format!("{} {fix}", error.text);
        LoadError::Invalid(vec![Problem::at(file, error.line, text)])
    })?;
    let mut reader = Reader { file, assignments: Vec::new(), problems: Vec::new() };
    match document.shape {
        Shape::Null => {}
        Shape::Map(entries) => reader.section("", &entries),
        _ => reader.problem(
            document.line,
            "a settings file consists of `name: value` lines. \
             `wirelane config show --format yaml` prints a file to start from.",
        ),
    }
    if reader.problems.is_empty() {
        return Ok(reader.assignments);
    }
    reader.problems.sort_by_key(Problem::line);
    let more = reader.problems.len().saturating_sub(MAX_PROBLEMS);
    reader.problems.truncate(MAX_PROBLEMS);
    if let Some(last) = reader.problems.last().filter(|_| more > 0) {
        let text = format!("and {more} more problems further down");
        reader.problems.push(Problem::at(file, last.line(), text));
    }
    Err(LoadError::Invalid(reader.problems))
}

/// The file's text, if it is text and not too large.
fn text(file: &Path) -> Result<String, LoadError> {
    let unreadable = |error: io::Error| {
        LoadError::Unreadable(format!(
            "read settings file {}: {error}. Check the path and its permissions.",
            file.display()
        ))
    };
    let mut bytes = Vec::new();
    let opened = InputFile::open(file).map_err(unreadable)?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let invalid =
        |line: usize, text: String| LoadError::Invalid(vec![Problem::at(file, line, text)]);
    let line_at = |offset: usize| 1 + bytes[..offset].iter().filter(|b| **b == b'\n').count();
    if let Err(error) = std::str::from_utf8(&bytes) {
        let offset = error.valid_up_to();
        let cut_off = bytes.len() - offset < 4 && bytes.len() as u64 > MAX_BYTES;
        if !cut_off {
            return Err(invalid(
                line_at(offset),
                format!(
                    "not text: byte {:#04x} is not UTF-8. Pass a YAML file with settings; \
                     `wirelane config show --format yaml` prints one to start from.",
                    bytes[offset]
                ),
            ));
        }
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(invalid(
            line_at(bytes.len()),
            format!(
                "the file is larger than {} MiB, the limit of settings files. Pass a YAML file \
                 with settings; `wirelane config show --format yaml` prints one to start from.",
                MAX_BYTES >> 20
            ),
        ));
    }
    Ok(String::from_utf8(bytes).expect("checked above"))
}

struct Reader<'f> {
    file: &'f Path,
    assignments: Vec<Assignment>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, line: usize, text: impl Into<String>) {
        self.problems.push(Problem::at(self.file, line, text));
    }

    /// The entries under `path` (empty, or a section's name with its dot).
    fn section(&mut self, path: &str, entries: &[(yaml::Key, Node)]) {
        for (key, value) in entries {
            let path = format!("{path}{}", key.name);
            let known = canonical(&path);
            if key.name.contains('.') {
                self.problem(key.line, dotted(&path));
            } else if let Some(row) = SETTINGS.iter().position(|setting| setting.key == known) {
                self.setting(row, key.line, value);
            } else if is_section(&path) {
                match &value.shape {
                    Shape::Map(entries) => self.section(&format!("{path}."), entries),
                    Shape::Null => {}
                    _ => self.problem(
                        key.line,
                        format!("{path} is a section: indent its settings below it."),
                    ),
                }
            } else {
                self.problem(key.line, unknown(&path, &key.name));
            }
        }
    }

    fn setting(&mut self, row: usize, line: usize, value: &Node) {
        let setting = &SETTINGS[row];
        if let Some(first) = self.assignments.iter().find(|a| a.row == row) {
            let text = format!(
                "{} is set twice under two spellings, first on line {}. Remove one of the two.",
                setting.name(),
                first.line
            );
            return self.problem(line, text);
        }
        match setting.kind.read(value) {
            Ok(value) => {
                let file = self.file.to_owned();
                self.assignments.push(Assignment { row, value, file, line });
            }
            Err(what) => self.problem(
                line,
                format!(
                    "{} {what}; allowed: {}. Default: {}.{}",
                    setting.name(),
                    setting.kind.allowed(),
                    setting.default_value().to_yaml(),
                    setting.why_only()
                ),
            ),
        }
    }
}

/// The key in the table for a path in the file. Older nestings and names are accepted: everything may be below
/// `dwcp`, and the settings of the transport below `transport.amst`.
fn canonical(path: &str) -> String {
    let path = path.strip_prefix("dwcp.").unwrap_or(path);
    match path.strip_prefix("transport.amst.").or_else(|| path.strip_prefix("transport.")) {
        Some("rdma_settle_ms") => "transport.rdma_retry_delay_ms".to_owned(),
        Some(name) => format!("transport.{name}"),
        None => path.to_owned(),
    }
}

fn is_section(path: &str) -> bool {
    let inside = format!("{}.", path.strip_prefix("dwcp.").unwrap_or(path));
    path == "dwcp"
        || inside == "transport.amst."
        || SETTINGS.iter().any(|setting| setting.key.starts_with(&inside))
}

fn unknown(path: &str, name: &str) -> String {
    let distance = |setting: &Setting| strsim::damerau_levenshtein(name, setting.name());
    // Not a typo if more than a third differs. Long names are not compared, which would be slow.
    let meant = SETTINGS
        .iter()
        .filter(|_| name.len() <= 64)
        .min_by_key(|setting| distance(setting))
        .filter(|setting| distance(setting) <= name.chars().count() / 3);
    let advice = match meant {
        Some(setting) if setting.name() == name => {
            format!("It belongs {}", section_of(setting.key))
        }
        Some(setting) => {
            format!("Did you mean {}? Allowed: {}", setting.key, setting.kind.allowed())
        }
        None => "Remove it; `wirelane config show` lists every setting".to_owned(),
    };
    format!("{} is not a setting. {advice}.", quoted(path))
}

fn section_of(key: &str) -> String {
    match key.rsplit_once('.') {
        Some((section, _)) => format!("in the section `{section}`"),
        None => "at the top level of the file".to_owned(),
    }
}

fn dotted(path: &str) -> String {
    format!(
        "{} has a dot in its name. Write the section on a line of its own, and its settings \
         indented below.",
        quoted(path)
    )
}

/// A settings file with every key and its documentation has under 10 KiB.
const MAX_BYTES: u64 = 1 << 20;
const MAX_PROBLEMS: usize = 20;
