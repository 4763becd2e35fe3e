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

/// Wraps the lines of a text that do not fit, where the width is known; their further lines are indented.
pub(crate) fn fit(text: &str) -> String {
    match columns() {
        Some(width) => fit_to(text, width),
        None => text.to_owned(),
    }
}

/// The same, but lines that are indented by four spaces or more stay as they are: commands and parts of files, which are copied.
pub(crate) fn fit_prose(text: &str) -> String {
    let line = |line: &str| match line.starts_with(CONTINUED) {
        true => format!("{line}\n"),
        false => fit(&format!("{line}\n")),
    };
    text.lines().map(line).collect()
}

fn fit_to(text: &str, width: usize) -> String {
    let fitted = |line: &str| {
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        wrap(indent, &format!("{indent}{CONTINUED}"), words, width)
    };
    text.lines().map(fitted).collect()
}

/// Numbers in columns of one width, right-aligned. A row that does not fit the width continues on further lines, at the same
/// column as the other rows.
pub(crate) fn cells<'c>(cells: impl Iterator<Item = &'c str>, cell_width: usize) -> String {
    cells_to(cells, cell_width, columns().unwrap_or(usize::MAX))
}

fn cells_to<'c>(cells: impl Iterator<Item = &'c str>, cell_width: usize, width: usize) -> String {
    let fitting = (width / cell_width).max(1);
    let mut text = String::new();
    for (number, cell) in cells.enumerate() {
        if number > 0 && number.is_multiple_of(fitting) {
            text.push('\n');
        }
        text.push_str(&" ".repeat(cell_width.saturating_sub(visible(cell))));
        text.push_str(cell);
    }
    text.push('\n');
    text
}

/// Rows of cells in columns, each as wide as its widest cell, without empty columns. A row that does not fit `width`
/// continues on indented lines.
pub(crate) fn table<R: AsRef<[String]>>(rows: &[R], width: Option<usize>) -> String {
    let rows = || rows.iter().map(AsRef::as_ref);
    let count = rows().map(<[String]>::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows().filter_map(|row| row.get(column)).map(|cell| visible(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(widest).collect();
    rows().map(|row| table_row(row, &widths, width.unwrap_or(usize::MAX))).collect()
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
    fn lines_that_do_not_fit_continue_indented() {
        let text = "short\n  a line  of several words\n\n";
        assert_eq!(fit_to(text, 20), "short\n  a line  of several\n      words\n\n");
        assert_eq!(fit_to(text, 80), text);
    }

    #[test]
    fn rows_of_numbers_continue_at_the_same_column() {
        let row = |cells: [&str; 3], width| cells_to(cells.into_iter(), 6, width);
        assert_eq!(row(["size", "p50 µs", "2"], usize::MAX), "  sizep50 µs     2\n");
        assert_eq!(row(["size", "p50 µs", "2"], 13), "  sizep50 µs\n     2\n");
        assert_eq!(row(["a", "b", "c"], 20), "     a     b     c\n");
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
