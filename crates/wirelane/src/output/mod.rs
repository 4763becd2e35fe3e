//! The way to stdout and stderr: answers on the one, everything else on the other.

pub(crate) mod exit;
pub(crate) mod write_queue;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

pub(crate) use exit::{Exit, Failure};

/// Writes an answer to stdout. A reader that closed the pipe has seen enough: not a failure.
pub(crate) fn answer(text: &str) -> Result<(), Failure> {
    bytes(tame(text).as_bytes()).map(drop)
}

/// Writes bytes to stdout, whatever they are. `false`: the reader has closed the pipe, and wants no more.
pub(crate) fn bytes(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("write to stdout: {error}"))),
    }
}

/// Writes an answer as JSON, one document, ended by a newline.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("render JSON: {error}")))?;
    answer(&format!("{text}\n"))
}

/// A line for the person at the terminal.
pub(crate) fn note(text: &str) {
    // Nobody left to tell when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{}", tame(text.trim_end()));
}

/// Text without what would command a terminal, but for colours: names and lines of a machine may come from a snapshot that
/// somebody sent, or from a device that tells what it likes.
fn tame(text: &str) -> Cow<'_, str> {
    let wild = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(wild) {
        return Cow::Borrowed(text);
    }
    let mut tamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(wild) {
        tamed.push_str(&rest[..at]);
        let colour = colour(&rest[at..]);
        tamed.push_str(colour);
        let letter = rest[at..].chars().next().map_or(0, char::len_utf8);
        rest = &rest[at + colour.len().max(letter)..];
    }
    tamed.push_str(rest);
    Cow::Owned(tamed)
}

/// The sequence that sets a colour, if the text begins with one.
fn colour(text: &str) -> &str {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return "" };
    let end = parameters.find(|letter: char| !matches!(letter, '0'..='9' | ';'));
    match end.filter(|end| parameters[*end..].starts_with('m')) {
        Some(end) => &text[.."\x1b[".len() + end + 1],
        None => "",
    }
}

/// What takes time, for who waits at a terminal; files and scripts need not know.
pub(crate) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// How much of many bytes has moved, for who waits at a terminal; what is over soon needs none.
pub(crate) fn bar(length: u64, what: &'static str) -> ProgressBar {
    if length < LONG || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{msg} {bar:32} {bytes} of {total_bytes}, {bytes_per_sec}");
    let bar = ProgressBar::new(length).with_message(what);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// How many of many things are done, for who waits at a terminal.
pub(crate) fn steps(total: u64, what: &'static str) -> Option<ProgressBar> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{msg} {bar:32} {percent} %").ok()?;
    Some(ProgressBar::new(total).with_message(what).with_style(style))
}

/// Why the program ends without having done its work.
pub(crate) fn error(reason: &impl Display) {
    note(&format!("wirelane: {reason}"));
}

/// Something odd that does not stop the work.
pub(crate) fn warning(text: &impl Display) {
    note(&format!("wirelane: warning: {text}"));
}

/// Text as columns: each as wide as its widest cell, two spaces between.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Less has moved before a bar is drawn.
const LONG: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_colours_and_nothing_else() {
        assert!(matches!(tame("plain\tand\nfine"), Cow::Borrowed(_)));
        assert_eq!(tame("a\x1b[1;31mred\x1b[0m"), "a\x1b[1;31mred\x1b[0m");
        assert_eq!(tame("\x1b]0;title\x07 \x1b[2J\x1b[\u{9b}31mé\r\x1b"), "]0;title [2J[31mé");
    }

    #[test]
    fn columns_align_without_trailing_spaces() {
        let rows = [["a".into(), "b".into()], ["long".into(), "".into()]];
        assert_eq!(columns(&rows), "a     b\nlong\n");
    }
}
