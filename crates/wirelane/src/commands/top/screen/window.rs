//! A window over the tables: the doctor's findings, or the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::app::Window;
use super::style::{Level, TerminalStyle};

/// Draws it in the middle, as small as possible.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, style: TerminalStyle, window: &Window) {
    let width = area.width.saturating_sub(4).min(MAX_WIDTH);
    let inside = usize::from(width.saturating_sub(2));
    let waiting = vec!["Running checks…".to_owned()];
    let lines = window.lines.as_ref().unwrap_or(&waiting);
    let text: Vec<Line<'_>> = lines
        .iter()
        .flat_map(|line| {
            let level = level(style, line);
            fold(line, inside).into_iter().map(move |part| styled(style, part, level))
        })
        .collect();
    let height = (text.len().min(MAX_LINES) as u16 + 2).min(area.height.saturating_sub(2));
    let last = (text.len().min(MAX_LINES) as u16 + 2).saturating_sub(height);
    let block = Block::bordered()
        .border_set(style.border())
        .title(format!(" {} ", window.title))
        .title_bottom(if last > 0 { " Esc: close, down: more " } else { " Esc: close " });
    let area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let text = Paragraph::new(text).scroll((window.scroll.min(last), 0));
    frame.render_widget(text.block(block), area);
}

fn level(style: TerminalStyle, line: &str) -> Level {
    match line {
        // Without colours the words alone are enough.
        _ if !style.colours => Level::Plain,
        line if line.starts_with("PROBLEM") || line.starts_with("! ") => Level::Bad,
        line if line.starts_with("WARNING") => Level::Notable,
        _ => Level::Plain,
    }
}

fn styled(style: TerminalStyle, line: String, level: Level) -> Line<'static> {
    let span: Span<'static> = style.span(line, level);
    Line::from(span)
}

/// Wraps a line between words; continuation lines are indented like the text of the line.
fn fold(line: &str, width: usize) -> Vec<String> {
    let indent = if line.starts_with("  ") { INDENT.min(width / 2) } else { 0 };
    let mut pieces = Vec::new();
    let mut rest = line.trim_end();
    let mut head = 0;
    while rest.chars().count() + head > width {
        let available = width.saturating_sub(head).max(1);
        let end = rest.char_indices().nth(available).map_or(rest.len(), |(at, _)| at);
        // A word longer than a line is split.
        let space = rest[..end].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
        let cut = if rest[end..].starts_with(' ') { end } else { space.unwrap_or(end) };
        pieces.push(format!("{}{}", " ".repeat(head), rest[..cut].trim_end()));
        rest = rest[cut..].trim_start();
        head = indent;
    }
    pieces.push(format!("{}{rest}", " ".repeat(head)));
    pieces
}

const MAX_WIDTH: u16 = 110;
/// The length of `  why:  `.
const INDENT: usize = 8;
const MAX_LINES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words_and_indented() {
        assert_eq!(fold("short", 10), ["short"]);
        assert_eq!(fold("one two three", 9), ["one two", "three"]);
        assert_eq!(fold("one two three", 7), ["one two", "three"]);
        assert_eq!(fold("  why:  because it is so", 20), ["  why:  because it", "        is so"]);
        assert_eq!(
            fold("  fix:  aaaaaaaaaaaaaaaaaaaaaaaaaa", 20),
            ["  fix:", "        aaaaaaaaaaaa", "        aaaaaaaaaaaa", "        aa"]
        );
        assert_eq!(fold("", 10), [""]);
        assert!(fold("ééééééé", 3).iter().all(|piece| piece.chars().count() <= 3));
    }
}
