//! The screen as an SVG picture for the README: `tests/golden/ndr8.top.svg`, checked by a test.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// A terminal's characters as SVG text; neighbouring cells with the same style are one element.
pub(super) fn svg(screen: &Buffer) -> String {
    let (width, height) = (u32::from(screen.area.width), u32::from(screen.area.height));
    let (right, bottom) = (width * CELL + 2 * MARGIN, height * LINE + 2 * MARGIN);
    let mut page = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right} {bottom}\" width=\"{right}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"{SIZE}\">\n"
    );
    for y in 0..screen.area.height {
        let cells: Vec<&Cell> = (0..screen.area.width).map(|x| &screen[(x, y)]).collect();
        let mut x = 0;
        for piece in cells.chunk_by(|one, other| appearance(one) == appearance(other)) {
            draw(piece, x, u32::from(y), &mut page);
            x += piece.len() as u32;
        }
    }
    page.push_str("</g>\n</svg>\n");
    page
}

fn draw(piece: &[&Cell], x: u32, y: u32, page: &mut String) {
    let text: String = piece.iter().map(|cell| cell.symbol()).collect();
    let (text_colour, background, bold) = appearance(piece[0]);
    let (left, top, length) = (MARGIN + x * CELL, MARGIN + y * LINE, piece.len() as u32 * CELL);
    if background != BACKGROUND {
        let _ = writeln!(
            page,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{length}\" height=\"{LINE}\" fill=\"{background}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    // Viewers collapse ordinary spaces.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace(' ', "\u{a0}");
    let base = top + LINE - 4;
    let _ = writeln!(
        page,
        "<text x=\"{left}\" y=\"{base}\" textLength=\"{length}\" fill=\"{text_colour}\"{weight}>{text}</text>"
    );
}

/// Text colour, background colour, and whether it is bold.
fn appearance(cell: &Cell) -> (&'static str, &'static str, bool) {
    let (text_colour, background) = (colour(cell.fg, TEXT_COLOUR), colour(cell.bg, BACKGROUND));
    let bold = cell.modifier.contains(Modifier::BOLD);
    match cell.modifier.contains(Modifier::REVERSED) {
        true => (background, text_colour, bold),
        false => (text_colour, background, bold),
    }
}

fn colour(colour: Color, plain: &'static str) -> &'static str {
    match colour {
        Color::Red | Color::LightRed => "#f7768e",
        Color::Yellow | Color::LightYellow => "#e0af68",
        Color::Green | Color::LightGreen => "#9ece6a",
        Color::Blue | Color::LightBlue => "#7aa2f7",
        Color::Cyan | Color::LightCyan => "#7dcfff",
        Color::Magenta | Color::LightMagenta => "#bb9af7",
        Color::DarkGray | Color::Gray => "#8089a8",
        _ => plain,
    }
}

const TEXT_COLOUR: &str = "#c8d3f5";
const BACKGROUND: &str = "#1a1b26";
const SIZE: u32 = 13;
const CELL: u32 = 8;
const LINE: u32 = 17;
const MARGIN: u32 = 10;
