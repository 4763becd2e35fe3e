//! Output: results on stdout, everything else on stderr.

pub(crate) mod closed;
pub(crate) mod exit;
pub(crate) mod file;
pub(crate) mod wrap;
pub(crate) mod write_queue;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use doctor::changes_direction;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

pub(crate) use exit::{Exit, Failure};

/// Writes a result to stdout. A closed pipe is not an error.
pub(crate) fn answer(text: &str) -> Result<(), Failure> {
    part(text).map(drop)
}

/// Writes a result for people to stdout: lines that do not fit the terminal are wrapped.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    answer(&wrap::fit(text))
}

/// Writes a result with colours to stdout: the program's own, or those of a job. Names from outside must be on one line, without
/// control characters.
pub(crate) fn coloured(text: &str) -> Result<(), Failure> {
    bytes(sanitize(text, Colour::Kept).as_bytes()).map(drop)
}

/// Writes a part of a result to stdout; `false` if the reader has closed the pipe.
pub(crate) fn part(text: &str) -> Result<bool, Failure> {
    bytes(sanitize(text, Colour::Removed).as_bytes())
}

/// Writes bytes to stdout unchanged; `false` if the reader has closed the pipe.
pub(crate) fn bytes(bytes: &[u8]) -> Result<bool, Failure> {
    to_stdout(|| io::stdout().write_all(bytes))
}

/// Runs a function that writes to stdout, and flushes; `false` if the reader has closed the pipe.
pub(crate) fn to_stdout(write: impl FnOnce() -> io::Result<()>) -> Result<bool, Failure> {
    stdout()?;
    match write().and_then(|()| io::stdout().flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("write to stdout: {error}"))),
    }
}

/// Stdout, if the program was started with one.
pub(crate) fn stdout() -> Result<io::Stdout, Failure> {
    if closed::stdout() {
        let text = "write to stdout: it is closed — redirect it to a file, or to /dev/null";
        return Err(Failure::failed(text.to_owned()));
    }
    Ok(io::stdout())
}

/// Stdin, if the program was started with one: else it would be read as empty.
pub(crate) fn stdin() -> Result<io::Stdin, Failure> {
    if closed::stdin() {
        let text = "read stdin: it is closed — redirect it from a file, or from /dev/null";
        return Err(Failure::failed(text.to_owned()));
    }
    Ok(io::stdin())
}

/// Writes a result as one JSON document, followed by a newline.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| not_json(&error))?;
    json_text(&format!("{text}\n")).map(drop)
}

/// Writes a value as a line of JSON; `false` if the reader has closed the pipe.
pub(crate) fn json_line(value: &impl Serialize) -> Result<bool, Failure> {
    let text = serde_json::to_string(value).map_err(|error| not_json(&error))?;
    json_text(&format!("{text}\n"))
}

/// Writes JSON; `false` if the reader has closed the pipe. What a terminal may interpret is escaped, with the same meaning: the
/// format itself requires this below U+0020 only.
pub(crate) fn json_text(json: &str) -> Result<bool, Failure> {
    bytes(escape(json).as_bytes())
}

fn not_json(error: &serde_json::Error) -> Failure {
    Failure::failed(format!("render JSON: {error}"))
}

/// Prints help to stdout, or an error about the arguments to stderr. The error repeats what was typed.
pub(crate) fn usage(error: &clap::Error) -> Result<Exit, Failure> {
    let text = error.render();
    let typed = || std::env::args_os().any(|word| word.to_string_lossy().contains(is_unsafe));
    let is_terminal = match error.use_stderr() {
        true => io::stderr().is_terminal(),
        false => io::stdout().is_terminal(),
    };
    // Colours that were typed cannot be told from those of the error.
    let (text, colour) = match is_terminal && wants_colours() && !typed() {
        true => (text.ansi().to_string(), Colour::Kept),
        false => (text.to_string(), Colour::Removed),
    };
    if error.use_stderr() {
        write_note(&text, colour);
        return Ok(Exit::Usage);
    }
    bytes(sanitize(&text, colour).as_bytes()).map(|_| Exit::Done)
}

