//! Bars, one below the other, each with its name above it and its value beside it.

use super::{Caption, Markup, WIDTH, at, series_class};

/// A plot of bars. They grow from the left, from the right if all are below zero, or from the middle.
#[derive(Debug)]
pub(in crate::page) struct Bars {
    pub(in crate::page) caption: Caption,
    pub(in crate::page) bars: Vec<Bar>,
    /// A level to compare with, and what it is.
    pub(in crate::page) rule: Option<(f64, String)>,
}

/// One of them.
#[derive(Debug)]
pub(in crate::page) struct Bar {
    pub(in crate::page) name: String,
    pub(in crate::page) value: f64,
    pub(in crate::page) told: String,
    pub(in crate::page) tone: Tone,
}

/// How a bar is painted. Words say the same.
#[derive(Debug, Clone, Copy)]
pub(in crate::page) enum Tone {
    /// As the nth of several things.
    Series(usize),
    Good,
    Bad,
    Quiet,
}

impl Bars {
    pub(in crate::page) fn render(&self) -> Markup {
        let foot = if self.rule.is_some() { 24.0 } else { 4.0 };
        let below = self.bars.len() as f64 * ROW;
        let mut svg = self.caption.drawing(below + foot);
        for (number, bar) in self.bars.iter().enumerate() {
            self.bar(&mut svg, bar, number as f64 * ROW);
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
        svg.element("title", &[], format!("{}: {}", bar.name, bar.told)).close("rect");
        let beside = at(self.zero() + length.max(0.0) + 8.0);
        svg.element("text", &[("x", &beside), ("y", &at(top + 41.0))], &bar.told).close("g");
    }

    /// Where bars begin.
    fn zero(&self) -> f64 {
        match (self.has(|value| value < 0.0), self.has(|value| value > 0.0)) {
            (true, true) => (WIDTH - ROOM) / 2.0,
            (true, false) => WIDTH - ROOM,
            _ => 0.0,
        }
    }

    fn has(&self, is: fn(f64) -> bool) -> bool {
        self.bars.iter().any(|bar| is(bar.value))
    }

    /// How far a bar goes, to the left if it is negative.
    fn length(&self, value: f64) -> f64 {
        let level = self.rule.as_ref().map(|(level, _)| *level);
        let all = self.bars.iter().map(|bar| bar.value).chain(level);
        let longest = all
            .filter(|value| value.is_finite())
            .fold(0.0, |most, value: f64| value.abs().max(most));
        let room = if self.zero() > 0.0 { self.zero() } else { WIDTH - ROOM };
        if longest > 0.0 && value.is_finite() { value / longest * room } else { 0.0 }
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

const ROW: f64 = 60.0;
/// Beside the longest bar, for its value.
const ROOM: f64 = 190.0;
