//! A line chart.

use super::{Caption, Markup, SERIES, Scale, WIDTH, at, mark, series_class, thinned};

/// A line chart.
#[derive(Debug)]
pub(in crate::page) struct Lines {
    pub(in crate::page) caption: Caption,
    pub(in crate::page) x: Axis,
    pub(in crate::page) y: Axis,
    /// The first six are drawn.
    pub(in crate::page) series: Vec<Series>,
    /// Lines of the baseline, behind the others.
    pub(in crate::page) baseline: Vec<Series>,
    pub(in crate::page) rules: Vec<Rule>,
}

/// An axis, and the format of its values.
#[derive(Debug)]
pub(in crate::page) struct Axis {
    pub(in crate::page) label: &'static str,
    pub(in crate::page) scale: Scale,
    pub(in crate::page) show: fn(f64) -> String,
}

/// A line.
#[derive(Debug)]
pub(in crate::page) struct Series {
    pub(in crate::page) name: String,
    pub(in crate::page) line: Vec<(f64, f64)>,
    pub(in crate::page) marks: Vec<Mark>,
}

/// A marked value with a tooltip.
#[derive(Debug)]
pub(in crate::page) struct Mark {
    pub(in crate::page) x: f64,
    pub(in crate::page) y: f64,
    pub(in crate::page) tooltip: String,
}

/// A level to compare with, across the whole plot.
#[derive(Debug)]
pub(in crate::page) struct Rule {
    pub(in crate::page) y: f64,
    pub(in crate::page) label: String,
}

impl Lines {
    pub(in crate::page) fn render(&self) -> Markup {
        let mut svg = self.caption.drawing(HEIGHT);
        self.grid(&mut svg);
        for rule in &self.rules {
            self.rule(&mut svg, rule);
        }
        for line in &self.baseline {
            self.line(&mut svg, "past", None, line);
        }
        for (number, series) in self.series.iter().take(SERIES).enumerate() {
            self.line(&mut svg, &series_class(number), Some(number), series);
        }
        svg.close("svg");
        let mut plot = self.legend();
        plot.append(svg);
        self.caption.around(plot)
    }

    fn grid(&self, svg: &mut Markup) {
        svg.open("g", &[("class", &"axis")]);
        for tick in self.y.scale.ticks() {
            let y = self.y(tick);
            let path = format!("M{LEFT} {}H{RIGHT}", at(y));
            svg.open("path", &[("d", &path)]).close("path");
            let below = at(y + 4.0);
            svg.open("text", &[("x", &(LEFT - 8.0)), ("y", &below), ("class", &"end")]);
            svg.text((self.y.show)(tick)).close("text");
        }
        let mut labelled_to = 0.0;
        for (number, tick) in self.x.scale.ticks().into_iter().enumerate() {
            let (place, label) = (self.x(tick), (self.x.show)(tick));
            let x = at(place);
            let path = format!("M{x} {BOTTOM}v5");
            svg.open("path", &[("class", &"tick"), ("d", &path)]).close("path");
            let half = label.chars().count() as f64 * LETTER_WIDTH / 2.0;
            // A label that would overlap the one before is left out.
            if place - half < labelled_to {
                continue;
            }
            labelled_to = place + half;
            // Every second label is hidden on a narrow screen.
            let class = if number % 2 == 1 { "mid spare" } else { "mid" };
            svg.open("text", &[("x", &x), ("y", &(BOTTOM + 24.0)), ("class", &class)]);
            svg.text(label).close("text");
        }
        svg.element("text", &[("x", &4), ("y", &16), ("class", &"name")], self.y.label);
        svg.open("text", &[("x", &RIGHT), ("y", &(HEIGHT - 6.0)), ("class", &"name end")]);
        svg.text(self.x.label).raw("</text></g>");
    }

    fn rule(&self, svg: &mut Markup, rule: &Rule) {
        let y = self.y(rule.y);
        let path = format!("M{LEFT} {}H{RIGHT}", at(y));
        svg.open("g", &[("class", &"rule")]).open("path", &[("d", &path)]).close("path");
        // Above the line, unless that is outside the plot.
        let beside = if y - TOP < 16.0 { y + 16.0 } else { y - 6.0 };
        svg.element("text", &[("x", &(LEFT + 6.0)), ("y", &at(beside))], &rule.label).close("g");
    }

    /// A line, with its marks if they have a shape.
    fn line(&self, svg: &mut Markup, class: &str, shape: Option<usize>, series: &Series) {
        svg.open("g", &[("class", &class)]);
        let points = series.line.iter().map(|(x, y)| (self.x(*x), self.y(*y)));
        svg.line(&thinned(points));
        let marks =
            shape.into_iter().flat_map(|shape| series.marks.iter().map(move |at| (shape, at)));
        for (shape, Mark { x, y, tooltip }) in marks {
            let path = mark(shape, self.x(*x), self.y(*y));
            svg.open("path", &[("class", &"mark"), ("d", &path)]);
            svg.element("title", &[], tooltip).close("path");
        }
        svg.close("g");
    }

    /// The legend; empty for a single line.
    fn legend(&self) -> Markup {
        let mut list = Markup::default();
        if self.series.len() + self.baseline.len() < 2 {
            return list;
        }
        list.raw("<ul class=\"legend\">");
        for (number, series) in self.series.iter().take(SERIES).enumerate() {
            list.raw("<li><svg viewBox=\"0 0 24 12\" aria-hidden=\"true\">");
            list.open("g", &[("class", &series_class(number))]);
            list.raw("<path class=\"line\" d=\"M0 6H24\"/>");
            list.open("path", &[("class", &"mark"), ("d", &mark(number, 12.0, 6.0))]).close("path");
            list.raw("</g></svg>").text(&series.name).raw("</li>");
        }
        if let Some(baseline) = self.baseline.first() {
            list.raw("<li><svg viewBox=\"0 0 24 12\" aria-hidden=\"true\"><g class=\"past\">");
            list.raw("<path class=\"line\" d=\"M0 6H24\"/></g></svg>")
                .text(&baseline.name)
                .raw("</li>");
        }
        list.raw("</ul>");
        list
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.scale.position(value) * (RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - self.y.scale.position(value) * (BOTTOM - TOP)
    }
}

impl Series {
    /// A line through all of its marks.
    pub(in crate::page) fn through(name: String, marks: Vec<Mark>) -> Series {
        Series { name, line: marks.iter().map(|mark| (mark.x, mark.y)).collect(), marks }
    }
}

/// The width of a letter of a label, with some space.
const LETTER_WIDTH: f64 = 8.5;
const HEIGHT: f64 = 336.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 32.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 276.0;