/// Whether colours are not disabled by `NO_COLOR` or `TERM=dumb`.
pub(crate) fn wants_colours() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes a line to stderr.
pub(crate) fn note(text: &str) {
    write_note(text, Colour::Removed);
}

/// Writes a line with colours to stderr: of a job.
pub(crate) fn coloured_note(text: &str) {
    write_note(text, Colour::Kept);
}

fn write_note(text: &str, colour: Colour) {
    // There is no other place to report that stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{}", sanitize(text.trim_end(), colour));
}

/// Whether colour sequences stay in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Kept,
    Removed,
}

/// Removes control characters and escape sequences, and escapes characters that change the direction of the text: keys, names
/// and log lines may come from an untrusted store, snapshot or device.
fn sanitize(text: &str, colours: Colour) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        safe.push_str(&rest[..at]);
        let colour = if colours == Colour::Kept { colour(&rest[at..]) } else { "" };
        safe.push_str(colour);
        let letter = rest[at..].chars().next().unwrap_or_default();
        if changes_direction(letter) {
            // As in JSON, where this is the same character.
            safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
        }
        rest = &rest[at + colour.len().max(letter.len_utf8())..];
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

/// Escapes the same characters in JSON. There they are within strings only.
fn escape(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match is_unsafe(letter) {
            true => safe.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => safe.push(letter),
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t') || changes_direction(letter)
}

/// The colour sequence at the start of the text, or nothing.
fn colour(text: &str) -> &str {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return "" };
    let end = parameters.find(|letter: char| !matches!(letter, '0'..='9' | ';'));
    match end.filter(|end| parameters[*end..].starts_with('m')) {
        Some(end) => &text[.."\x1b[".len() + end + 1],
        None => "",
    }
}

/// Writes a progress message, on terminals only.
pub(crate) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// A progress bar of transferred bytes, on terminals and for long transfers only.
pub(crate) fn bar(length: u64, what: &'static str) -> ProgressBar {
    if length < MIN_BAR_BYTES || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{msg} {bar:32} {bytes} of {total_bytes}, {bytes_per_sec}");
    let bar = ProgressBar::new(length).with_message(what);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// A progress bar of steps, on terminals only.
pub(crate) fn steps(total: u64, what: &'static str) -> Option<ProgressBar> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{msg} {bar:32} {percent} %").ok()?;
    Some(ProgressBar::new(total).with_message(what).with_style(style))
}

/// Writes an error.
pub(crate) fn error(reason: &impl Display) {
    note(&format!("wirelane: {reason}"));
}

/// Writes a warning.
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

/// Shorter transfers have no bar.
const MIN_BAR_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colour_sequences_are_kept_and_only_if_asked() {
        let kept = |text| sanitize(text, Colour::Kept).into_owned();
        assert!(matches!(sanitize("plain\tand\nfine", Colour::Kept), Cow::Borrowed(_)));
        assert_eq!(kept("a\x1b[1;31mred\x1b[0m"), "a\x1b[1;31mred\x1b[0m");
        assert_eq!(kept("\x1b]0;title\x07 \x1b[2J\x1b[\u{9b}31mé\r\x1b"), "]0;title [2J[31mé");
        assert_eq!(sanitize("a\x1b[8mhidden", Colour::Removed), "a[8mhidden");
    }

    #[test]
    fn characters_that_change_the_direction_are_escaped() {
        let text = sanitize("a\u{202e}b\u{2066}\u{61c}é", Colour::Removed);
        assert_eq!(text, "a\\u202eb\\u2066\\u061cé");
    }

    #[test]
    fn json_keeps_its_meaning_without_characters_that_a_terminal_interprets() {
        let value = "a\u{202e}b\\\u{9b}31m\u{7f}\x1b\n\té";
        let json = serde_json::json!(value).to_string();
        let escaped = escape(&json);
        assert!(!escaped.contains(is_unsafe), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), value);
        assert!(matches!(escape("{\n\"a\": 1\n}"), Cow::Borrowed(_)));
    }

    #[test]
    fn columns_align_without_trailing_spaces() {
        let rows = [["a".into(), "b".into()], ["long".into(), "".into()]];
        assert_eq!(columns(&rows), "a     b\nlong\n");
    }
}
