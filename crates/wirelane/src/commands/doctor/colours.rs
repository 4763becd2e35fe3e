//! Colours, on terminals only.

use std::io::IsTerminal;

use doctor::Severity;

use crate::output::wants_colours;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Colours {
    enabled: bool,
}

impl Colours {
    /// For stdout: if it is a terminal, and not disabled by `NO_COLOR` or `TERM=dumb`.
    pub(crate) fn for_stdout() -> Self {
        Colours { enabled: std::io::stdout().is_terminal() && wants_colours() }
    }

    /// The label of a finding.
    pub(crate) fn mark(self, severity: Severity) -> String {
        let (word, colour) = match severity {
            Severity::Problem => ("PROBLEM", RED),
            Severity::Warning => ("WARNING", YELLOW),
            Severity::Note => ("note", BLUE),
            Severity::Unknown => ("unknown", GREY),
            Severity::Ok => ("ok", GREEN),
        };
        format!("{}{}", self.coloured(word, colour), " ".repeat(8 - word.len()))
    }

    pub(crate) fn good(self, word: &str) -> String {
        self.coloured(word, GREEN)
    }

    pub(crate) fn bad(self, word: &str) -> String {
        self.coloured(word, RED)
    }

    pub(crate) fn strong(self, word: &str) -> String {
        self.coloured(word, BOLD)
    }

    pub(crate) fn faint(self, word: &str) -> String {
        self.coloured(word, GREY)
    }

    fn coloured(self, word: &str, colour: &str) -> String {
        if self.enabled { format!("\u{1b}[{colour}m{word}\u{1b}[0m") } else { word.to_owned() }
    }
}

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const GREEN: &str = "32";
const BLUE: &str = "34";
const GREY: &str = "2";
const BOLD: &str = "1";
