//! Plots as SVG within the page. Colours, fonts and what is left out on a narrow screen are the style sheet's.

mod bars;
mod heat;
mod lines;
mod scale;

pub(super) use bars::{Bar, Bars, Tone};
pub(super) use heat::{Cell, Heat};
pub(super) use lines::{Axis, Lines, Mark, Rule, Series};
pub(super) use scale::Scale;

use super::markup::Markup;

/// What a plot is called, and what it shows in a sentence: for readers and for screen readers.
#[derive(Debug)]
pub(super) struct Caption {
    /// Our own word for the kind of plot, for tests and style sheets.
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

    /// Begins a drawing of this height; all are equally wide.
    fn drawing(&self, height: f64) -> Markup {
        let mut svg = Markup::default();
        let label = format!("{}. {}", self.title, self.about);
        let view = format!("0 0 {WIDTH} {height:.0}");
        svg.open("svg", &[("viewBox", &view), ("role", &"img"), ("aria-label", &label)]);
        svg
    }
}

/// At most so many of them, the first and the last among them.
pub(super) fn evenly<T>(all: &[T], most: usize) -> Vec<&T> {
    if all.len() <= most {
        return all.iter().collect();
    }
    (0..most).map(|number| &all[number * (all.len() - 1) / (most - 1)]).collect()
}

/// A coordinate. Tenths are finer than a screen shows.
fn at(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The class of the nth series: its colour, and the shape of its marks.
fn series_class(series: usize) -> String {
    format!("s{}", series % SERIES)
}

/// A mark of the nth series: shapes tell series apart where colours do not.
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

/// Units of a drawing from left to right.
const WIDTH: f64 = 600.0;
/// More would not be told apart.
pub(super) const SERIES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_always_drawn() {
        let all: Vec<u32> = (0..24).collect();
        assert_eq!(evenly(&all, 6), [&0, &4, &9, &13, &18, &23]);
        assert_eq!(evenly(&all[..2], 6), [&0, &1]);
    }
}
