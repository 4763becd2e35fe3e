//! Runs compared with a baseline, and over time.

use super::markup::Markup;
use super::plot::{
    Axis, Bar, Bars, Caption, Lines, Mark, Rule, SERIES, Scale, Series, Tone, evenly,
};
use crate::Document;
use crate::number;
use crate::trend::{self, Change, Measurement};

/// Each result compared with the baseline.
pub(super) fn baseline(document: &Document, baseline: &Document) -> Markup {
    let changes = trend::changes(document, baseline);
    if changes.is_empty() {
        return Markup::default();
    }
    let worse = changes.iter().filter(|change| change.worse_by() > NOTABLE).count();
    let mut about = match worse {
        0 => format!("No notable regression in {} results", changes.len()),
        _ => format!(
            "{worse} of {} results are worse by more than {}",
            changes.len(),
            number::percent(NOTABLE)
        ),
    };
    about += &format!(" than on {} ({}).", baseline.when, baseline.host);
    if changes.len() > MAX_BARS {
        about += &format!(" The {MAX_BARS} largest changes are drawn.");
    }
    let mut drawn: Vec<(usize, &Change)> = changes.iter().enumerate().collect();
    drawn.sort_by(|one, other| other.1.ratio().abs().total_cmp(&one.1.ratio().abs()));
    drawn.truncate(MAX_BARS);
    drawn.sort_by_key(|(place, _)| *place);
    let bars = drawn.into_iter().map(|(_, change)| bar(change)).collect();
    let caption =
        Caption { plot: "baseline", title: "Compared with the baseline".to_owned(), about };
    Bars { caption, bars, rule: None }.render()
}

fn bar(change: &Change) -> Bar {
    let Change { measurement, before, .. } = change;
    let (tone, word) = match change.worse_by() {
        worse if worse > NOTABLE => (Tone::Bad, "worse"),
        worse if worse < -NOTABLE => (Tone::Good, "better"),
        _ => (Tone::Quiet, "unchanged"),
    };
    let value_text = format!("{} {word}", number::change(change.ratio()));
    let name = format!(
        "{}: {} → {}",
        measurement.what,
        measurement.unit.format(*before),
        measurement.unit.format(measurement.value)
    );
    // Clamped, so that one bar does not make the others invisible.
    Bar { name, value: change.ratio().clamp(-1.0, 1.0), value_text, tone }
}

/// Results that several documents share, from run to run, as percent of the first run.
pub(super) fn history(documents: &[Document]) -> Markup {
    let mut runs: Vec<&Document> = documents.iter().collect();
    runs.sort_by(|one, other| one.when.cmp(&other.when));
    let measurements: Vec<Vec<Measurement>> =
        runs.iter().map(|run| trend::measurements(run)).collect();
    let first = measurements.first().map_or(&[][..], Vec::as_slice);
    let repeated = |measurement: &&Measurement| {
        measurements.iter().skip(1).flatten().any(|other| other.is_like(measurement))
    };
    let repeated: Vec<&Measurement> = first.iter().filter(repeated).collect();
    let series = |measurement: &&&Measurement| {
        Series::through(measurement.what.clone(), marks(measurement, &measurements, &runs))
    };
    let series: Vec<Series> = evenly(&repeated, SERIES).iter().map(series).collect();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Markup::default() };
    if series.is_empty() {
        return Markup::default();
    }
    let values =
        series.iter().flat_map(|series| &series.line).map(|(_, y)| *y).chain([95.0, 105.0]);
    let about =
        format!("{} runs from {} to {}; the first is 100 %.", runs.len(), first.when, last.when);
    Lines {
        caption: Caption { plot: "history", title: "From run to run".to_owned(), about },
        x: Axis {
            label: "run",
            scale: Scale::around([1.0, runs.len() as f64].into_iter()),
            show: |run| {
                if run.fract() == 0.0 && run > 0.0 { format!("{run:.0}") } else { String::new() }
            },
        },
        y: Axis {
            label: "% of the first run",
            scale: Scale::around(values),
            show: number::significant,
        },
        series,
        baseline: Vec::new(),
        rules: vec![Rule { y: 100.0, label: String::new() }],
    }
    .render()
}

fn marks(
    measurement: &Measurement,
    measurements: &[Vec<Measurement>],
    runs: &[&Document],
) -> Vec<Mark> {
    let same = |all: &Vec<Measurement>| {
        all.iter().find(|other| other.is_like(measurement)).map(|other| other.value)
    };
    let values = measurements.iter().map(same).enumerate();
    let mark = |(run, value): (usize, Option<f64>)| {
        let value = value?;
        let tooltip =
            format!("{}, {}: {}", runs[run].when, measurement.what, measurement.unit.format(value));
        Some(Mark { x: run as f64 + 1.0, y: value / measurement.value * 100.0, tooltip })
    };
    values.filter_map(mark).collect()
}

/// A change above this ratio is coloured.
const NOTABLE: f64 = 0.05;
const MAX_BARS: usize = 8;
