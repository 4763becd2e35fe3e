//! A heat map: a table whose cells are coloured by their ratio to the median. It is a table, so that screen readers can
//! read it and users can copy and search it; every cell has its number.

use super::{Caption, Markup};

/// A heat map.
#[derive(Debug)]
pub(in crate::page) struct Heat<'a> {
    pub(in crate::page) caption: Caption,
    /// Names of rows and columns.
    pub(in crate::page) names: &'a [String],
    /// Row by row.
    pub(in crate::page) cells: Vec<Vec<Cell>>,
    /// What the worst and the best colour mean.
    pub(in crate::page) ends: [&'static str; 2],
}

/// A cell.
#[derive(Debug, Clone)]
pub(in crate::page) enum Cell {
    /// Not measured.
    Blank,
    /// The measurement failed: the reason.
    Failed(String),
    /// A result, its tooltip, and its ratio to the median: more is better.
    Measurement { text: String, tooltip: String, ratio: f64 },
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
            Cell::Measurement { text, tooltip, ratio } => {
                let class = format!("h{}", step(*ratio));
                table.element("td", &[("class", &class), ("title", tooltip)], text)
            }
        };
    }
}

/// The index of the colour: the middle one is the median.
fn step(ratio: f64) -> usize {
    STEPS.iter().filter(|step| ratio >= **step).count()
}

/// Limits between colours, as ratios to the median.
const STEPS: [f64; 6] = [0.4, 0.7, 0.9, 1.1, 1.3, 1.6];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_has_the_middle_colour() {
        assert_eq!([0.0, 0.1, 0.5, 0.8, 1.0, 1.2, 1.4, 9.0].map(step), [0, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(step(f64::NAN), 0);
    }
}
