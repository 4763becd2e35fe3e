//! The fields of a section, by name and kind.

use std::path::Path;

use crate::settings::problem::{Problem, quoted};
use crate::settings::yaml::{Key, Node, Shape};

/// A section of the file, without unknown names.
pub(super) struct Fields<'d> {
    file: &'d Path,
    entries: &'d [(Key, Node)],
}

/// A value and its line.
pub(super) struct Located<T> {
    pub(super) line: usize,
    pub(super) value: T,
}

impl<'d> Fields<'d> {
    /// The fields of a section; unknown names are a problem.
    pub(super) fn of(file: &'d Path, node: &'d Node, known: &[&str]) -> Result<Self, Problem> {
        let entries = entries(file, node)?;
        if let Some((key, _)) = entries.iter().find(|(key, _)| !known.contains(&key.name.as_str()))
        {
            return Err(Problem::at(file, key.line, unknown(&key.name, known)));
        }
        Ok(Fields { file, entries })
    }

    pub(super) fn problem(&self, line: usize, text: impl Into<String>) -> Problem {
        Problem::at(self.file, line, text)
    }

    /// The value of a field, unless it is null.
    pub(super) fn node(&self, name: &str) -> Option<&'d Node> {
        let (_, node) = self.entries.iter().find(|(key, _)| key.name == name)?;
        (!matches!(node.shape, Shape::Null)).then_some(node)
    }

    /// A text; `None` if it is empty.
    pub(super) fn text(&self, name: &str) -> Result<Option<Located<&'d str>>, Problem> {
        let Some(node) = self.node(name) else { return Ok(None) };
        let value = scalar(node)
            .ok_or_else(|| self.problem(node.line, format!("{name} must be text, not a group.")))?;
        Ok((!value.is_empty()).then_some(Located { line: node.line, value }))
    }

    /// A boolean, in any spelling of YAML.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Problem> {
        let Some(Located { line, value }) = self.text(name)? else { return Ok(default) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" => Ok(true),
            "false" | "no" | "off" | "n" => Ok(false),
            _ => Err(self.problem(line, format!("{name} must be `true` or `false`."))),
        }
    }

    /// A list of texts.
    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<Located<&'d str>>>, Problem> {
        let Some(node) = self.node(name) else { return Ok(None) };
        let invalid =
            |line| self.problem(line, format!("{name} must be a list: one `- VALUE` per line."));
        let Shape::List(items) = &node.shape else { return Err(invalid(node.line)) };
        let item = |item: &'d Node| {
            let value = scalar(item).ok_or_else(|| invalid(item.line))?;
            Ok(Located { line: item.line, value })
        };
        items.iter().map(item).collect::<Result<_, Problem>>().map(Some)
    }
}

/// The entries of a group; none if it is null.
pub(super) fn entries<'d>(file: &Path, node: &'d Node) -> Result<&'d [(Key, Node)], Problem> {
    match &node.shape {
        Shape::Map(entries) => Ok(entries),
        Shape::Null => Ok(&[]),
        _ => Err(Problem::at(file, node.line, "expected a group of `name: value` lines.")),
    }
}

pub(super) fn scalar(node: &Node) -> Option<&str> {
    match &node.shape {
        Shape::Plain(text) | Shape::Text(text) => Some(text),
        Shape::Null => Some(""),
        Shape::List(_) | Shape::Map(_) => None,
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    let near =
        known.iter().filter(|_| name.len() <= 64).min_by_key(|k| strsim::levenshtein(name, k));
    let meant = near.filter(|near| strsim::levenshtein(name, near) <= name.chars().count() / 3);
    match meant {
        Some(meant) => format!("unknown field {}. Did you mean `{meant}`?", quoted(name)),
        None => format!("unknown field {}. Known fields: {}.", quoted(name), known.join(", ")),
    }
}
