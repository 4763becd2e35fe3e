//! A bar chart: each bar has its name above and its value to the right.

use super::{Caption, Markup, WIDTH, at, series_class};

/// A bar chart. Bars start at the left, at the right if all are negative, or in the middle.
#[derive(Debug)]
pub(in crate::page) struct Bars {
    pub(in crate::page) caption: Caption,
    pub(in crate::page) bars: Vec<Bar>,
    /// A level to compare with, and its label.
    pub(in crate::page) rule: Option<(f64, String)>,
}

/// One bar.
#[derive(Debug)]
pub(in crate::page) struct Bar {
    pub(in crate::page) name: String,
    pub(in crate::page) value: f64,
    pub(in crate::page) value_text: String,
    pub(in crate::page) tone: Tone,
}

/// The colour of a bar. The text has the same meaning.
#[derive(Debug, Clone, Copy)]
pub(in crate::page) enum Tone {
    /// The colour of the nth series.
    Series(usize),
    Good,
    Bad,
    Quiet,
}

impl Bars {
    pub(in crate::page) fn render(&self) -> Markup {
        let foot = if self.rule.is_some() { 24.0 } else { 4.0 };
        let below = self.bars.len() as f64 * ROW_HEIGHT;
        let mut svg = self.caption.drawing(below + foot);
        for (number, bar) in self.bars.iter().enumerate() {
            self.bar(&mut svg, bar, number as f64 * ROW_HEIGHT);
        }
        if let Some((level, label)) = &self.rule {
            let x = self.zero() + self.length(*level);
            let path = format!("M{} 4V{}", at(x), at(below + 4.0));
            svg.open("g", &[("class", &"rule")]).open("path", &[("d", &path)]).close("path");
            let place = [("x", at(x)), ("y", at(below + 20.0))];
            let (x, y) = (&place[0].1, &place[1].1);
            svg.element("text", &[("x", x), ("y", y), ("class", &"end")], label).close("g");
        }
        svg.close("svg");
        self.caption.around(svg)
    }

    fn bar(&self, svg: &mut Markup, bar: &Bar, top: f64) {
        let length = self.length(bar.value);
        let (from, width) = (self.zero() + length.min(0.0), length.abs().max(2.0));
        svg.open("g", &[("class", &bar.tone.class())]);
        svg.element("text", &[("x", &0), ("y", &at(top + 18.0)), ("class", &"label")], &bar.name);
        let (x, y) = (at(from), at(top + 26.0));
        svg.open(
            "rect",
            &[
                ("class", &"bar"),
                ("x", &x),
                ("y", &y),
                ("width", &at(width)),
                ("height", &20),
                ("rx", &3),
            ],
        );
        svg.element("title", &[], format!("{}: {}", bar.name, bar.value_text)).close("rect");
        let beside = at(self.zero() + length.max(0.0) + 8.0);
        svg.element("text", &[("x", &beside), ("y", &at(top + 41.0))], &bar.value_text).close("g");
    }

    /// The x coordinate of zero.
    fn zero(&self) -> f64 {
        match (self.has(|value| value < 0.0), self.has(|value| value > 0.0)) {
            (true, true) => (WIDTH - VALUE_WIDTH) / 2.0,
            (true, false) => WIDTH - VALUE_WIDTH,
            _ => 0.0,
        }
    }

    fn has(&self, is: fn(f64) -> bool) -> bool {
        self.bars.iter().any(|bar| is(bar.value))
    }

    /// The length of a bar; negative: to the left.
    fn length(&self, value: f64) -> f64 {
        let level = self.rule.as_ref().map(|(level, _)| *level);
        let all = self.bars.iter().map(|bar| bar.value).chain(level);
        let longest =
            all.filter(|value| value.is_finite()).fold(0.0, |max, value: f64| value.abs().max(max));
        let available = if self.zero() > 0.0 { self.zero() } else { WIDTH - VALUE_WIDTH };
        if longest > 0.0 && value.is_finite() { value / longest * available } else { 0.0 }
    }
}

impl Tone {
    fn class(self) -> String {
        match self {
            Tone::Series(number) => series_class(number),
            Tone::Good => "good".to_owned(),
            Tone::Bad => "bad".to_owned(),
            Tone::Quiet => "quiet".to_owned(),
        }
    }
}

const ROW_HEIGHT: f64 = 60.0;
/// Space for the value of the longest bar.
const VALUE_WIDTH: f64 = 190.0;
