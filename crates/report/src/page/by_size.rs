//! Bandwidth, message rate, latency and CPU time by size, or by path if there is only one size.

use super::group::{Group, groups, is_sweep};
use super::markup::Markup;
use super::measure::{BANDWIDTH, CPU, LATENCY, Measure, RATE};
use super::plot::{Axis, Bar, Bars, Caption, Lines, Mark, Rule, SERIES, Scale, Series, Tone};
use crate::number;
use crate::{Document, Point, RunKind, trend};

/// All plots that the document has results for. Lines of a baseline are drawn behind.
pub(super) fn plots(document: &Document, baseline: Option<&Document>) -> Markup {
    let mut plots = Markup::default();
    for measure in [&BANDWIDTH, &RATE, &LATENCY, &CPU] {
        let points = document.points.iter().filter(|point| measure.of(point).is_some());
        let plot =
            Plot { groups: groups(points), measure, expected: expected_gbps(document, measure) };
        plots.append(plot.render(document, baseline));
    }
    plots
}

/// The expected bandwidth, for the bandwidth plot.
fn expected_gbps(document: &Document, measure: &Measure) -> Option<f64> {
    let expected = document.verdict.as_ref()?.expected_gbps?;
    (measure.plot == BANDWIDTH.plot && expected.is_finite() && expected > 0.0).then_some(expected)
}

struct Plot<'a> {
    groups: Vec<Group<'a>>,
    measure: &'a Measure,
    expected: Option<f64>,
}

impl Plot<'_> {
    /// A line for each path if there are several sizes, else a bar for each path if there are several.
    fn render(&self, document: &Document, baseline: Option<&Document>) -> Markup {
        let is_rate = self.measure.plot == RATE.plot;
        match (is_sweep(&self.groups), self.groups.len()) {
            (true, _) => self.lines(baseline).render(),
            // The rate by path repeats the bandwidth by path.
            (false, 2..=MAX_BARS) if !is_rate || document.kind == RunKind::Rate => {
                self.bars().render()
            }
            _ => Markup::default(),
        }
    }

    fn lines(&self, baseline: Option<&Document>) -> Lines {
        let measure = self.measure;
        let series = |group: &Group<'_>| line(group.name.clone(), &group.points, measure);
        let series: Vec<Series> = match (&self.groups[..], measure.plot) {
            ([group], "latency") => quantiles(group),
            (groups, _) => groups.iter().map(series).collect(),
        };
        let baseline: Vec<Series> =
            baseline.into_iter().flat_map(|baseline| self.baseline(baseline)).collect();
        let places = || series.iter().chain(&baseline).flat_map(|series| &series.line);
        let scale = measure.scale(places().map(|(_, y)| *y).chain(self.expected));
        let rule = |gbps: f64| Rule { y: gbps, label: format!("expected {}", number::rate(gbps)) };
        Lines {
            caption: self.caption(),
            x: Axis {
                label: "size of one operation",
                scale: Scale::powers_of_two(places().map(|(x, _)| *x)),
                show: number::short_size,
            },
            y: Axis { label: measure.axis, scale, show: measure.tick },
            rules: self.expected.into_iter().map(rule).collect(),
            series,
            baseline,
        }
    }

    /// The baseline's lines of the paths that are drawn.
    fn baseline(&self, baseline: &Document) -> Vec<Series> {
        let of = |group: &Group<'_>| {
            let how = trend::how(group.points.first()?);
            let points = baseline.points.iter().filter(|point| self.measure.of(point).is_some());
            let mut points: Vec<&Point> = points.filter(|point| trend::how(point) == how).collect();
            points.sort_by_key(|point| point.size_bytes);
            (!points.is_empty()).then(|| line("baseline".to_owned(), &points, self.measure))
        };
        self.groups.iter().take(SERIES).filter_map(of).collect()
    }

    fn bars(&self) -> Bars {
        let bar = |(number, group): (usize, &Group<'_>)| {
            let value =
                group.points.first().and_then(|point| self.measure.of(point)).unwrap_or(0.0);
            let (name, tone) = (group.name.clone(), Tone::Series(number));
            Bar { name, value, value_text: (self.measure.show)(value), tone }
        };
        let rule = self.expected.map(|gbps| (gbps, format!("expected {}", number::rate(gbps))));
        Bars {
            caption: self.caption(),
            bars: self.groups.iter().enumerate().map(bar).collect(),
            rule,
        }
    }

    /// The title, and the best value.
    fn caption(&self) -> Caption {
        let Plot { groups, measure, .. } = self;
        let all =
            groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, point)));
        let measurements =
            all.filter_map(|(group, point)| Some((group, point, measure.of(point)?)));
        let best =
            measurements.reduce(|best, other| match (other.2 > best.2) == measure.more_is_better {
                true => other,
                false => best,
            });
        let mut about = String::new();
        if let Some((group, point, measurement)) = best {
            about = format!(
                "Best: {} at {}",
                (measure.show)(measurement),
                number::size(point.size_bytes)
            );
            if groups.len() > 1 {
                about += &format!(" ({})", group.name);
            }
            if let Some(expected) = self.expected {
                about += &format!(
                    ", {} of the expected bandwidth",
                    number::percent(measurement / expected)
                );
            }
            about.push('.');
        }
        let sweep = is_sweep(groups);
        if sweep && groups.len() > SERIES {
            about += &format!(" The first {SERIES} of {} paths are drawn.", groups.len());
        }
        let by = if sweep { "by size" } else { "by path" };
        Caption { plot: measure.plot, title: format!("{}, {by}", measure.title), about }
    }
}

fn line(name: String, points: &[&Point], measure: &Measure) -> Series {
    let tooltip =
        |size: u64, y: f64| format!("{name}, {}: {}", number::size(size), (measure.show)(y));
    let mark = |point: &&Point| {
        let y = measure.of(point)?;
        Some(Mark { x: point.size_bytes as f64, y, tooltip: tooltip(point.size_bytes, y) })
    };
    let marks = points.iter().filter_map(mark).collect();
    Series::through(name, marks)
}

/// Its name and accessor.
type Quantile = (&'static str, fn(&Point) -> Option<u64>);

/// For a single path: p50, p99 and p99.9.
fn quantiles(group: &Group<'_>) -> Vec<Series> {
    let known: [Quantile; 3] = [
        ("p50", |point| Some(point.latency.as_ref()?.p50_ns)),
        ("p99", |point| Some(point.latency.as_ref()?.p99_ns)),
        ("p99.9", |point| Some(point.latency.as_ref()?.p99_9_ns)),
    ];
    let series = |(name, measurement): &Quantile| {
        let mark = |point: &&Point| {
            let y = measurement(point)? as f64;
            let tooltip =
                format!("{}, {name}: {}", number::size(point.size_bytes), number::time(y));
            Some(Mark { x: point.size_bytes as f64, y, tooltip })
        };
        Series::through((*name).to_owned(), group.points.iter().filter_map(mark).collect())
    };
    known.iter().map(series).collect()
}

const MAX_BARS: usize = 24;
