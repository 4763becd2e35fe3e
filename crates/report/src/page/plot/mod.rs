//! Plots as inline SVG. Colours, fonts and narrow screens are handled by the style sheet.

mod bars;
mod heat;
mod lines;
mod scale;

pub(super) use bars::{Bar, Bars, Tone};
pub(super) use heat::{Cell, Heat};
pub(super) use lines::{Axis, Lines, Mark, Rule, Series};
pub(super) use scale::Scale;

use super::markup::{Markup, at};

/// Title and one-sentence description of a plot, also for screen readers.
#[derive(Debug)]
pub(super) struct Caption {
    /// The kind of plot, for tests and style sheets.
    pub(super) plot: &'static str,
    pub(super) title: String,
    pub(super) about: String,
}

impl Caption {
    /// An HTML figure with the plot in it.
    fn around(&self, plot: Markup) -> Markup {
        let mut element = Markup::default();
        element.open("figure", &[("class", &"plot"), ("data-plot", &self.plot)]);
        element.raw("<figcaption>").element("h3", &[], &self.title);
        element.element("p", &[], &self.about).raw("</figcaption>").append(plot).raw("</figure>\n");
        element
    }

    /// Opens an SVG of this height; all have the same width.
    fn drawing(&self, height: f64) -> Markup {
        let mut svg = Markup::default();
        let label = format!("{}. {}", self.title, self.about);
        let view = format!("0 0 {WIDTH} {height:.0}");
        svg.open("svg", &[("viewBox", &view), ("role", &"img"), ("aria-label", &label)]);
        svg
    }
}

/// At most `max` items at even distances, including the first and the last.
pub(super) fn evenly<T>(all: &[T], max: usize) -> Vec<&T> {
    if all.len() <= max {
        return all.iter().collect();
    }
    (0..max).map(|number| &all[number * (all.len() - 1) / (max - 1)]).collect()
}

/// The points of a line without those within half a pixel of the one before, except the last; limited, since a document
/// may have any number of points.
fn thinned(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut last = None;
    for point in points {
        let is_near = |(x, y): &(f64, f64)| (x - point.0).abs() < 0.5 && (y - point.1).abs() < 0.5;
        last = kept.last().is_some_and(is_near).then_some(point);
        if last.is_none() {
            kept.push(point);
        }
    }
    kept.extend(last);
    evenly(&kept, MAX_LINE_POINTS).into_iter().copied().collect()
}

/// The CSS class of the nth series.
fn series_class(series: usize) -> String {
    format!("s{}", series % SERIES)
}

/// A mark of the nth series; shapes distinguish series without colours.
fn mark(series: usize, x: f64, y: f64) -> String {
    let (x, y) = (at(x), at(y));
    let shape = match series % 4 {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        1 => "m-3.6 -3.6h7.2v7.2h-7.2z",
        2 => "m0 -5l5 5l-5 5l-5 -5z",
        _ => "m0 -5l4.8 8.6h-9.6z",
    };
    format!("M{x} {y}{shape}")
}

/// Width of an SVG.
const WIDTH: f64 = 600.0;
/// Maximum number of series: more could not be distinguished.
pub(super) const SERIES: usize = 6;
const MAX_LINE_POINTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_always_drawn() {
        let all: Vec<u32> = (0..24).collect();
        assert_eq!(evenly(&all, 6), [&0, &4, &9, &13, &18, &23]);
        assert_eq!(evenly(&all[..2], 6), [&0, &1]);
    }

    #[test]
    fn a_line_keeps_its_ends_and_a_limited_number_of_points() {
        let thin = |points: &[(f64, f64)]| thinned(points.iter().copied());
        assert_eq!(thin(&[(80.0, 9.9), (80.1, 10.0), (90.0, 1.0)]), [(80.0, 9.9), (90.0, 1.0)]);
        assert_eq!(thin(&[(80.0, 10.0), (80.1, 10.2)]), [(80.0, 10.0), (80.1, 10.2)]);
        assert_eq!(thin(&[]), []);
        let zigzag: Vec<_> = (0..100_000).map(|n| (f64::from(n), f64::from(n % 2 * 9))).collect();
        let line = thin(&zigzag);
        assert_eq!(line.len(), MAX_LINE_POINTS);
        assert_eq!((line[0], line[MAX_LINE_POINTS - 1]), ((0.0, 0.0), (99_999.0, 9.0)));
    }
}
