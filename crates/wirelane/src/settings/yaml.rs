//! A YAML document as a small tree with line numbers: a settings file, or a web config file.
//!
//! Only what these files need: maps, lists, scalars. Aliases, tags, several documents,
//! repeated keys, deep nesting and large files are refused with their line, so that the cost of
//! parsing is bounded.

use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::problem::quoted;

/// A value and its line.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) shape: Shape,
}

#[derive(Debug)]
pub(crate) enum Shape {
    Null,
    /// Written without quotes: a number, a word, true or false.
    Plain(String),
    /// Written in quotes or as a block: text and nothing else.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) line: usize,
    pub(crate) name: String,
}

/// Why the text could not be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl YamlError {
    fn new(line: usize, text: impl Into<String>) -> Self {
        YamlError { line, text: text.into() }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// Reads one document; an empty one is a null node.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    if let Some(line) = tab_in_indentation(text) {
        return Err(YamlError::new(
            line,
            "the line starts with a tab; YAML indents with spaces only. Replace the tab with two \
             spaces for each level.",
        ));
    }
    let mut events = Events { parser: Parser::new_from_str(text) };
    let mut document = None;
    loop {
        let (event, span) = events.next()?;
        let line = span.start.line();
        match event {
            Event::StreamEnd => {
                return Ok(document.unwrap_or(Node { line: 1, shape: Shape::Null }));
            }
            Event::DocumentStart(_) if document.is_some() => {
                return Err(YamlError::new(
                    line,
                    "a second document starts here; a settings file contains one. Remove the `---` \
                     and join the two.",
                ));
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => document = Some(node(&mut events, event, line, 0)?),
        }
    }
}

struct Events<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
}

impl<'t> Events<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(scan_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }
}

fn scan_error(error: &ScanError) -> YamlError {
    YamlError::new(
        error.marker().line(),
        format!(
            "not YAML: {}. Write one `name: value` per line, names of a section two spaces deeper.",
            error.info()
        ),
    )
}

fn node(
    events: &mut Events<'_>,
    event: Event<'_>,
    line: usize,
    depth: usize,
) -> Result<Node, YamlError> {
    if depth > MAX_DEPTH {
        return Err(YamlError::new(line, "nested deeper than any setting. Remove this part."));
    }
    let shape = match event {
        Event::Scalar(text, style, _, None) => scalar(&text, style),
        Event::SequenceStart(_, None) => Shape::List(list(events, depth)?),
        Event::MappingStart(_, None) => Shape::Map(map(events, depth)?),
        Event::Alias(_) => {
            return Err(YamlError::new(
                line,
                "aliases (`*name`) are not supported in settings files. Write the value.",
            ));
        }
        _ => {
            return Err(YamlError::new(
                line,
                "tags (`!name`) are not supported in settings files. Remove the tag.",
            ));
        }
    };
    Ok(Node { line, shape })
}

fn scalar(text: &str, style: ScalarStyle) -> Shape {
    let empty = matches!(text, "" | "~" | "null" | "Null" | "NULL");
    match style {
        ScalarStyle::Plain if empty => Shape::Null,
        ScalarStyle::Plain => Shape::Plain(text.to_owned()),
        _ => Shape::Text(text.to_owned()),
    }
}

fn list(events: &mut Events<'_>, depth: usize) -> Result<Vec<Node>, YamlError> {
    let mut items = Vec::new();
    loop {
        let (event, span) = events.next()?;
        if matches!(event, Event::SequenceEnd | Event::StreamEnd) {
            return Ok(items);
        }
        let line = span.start.line();
        check_count(items.len(), line)?;
        items.push(node(events, event, line, depth + 1)?);
    }
}

fn map(events: &mut Events<'_>, depth: usize) -> Result<Vec<(Key, Node)>, YamlError> {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    loop {
        let (event, span) = events.next()?;
        let line = span.start.line();
        let name = match event {
            Event::MappingEnd | Event::StreamEnd => return Ok(entries),
            Event::Scalar(name, ..) => name.into_owned(),
            _ => return Err(YamlError::new(line, "a setting's name must be a plain word.")),
        };
        if let Some((first, _)) = entries.iter().find(|(key, _)| key.name == name) {
            let (name, first) = (quoted(&name), first.line);
            return Err(YamlError::new(
                line,
                format!("{name} is set twice, first on line {first}. Remove one of the two."),
            ));
        }
        check_count(entries.len(), line)?;
        let (event, span) = events.next()?;
        let value = node(events, event, span.start.line(), depth + 1)?;
        entries.push((Key { line, name }, value));
    }
}

fn check_count(entries: usize, line: usize) -> Result<(), YamlError> {
    if entries < MAX_ENTRIES {
        return Ok(());
    }
    let text = format!(
        "more than {MAX_ENTRIES} entries in one group. Remove those that are not settings."
    );
    Err(YamlError::new(line, text))
}

/// The first line that is indented with a tab. The parser would refuse it too, with a less helpful error.
fn tab_in_indentation(text: &str) -> Option<usize> {
    let indented = |line: &str| {
        let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        indentation.contains('\t') && !line.trim().is_empty()
    };
    text.lines().position(indented).map(|line| line + 1)
}

/// Settings are at most five deep (`dwcp.transport.amst.NAME`, and a list's items).
const MAX_DEPTH: usize = 8;
/// The longest legal list has 1024 entries.
const MAX_ENTRIES: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> YamlError {
        parse(text).unwrap_err()
    }

    #[test]
    fn nodes_have_their_lines() {
        let document = parse("a: 1\n\nb:\n  c: x\n").unwrap();
        let Shape::Map(entries) = document.shape else { panic!() };
        assert_eq!(entries[1].0.line, 3);
        let Shape::Map(inner) = &entries[1].1.shape else { panic!() };
        assert_eq!((inner[0].0.line, inner[0].1.line), (4, 4));
    }

    #[test]
    fn an_empty_file_is_null() {
        assert!(matches!(parse("").unwrap().shape, Shape::Null));
        assert!(matches!(parse("# only a comment\n").unwrap().shape, Shape::Null));
    }

    #[test]
    fn unsupported_yaml_is_refused_with_its_line() {
        assert_eq!(refused("a: 1\n\tb: 2\n").line, 2);
        assert_eq!(refused("a: 1\na: 2\n").line, 2);
        assert_eq!(refused("a: &x 1\nb: *x\n").line, 2);
        assert_eq!(refused("a: !!str 1\n").line, 1);
        assert_eq!(refused("a: 1\n---\nb: 2\n").line, 2);
        assert_eq!(refused("a: [1\nb: 2\n").line, 2);
    }

    #[test]
    fn too_many_entries_are_refused_early() {
        let keys: String = (0..60_000).map(|n| format!("k{n}: 1\n")).collect();
        assert_eq!(refused(&keys).line, 2001);
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(100_000);
        assert!(refused(&deep).text.contains("deeper"));
    }
}
