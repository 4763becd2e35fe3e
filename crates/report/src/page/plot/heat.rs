//! A heat map: a table whose cells are painted by how far they are from the middle. It is a table, so that it can be read
//! aloud, copied and searched, and every cell carries its number.

use super::{Caption, Markup};

/// A heat map.
#[derive(Debug)]
pub(in crate::page) struct Heat<'a> {
    pub(in crate::page) caption: Caption,
    /// Of rows and of columns.
    pub(in crate::page) names: &'a [String],
    /// Row by row.
    pub(in crate::page) cells: Vec<Vec<Cell>>,
    /// What the worst and the best colour mean.
    pub(in crate::page) ends: [&'static str; 2],
}

/// A cell.
#[derive(Debug, Clone)]
pub(in crate::page) enum Cell {
    /// There is nothing to measure.
    Blank,
    /// It could not be measured.
    Failed(String),
    /// A result, what it says in full, and its part of what is usual: 1 is usual, more is better.
    Measurement { shown: String, told: String, part: f64 },
}

impl Heat<'_> {
    pub(in crate::page) fn render(&self) -> Markup {
        let mut table = Markup::default();
        table.raw("<div class=\"scroll\"><table class=\"heat\"><thead><tr><th>from \\ to</th>");
        for name in self.names {
            table.element("th", &[("scope", &"col")], name);
        }
        table.raw("</tr></thead><tbody>");
        for (name, row) in self.names.iter().zip(&self.cells) {
            table.raw("<tr>").element("th", &[("scope", &"row")], name);
            row.iter().for_each(|cell| cell.render(&mut table));
            table.raw("</tr>\n");
        }
        table.raw("</tbody></table></div>");
        self.key(&mut table);
        self.caption.around(table)
    }

    /// What the colours mean.
    fn key(&self, table: &mut Markup) {
        table.raw("<p class=\"key\">").text(self.ends[0]);
        for step in 0..=STEPS.len() {
            table.open("i", &[("class", &format!("h{step}"))]).close("i");
        }
        table.text(self.ends[1]).raw("</p>");
    }
}

impl Cell {
    fn render(&self, table: &mut Markup) {
        match self {
            Cell::Blank => table.raw("<td class=\"blank\"></td>"),
            Cell::Failed(why) => {
                table.element("td", &[("class", &"failed"), ("title", why)], "failed")
            }
            Cell::Measurement { shown, told, part } => {
                let class = format!("h{}", step(*part));
                table.element("td", &[("class", &class), ("title", told)], shown)
            }
        };
    }
}

/// Which colour: the middle one is usual.
fn step(part: f64) -> usize {
    STEPS.iter().filter(|step| part >= **step).count()
}

/// Where one colour ends and the next begins, in parts of what is usual.
const STEPS: [f64; 6] = [0.4, 0.7, 0.9, 1.1, 1.3, 1.6];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_has_the_middle_colour() {
        assert_eq!([0.0, 0.1, 0.5, 0.8, 1.0, 1.2, 1.4, 9.0].map(step), [0, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(step(f64::NAN), 0);
    }
}
