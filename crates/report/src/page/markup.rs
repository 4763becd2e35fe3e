//! HTML and SVG that text cannot break out of.
//!
//! Names of elements and attributes are constants (`&'static str`); everything else is escaped. So text of a document
//! is displayed, and never becomes markup.

use std::fmt::{self, Display, Write};

/// A piece of a page.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

/// Names and values of an element's attributes.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

impl Markup {
    /// Appends constant markup, unescaped.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Opens an element.
    pub(super) fn open(&mut self, name: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            self.0.push(' ');
            self.0.push_str(attribute);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    /// Closes an element.
    pub(super) fn close(&mut self, name: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    /// Appends text, escaped, and truncated if it is too long.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        self.text_of(MAX_TEXT_CHARS, text)
    }

    /// Appends a command, escaped. Its limit is higher: a truncated command does something else.
    pub(super) fn command(&mut self, command: impl Display) -> &mut Self {
        self.text_of(MAX_COMMAND_CHARS, command)
    }

    /// Appends a line through these points. It consists of numbers, so it is neither escaped nor truncated: a truncated path is
    /// another line.
    pub(super) fn line(&mut self, points: &[(f64, f64)]) -> &mut Self {
        self.0.push_str("<path class=\"line\" d=\"");
        for (number, (x, y)) in points.iter().enumerate() {
            self.0.push(if number == 0 { 'M' } else { 'L' });
            self.0.push_str(&format!("{} {}", at(*x), at(*y)));
        }
        self.0.push_str("\"></path>");
        self
    }

    fn text_of(&mut self, max_chars: usize, text: impl Display) -> &mut Self {
        // Writing to a string cannot fail; truncated text ends with an ellipsis.
        let _ = write!(Escaped { into: &mut self.0, left: max_chars }, "{text}");
        self
    }

    /// Appends an element that contains only text.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        text: impl Display,
    ) -> &mut Self {
        self.open(name, attributes).text(text).close(name)
    }

    /// Appends another piece.
    pub(super) fn append(&mut self, piece: Markup) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    /// Whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The HTML text.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// A coordinate, in tenths.
pub(super) fn at(coordinate: f64) -> String {
    let text = format!("{coordinate:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Escapes text written to it.
struct Escaped<'a> {
    into: &'a mut String,
    left: usize,
}

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.left == 0 {
                self.into.push('…');
                return Err(fmt::Error);
            }
            self.left -= 1;
            match letter {
                '<' => self.into.push_str("&lt;"),
                '>' => self.into.push_str("&gt;"),
                '&' => self.into.push_str("&amp;"),
                '"' => self.into.push_str("&quot;"),
                '\'' => self.into.push_str("&#39;"),
                '\n' | '\t' => self.into.push(' '),
                // Control characters are useless in HTML; some change the direction of the text.
                _ if letter.is_control() || is_direction(letter) => self.into.push('\u{fffd}'),
                _ => self.into.push(letter),
            }
        }
        Ok(())
    }
}

fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const MAX_TEXT_CHARS: usize = 1000;
/// Enough for the names of a thousand hosts.
const MAX_COMMAND_CHARS: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut markup = Markup::default();
        let hostile = "\"><script>alert('1')</script>&\u{202e}\0\n";
        markup.element("p", &[("title", &hostile)], hostile);
        let text = markup.into_string();
        assert_eq!(text.matches('<').count(), 2, "{text}");
        assert_eq!(text.matches('"').count(), 2, "{text}");
        assert!(text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;"), "{text}");
        assert!(!text.contains(['\0', '\n', '\u{202e}']), "{text}");
    }

    #[test]
    fn long_text_is_truncated() {
        let mut markup = Markup::default();
        markup.text("é".repeat(1_000_000));
        let text = markup.into_string();
        assert_eq!(text.chars().count(), MAX_TEXT_CHARS + 1);
        assert!(text.ends_with('…'));
    }
}
