//! Text that fits the terminal: lines are broken between words and cells, never within.

use std::io::IsTerminal;

/// The width of the output, if known: `COLUMNS`, or that of the terminal. A file or pipe has none.
pub(crate) fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let terminal = || {
        let size = std::io::stdout().is_terminal().then(crossterm::terminal::size)?;
        size.ok().map(|(columns, _)| usize::from(columns))
    };
    set.or_else(terminal).filter(|columns| *columns > 0).map(|columns| columns.max(MIN_WIDTH))
}

/// Wraps text: the first line starts with `head`, the others are indented by its width.
pub(crate) fn paragraph(head: &str, text: &str) -> String {
    let indent = " ".repeat(visible(head));
    wrap(head, &indent, text, columns().map_or(TEXT_WIDTH, |columns| columns.min(TEXT_WIDTH)))
}

/// A line that is wrapped like a paragraph where the width is known, and left whole in files and pipes.
pub(crate) fn line(head: &str, text: &str) -> String {
    match columns() {
        Some(width) => wrap(head, &" ".repeat(visible(head)), text, width),
        None => format!("{}\n", format!("{head}{text}").trim_end()),
    }
}

/// Rows of cells in columns, each as wide as its widest cell, without empty columns. A row that does not fit `width`
/// continues on indented lines.
pub(crate) fn table(rows: &[Vec<String>], width: Option<usize>) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| visible(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(widest).collect();
    rows.iter().map(|row| table_row(row, &widths, width.unwrap_or(usize::MAX))).collect()
}

fn table_row(row: &[String], widths: &[usize], width: usize) -> String {
    let mut text = String::new();
    let mut line = String::new();
    // The gap is written before the next cell: a line does not end with it.
    let mut gap = 0;
    for (cell, column) in row.iter().zip(widths).filter(|(_, column)| **column > 0) {
        if cell.is_empty() {
            gap += column + GAP;
            continue;
        }
        if visible(&line) + gap + visible(cell) > width && !line.trim().is_empty() {
            text.push_str(line.trim_end());
            text.push('\n');
            line = CONTINUED.to_owned();
            gap = 0;
        }
        line.push_str(&" ".repeat(gap));
        let wrapped = wrap(&line, CONTINUED, cell, width);
        match wrapped.trim_end().rsplit_once('\n') {
            Some((lines, last)) => {
                text.push_str(lines);
                text.push('\n');
                last.clone_into(&mut line);
            }
            None => wrapped.trim_end().clone_into(&mut line),
        }
        gap = column.saturating_sub(visible(cell)) + GAP;
    }
    text.push_str(line.trim_end());
    text.push('\n');
    text
}

/// Breaks text between words so that lines have at most `width` characters, unless a word alone is longer.
fn wrap(head: &str, indent: &str, text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    let mut line = head.to_owned();
    let mut is_empty = true;
    for word in text.split([' ', '\n']) {
        if !is_empty && visible(&line) + 1 + visible(word) > width {
            wrapped.push_str(line.trim_end());
            wrapped.push('\n');
            indent.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = is_empty && word.is_empty();
    }
    wrapped.push_str(line.trim_end());
    wrapped.push('\n');
    wrapped
}

/// The number of characters on the screen, without colours.
fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut rest = text;
    while let Some((before, colour)) = rest.split_once("\u{1b}[") {
        count += before.chars().count();
        rest = colour.split_once('m').map_or("", |(_, rest)| rest);
    }
    count + rest.chars().count()
}

/// Of paragraphs in files, in pipes and on wider terminals: longer lines are hard to read.
const TEXT_WIDTH: usize = 100;
/// Narrower output is treated like this.
const MIN_WIDTH: usize = 20;
/// Spaces between columns.
const GAP: usize = 2;
/// The start of a row's further lines.
const CONTINUED: &str = "    ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_between_words() {
        let text = wrap("    why:  ", "          ", &"word ".repeat(40), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("          word")), "{text}");
        assert_eq!(paragraph("fix: ", ""), "fix:\n");
    }

    #[test]
    fn colours_have_no_width() {
        assert_eq!(visible("\u{1b}[1;31mPROBLEM\u{1b}[0m x"), 9);
        let text = wrap("", "", "\u{1b}[1mtwo words\u{1b}[0m", 9);
        assert_eq!(text, "\u{1b}[1mtwo words\u{1b}[0m\n");
    }

    #[test]
    fn a_row_that_does_not_fit_continues_below() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [row(["GPU 0", "", "504 Gb/s", "H100 SXM5 80GB"]), row(["mlx5_0", "", "", "x"])];
        assert_eq!(table(&rows, None), "GPU 0   504 Gb/s  H100 SXM5 80GB\nmlx5_0            x\n");
        assert_eq!(
            table(&rows, Some(20)),
            "GPU 0   504 Gb/s\n    H100 SXM5 80GB\nmlx5_0            x\n"
        );
        assert_eq!(
            table(&[row(["a", "", "", "a text of several words"])], Some(20)),
            "a\n    a text of\n    several words\n"
        );
    }
}
