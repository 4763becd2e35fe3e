//! The doors to stdout and stderr: answers on the one, everything else on the other.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Writes an answer to stdout. A reader that closed the pipe has seen enough: not a failure.
pub(crate) fn answer(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("write to stdout: {error}")))
        }
        _ => Ok(()),
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
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// What takes time, for who waits at a terminal; files and scripts need not know.
pub(crate) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        note(text);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_without_trailing_spaces() {
        let rows = [["a".into(), "b".into()], ["long".into(), "".into()]];
        assert_eq!(columns(&rows), "a     b\nlong\n");
    }
}
