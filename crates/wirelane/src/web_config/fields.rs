//! The fields of a section, each asked for by its name and kind.

use std::path::Path;

use crate::settings::problem::{Problem, quoted};
use crate::settings::yaml::{Key, Node, Shape};

/// A section of the file whose names are all known.
pub(super) struct Fields<'d> {
    file: &'d Path,
    entries: &'d [(Key, Node)],
}

/// A value and its line.
pub(super) struct At<T> {
    pub(super) line: usize,
    pub(super) value: T,
}

impl<'d> Fields<'d> {
    /// The section's fields; a name that is not among the known ones is a problem.
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

    /// What stands behind a name, if it is more than nothing.
    pub(super) fn node(&self, name: &str) -> Option<&'d Node> {
        let (_, node) = self.entries.iter().find(|(key, _)| key.name == name)?;
        (!matches!(node.shape, Shape::Null)).then_some(node)
    }

    /// A text; an empty one is none.
    pub(super) fn text(&self, name: &str) -> Result<Option<At<&'d str>>, Problem> {
        let Some(node) = self.node(name) else { return Ok(None) };
        let value = scalar(node)
            .ok_or_else(|| self.problem(node.line, format!("{name} is one text, not a group.")))?;
        Ok((!value.is_empty()).then_some(At { line: node.line, value }))
    }

    /// True or false, in any word of YAML for it.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Problem> {
        let Some(At { line, value }) = self.text(name)? else { return Ok(default) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" => Ok(true),
            "false" | "no" | "off" | "n" => Ok(false),
            _ => Err(self.problem(line, format!("{name} is `true` or `false`."))),
        }
    }

    /// A list of texts.
    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<At<&'d str>>>, Problem> {
        let Some(node) = self.node(name) else { return Ok(None) };
        let wrong = |line| self.problem(line, format!("{name} is a list: one `- VALUE` per line."));
        let Shape::List(items) = &node.shape else { return Err(wrong(node.line)) };
        let item = |item: &'d Node| {
            let value = scalar(item).ok_or_else(|| wrong(item.line))?;
            Ok(At { line: item.line, value })
        };
        items.iter().map(item).collect::<Result<_, Problem>>().map(Some)
    }
}

/// What a group has; nothing has nothing.
pub(super) fn entries<'d>(file: &Path, node: &'d Node) -> Result<&'d [(Key, Node)], Problem> {
    match &node.shape {
        Shape::Map(entries) => Ok(entries),
        Shape::Null => Ok(&[]),
        _ => Err(Problem::at(file, node.line, "here is a group of `name: value` lines expected.")),
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
        Some(meant) => format!("{} is not known here. Did you mean `{meant}`?", quoted(name)),
        None => format!("{} is not known here. Known are: {}.", quoted(name), known.join(", ")),
    }
}
