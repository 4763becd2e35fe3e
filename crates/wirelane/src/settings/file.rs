//! A settings file: read with a limit, parsed, and matched against the table.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::problem::{Problem, quoted};
use super::table::{SETTINGS, Setting};
use super::value::Value;
use super::yaml::{self, Node, Shape};
use crate::output::Failure;

/// A setting that the file gives.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Its row in the table.
    pub(crate) row: usize,
    pub(crate) value: Value,
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

/// Why a file gives no settings.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It could not be read at all.
    Unreadable(String),
    /// It was read and is wrong; every problem, first to last.
    Wrong(Vec<Problem>),
}

impl Unread {
    /// For commands that need the settings but are not about them.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Unread::Unreadable(text) => Failure::failed(text),
            Unread::Wrong(problems) => Failure::usage(paragraphs(&problems)),
        }
    }
}

/// The problems as text, one paragraph each.
pub(crate) fn paragraphs(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads the file. Every problem is found, not just the first, up to a screenful.
pub(crate) fn read(file: &Path) -> Result<Vec<Assignment>, Unread> {
    let text = text(file)?;
    let document = yaml::parse(&text).map_err(|error| {
        let fix = "`wirelane config show --format yaml` prints a file to start from.";
        let text = format!("{} {fix}", error.text);
        Unread::Wrong(vec![Problem::at(file, error.line, text)])
    })?;
    let mut reader = Reader { file, assignments: Vec::new(), problems: Vec::new() };
    match document.shape {
        Shape::Null => {}
        Shape::Map(entries) => reader.section("", &entries),
        _ => reader.problem(
            document.line,
            "a settings file is a list of `name: value` lines, and this is not. \
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
    Err(Unread::Wrong(reader.problems))
}

/// The file's text, if it is text and not too large.
fn text(file: &Path) -> Result<String, Unread> {
    let unreadable = |error: io::Error| {
        Unread::Unreadable(format!(
            "read settings file {}: {error}. Check the path and its permissions.",
            file.display()
        ))
    };
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let wrong = |line: usize, text: String| Unread::Wrong(vec![Problem::at(file, line, text)]);
    let line_at = |offset: usize| 1 + bytes[..offset].iter().filter(|b| **b == b'\n').count();
    if let Err(error) = std::str::from_utf8(&bytes) {
        let offset = error.valid_up_to();
        let cut_off = bytes.len() - offset < 4 && bytes.len() as u64 > MAX_BYTES;
        if !cut_off {
            return Err(wrong(
                line_at(offset),
                format!(
                    "not text: byte {:#04x} is not UTF-8. Give the YAML file with the settings; \
                     `wirelane config show --format yaml` prints one to start from.",
                    bytes[offset]
                ),
            ));
        }
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(wrong(
            line_at(bytes.len()),
            format!(
                "the file is larger than {} MiB, which no settings file is. Give the YAML file \
                 with the settings; `wirelane config show --format yaml` prints one to start from.",
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
                "{} is given twice under two spellings, first on line {}. Remove one of the two.",
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
                    "{} {what}; allowed is {}. Default: {}.",
                    setting.name(),
                    setting.kind.allowed(),
                    setting.default_value().to_yaml()
                ),
            ),
        }
    }
}

/// The table's name for a path as its users may have written it: everything may stand under
/// `dwcp`, and the transport's settings under `transport.amst`.
fn canonical(path: &str) -> String {
    let path = path.strip_prefix("dwcp.").unwrap_or(path);
    match path.strip_prefix("transport.amst.") {
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
    // Another name, not a slip of the finger, once a third of it differs; comparing is not free,
    // and no slip makes a name of a thousand letters.
    let meant = SETTINGS
        .iter()
        .filter(|_| name.len() <= 64)
        .min_by_key(|setting| distance(setting))
        .filter(|setting| distance(setting) <= name.chars().count() / 3);
    let advice = match meant {
        Some(setting) if setting.name() == name => {
            format!("It belongs {}", place_of(setting.key))
        }
        Some(setting) => {
            format!("Did you mean {}? Allowed there is {}", setting.key, setting.kind.allowed())
        }
        None => "Remove it; `wirelane config show` lists every setting".to_owned(),
    };
    format!("{} is not a setting. {advice}.", quoted(path))
}

fn place_of(key: &str) -> String {
    match key.rsplit_once('.') {
        Some((section, _)) => format!("in the section `{section}`"),
        None => "at the top of the file, in no section".to_owned(),
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
