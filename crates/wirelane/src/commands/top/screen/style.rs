//! Characters for bars and lines, and colours for faults.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;
use ratatui::text::Span;

use crate::commands::top::history::Ring;

/// What the terminal can display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TerminalStyle {
    pub(super) colours: bool,
    pub(super) unicode: bool,
}

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Plain,
    Notable,
    Bad,
}

impl TerminalStyle {
    /// From the environment: `NO_COLOR`, `TERM=dumb`, and the locale's character set.
    pub(super) fn from_environment() -> TerminalStyle {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        TerminalStyle {
            colours: set("NO_COLOR").is_none() && !dumb,
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Text with a severity. Without colours, `Bad` is marked with `!`.
    pub(super) fn span(self, text: impl Into<String>, level: Level) -> Span<'static> {
        let text = text.into();
        match (level, self.colours) {
            (Level::Plain, _) => Span::raw(text),
            (Level::Notable, true) => Span::styled(text, Style::new().fg(Color::Yellow)),
            (Level::Bad, true) => {
                Span::styled(text, Style::new().fg(Color::Red).add_modifier(Modifier::BOLD))
            }
            (Level::Notable, false) => Span::raw(text),
            (Level::Bad, false) => Span::raw(format!("!{text}")),
        }
    }

    /// The mark for a missing value.
    pub(super) fn none(self) -> &'static str {
        if self.unicode { "–" } else { "-" }
    }

    /// Text, truncated to this many characters.
    pub(super) fn truncate(self, text: &str, max: usize) -> String {
        if text.chars().count() <= max {
            return text.to_owned();
        }
        let end = if self.unicode { "…" } else { "~" };
        let mut kept: String = text.chars().take(max.saturating_sub(1)).collect();
        kept.push_str(end);
        kept
    }

    /// A share as a bar.
    pub(super) fn bar(self, share: Option<f64>, width: usize) -> String {
        let Some(share) = share.filter(|share| share.is_finite()) else { return " ".repeat(width) };
        let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
        let (rest, steps) = if self.unicode { ('·', PARTS) } else { ('.', PLAIN_PARTS) };
        let (full, part) = (eighths / 8, eighths % 8);
        let mut bar: String = std::iter::repeat_n(steps[8], full).collect();
        if part > 0 {
            bar.push(steps[part]);
        }
        let left = width - bar.chars().count();
        bar.extend(std::iter::repeat_n(rest, left));
        bar
    }

    /// A sparkline of the last values, the newest at the right, scaled to the highest.
    pub(super) fn sparkline(self, ring: Option<&Ring>, width: usize) -> String {
        let nothing = Ring::new();
        let ring = ring.unwrap_or(&nothing);
        let values: Vec<Option<f64>> =
            ring.iter().skip(ring.len().saturating_sub(width)).copied().collect();
        let max = values.iter().flatten().fold(0.0_f64, |max, one| max.max(*one));
        let steps = if self.unicode { STEPS } else { PLAIN_STEPS };
        let step = |measurement: &Option<f64>| match measurement {
            None => ' ',
            Some(_) if max <= 0.0 => steps[0],
            Some(measurement) => steps[(measurement / max * 7.0).round().clamp(0.0, 7.0) as usize],
        };
        let line: String = values.iter().map(step).collect();
        format!("{line:>width$}")
    }

    /// The mark of the sort order.
    pub(super) fn arrow(self, descending: bool) -> &'static str {
        match (self.unicode, descending) {
            (true, true) => "▼",
            (true, false) => "▲",
            (false, true) => "v",
            (false, false) => "^",
        }
    }

    /// The frame of a window.
    pub(super) fn border(self) -> border::Set<'static> {
        if self.unicode { border::PLAIN } else { PLAIN_BORDER }
    }
}

const PARTS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const PLAIN_PARTS: [char; 9] = ['.', '.', '.', '.', '#', '#', '#', '#', '#'];
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_STEPS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
const PLAIN_BORDER: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: TerminalStyle = TerminalStyle { colours: true, unicode: true };
    const PLAIN: TerminalStyle = TerminalStyle { colours: false, unicode: false };

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(FULL.bar(Some(0.5), 4), "██··");
        assert_eq!(FULL.bar(Some(0.3), 4), "█▎··");
        assert_eq!(FULL.bar(Some(7.0), 3), "███");
        assert_eq!(FULL.bar(None, 3), "   ");
        assert_eq!(PLAIN.bar(Some(0.5), 4), "##..");
        assert_eq!(PLAIN.bar(Some(f64::NAN), 2), "  ");
    }

    #[test]
    fn a_sparkline_has_the_newest_value_at_the_right_and_gaps() {
        let ring: Ring = [Some(0.0), None, Some(7.0), Some(3.5)].into();
        assert_eq!(FULL.sparkline(Some(&ring), 6), "  ▁ █▅");
        assert_eq!(FULL.sparkline(Some(&ring), 2), "█▅");
        assert_eq!(PLAIN.sparkline(None, 3), "   ");
    }

    #[test]
    fn a_fault_is_marked_without_colours() {
        assert_eq!(PLAIN.span("5", Level::Bad).content, "!5");
        assert_eq!(FULL.span("5", Level::Bad).style.fg, Some(Color::Red));
    }
}
