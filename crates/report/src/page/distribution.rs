//! The distribution of latencies: the time within which a share of operations is done, up to the slowest one.

use super::group::{groups, is_sweep};
use super::markup::Markup;
use super::plot::{Axis, Caption, Lines, Mark, SERIES, Scale, Series, evenly};
use crate::number;
use crate::{Document, Point, PointLatency, Test};

/// The distributions of a document's latency tests, or of its other tests if it has none.
pub(super) fn plot(document: &Document) -> Markup {
    let timed = |test: fn(Test) -> bool| {
        let has = move |point: &&Point| {
            test(point.test) && point.latency.as_ref().is_some_and(is_drawable)
        };
        document.points.iter().filter(has).collect::<Vec<_>>()
    };
    let latency = timed(|test| test == Test::Latency);
    let (points, title) = match latency.is_empty() {
        false => (latency, "Latency distribution"),
        true => {
            (timed(|test| test != Test::Latency), "Latency distribution, many operations in flight")
        }
    };
    match points.is_empty() {
        true => Markup::default(),
        false => lines(&points, title).render(),
    }
}

fn lines(points: &[&Point], title: &str) -> Lines {
    let groups = groups(points.iter().copied());
    let (several, sweep) = (groups.len() > 1, is_sweep(&groups));
    let named =
        groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, *point)));
    let named = named.map(|(group, point)| {
        let size = number::size(point.size_bytes);
        match (several, sweep) {
            (true, true) => (format!("{size}, {}", group.name), point),
            (true, false) => (group.name.clone(), point),
            (false, _) => (size, point),
        }
    });
    let named: Vec<(String, &Point)> = named.collect();
    let drawn = evenly(&named, SERIES);
    let series: Vec<Series> =
        drawn.iter().filter_map(|(name, point)| series(name, point.latency.as_ref()?)).collect();
    let places = || series.iter().flat_map(|series| &series.line);
    let wide = {
        let range = places().map(|(_, y)| *y);
        range.clone().fold(0.0, f64::max) / range.fold(f64::INFINITY, f64::min) > 8.0
    };
    let values = places().map(|(_, y)| *y);
    let scale = if wide { Scale::powers_of_ten(values) } else { Scale::from_zero(values) };
    Lines {
        caption: caption(title, &drawn, named.len()),
        x: Axis {
            label: "percentile of operations",
            scale: Scale::powers_of_ten(places().map(|(x, _)| *x).chain([1.0])),
            show: number::percentile,
        },
        y: Axis { label: "latency", scale, show: number::time },
        baseline: Vec::new(),
        rules: Vec::new(),
        series,
    }
}

/// From the buckets of a histogram: operations that are not in a bucket or below it are slower.
fn series(name: &str, latency: &PointLatency) -> Option<Series> {
    let total = latency.buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let mut within = 0u64;
    let mut line = vec![(1.0, latency.min_ns.max(1) as f64)];
    for (upper, count) in &latency.buckets {
        within = within.saturating_add(*count);
        let slower = total.saturating_sub(within).max(1);
        line.push((total as f64 / slower as f64, *upper as f64));
    }
    if latency.buckets.is_empty() {
        line.extend(quantiles(latency).map(|(_, one_in, time)| (one_in, time)));
    }
    let marks = quantiles(latency).map(|(quantile, one_in, time)| Mark {
        x: one_in,
        y: time,
        tooltip: format!("{name}, {quantile}: {}", number::time(time)),
    });
    let marks = marks.filter(|mark| total == 0 || mark.x <= total as f64).collect();
    Some(Series { name: name.to_owned(), line, marks })
}

fn quantiles(latency: &PointLatency) -> impl Iterator<Item = (&'static str, f64, f64)> {
    let known = [
        ("p50", 2.0, Some(latency.p50_ns)),
        ("p90", 10.0, latency.p90_ns),
        ("p99", 100.0, Some(latency.p99_ns)),
        ("p99.9", 1000.0, Some(latency.p99_9_ns)),
        ("slowest", latency.count as f64, Some(latency.max_ns).filter(|_| latency.count > 1000)),
    ];
    known.into_iter().filter_map(|(name, one_in, time)| Some((name, one_in, time? as f64)))
}

fn caption(title: &str, drawn: &[&(String, &Point)], of: usize) -> Caption {
    let first = drawn.first().and_then(|(name, point)| Some((name, point.latency.as_ref()?)));
    let mut about = first.map_or(String::new(), |(name, latency)| {
        format!(
            "{name}: p50 {}, p99 {}, slowest of {}: {}.",
            number::time(latency.p50_ns as f64),
            number::time(latency.p99_ns as f64),
            number::count(latency.count as f64),
            number::time(latency.max_ns as f64)
        )
    });
    if drawn.len() < of {
        about += &format!(" {} of {of} measurements are drawn; the table has all.", drawn.len());
    }
    Caption { plot: "distribution", title: title.to_owned(), about }
}

fn is_drawable(latency: &PointLatency) -> bool {
    latency.count > 0 && latency.max_ns > 0
}
