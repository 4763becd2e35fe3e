//! A window over the tables: the doctor's words, or the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::app::Window;
use super::style::{Level, Look};

/// Draws it in the middle, no larger than it needs to be.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, look: Look, window: &Window) {
    let width = area.width.saturating_sub(4).min(WIDEST);
    let inside = usize::from(width.saturating_sub(2));
    let waiting = vec!["Running checks…".to_owned()];
    let lines = window.lines.as_ref().unwrap_or(&waiting);
    let text: Vec<Line<'_>> = lines
        .iter()
        .flat_map(|line| {
            let level = level(look, line);
            fold(line, inside).into_iter().map(move |part| told(look, part, level))
        })
        .collect();
    let height = (text.len().min(MAX_LINES) as u16 + 2).min(area.height.saturating_sub(2));
    let last = (text.len().min(MAX_LINES) as u16 + 2).saturating_sub(height);
    let block = Block::bordered()
        .border_set(look.border())
        .title(format!(" {} ", window.title))
        .title_bottom(if last > 0 { " Esc closes, down: more " } else { " Esc closes " });
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

fn level(look: Look, line: &str) -> Level {
    match line {
        // Without colours these words are seen by themselves.
        _ if !look.colours => Level::Plain,
        line if line.starts_with("PROBLEM") || line.starts_with("! ") => Level::Bad,
        line if line.starts_with("WARNING") => Level::Notable,
        _ => Level::Plain,
    }
}

fn told(look: Look, line: String, level: Level) -> Line<'static> {
    let span: Span<'static> = look.told(line, level);
    Line::from(span)
}

/// A line in pieces that fit, broken between words; those after the first begin as far in as the line's own words.
fn fold(line: &str, width: usize) -> Vec<String> {
    let indent = if line.starts_with("  ") { INDENT.min(width / 2) } else { 0 };
    let mut pieces = Vec::new();
    let mut rest = line.trim_end();
    let mut head = 0;
    while rest.chars().count() + head > width {
        let room = width.saturating_sub(head).max(1);
        let end = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
        // A word that is longer than a line is cut.
        let space = rest[..end].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
        let cut = if rest[end..].starts_with(' ') { end } else { space.unwrap_or(end) };
        pieces.push(format!("{}{}", " ".repeat(head), rest[..cut].trim_end()));
        rest = rest[cut..].trim_start();
        head = indent;
    }
    pieces.push(format!("{}{rest}", " ".repeat(head)));
    pieces
}

const WIDEST: u16 = 110;
/// As deep as `  why:  ` is long.
const INDENT: usize = 8;
const MAX_LINES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_go_on_further_in() {
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
