//! Results of nccl-tests and PyTorch: bus bandwidth by size, and the link rate.

use super::markup::Markup;
use super::plot::{Axis, Caption, Lines, Mark, Rule, Scale, Series};
use crate::number;
use crate::{Collective, CollectiveResult, CollectiveRow, Document};

/// Bus bandwidth by size.
pub(super) fn plot(document: &Document) -> Markup {
    let Some(run) = document.collective.as_ref().filter(|run| !run.rows.is_empty()) else {
        return Markup::default();
    };
    let series = [
        series(run, "out of place", |row| row.out_of_place),
        series(run, "in place", |row| row.in_place),
    ];
    let series: Vec<Series> = series.into_iter().filter(|series| !series.line.is_empty()).collect();
    let places = || series.iter().flat_map(|series| &series.line);
    let link = run.link_gbps.map(|gbps| gbps / 8.0).filter(|link| *link > 0.0 && link.is_finite());
    let rules =
        link.into_iter().map(|link| Rule { y: link, label: format!("link {}", gigabytes(link)) });
    Lines {
        caption: caption(run, places().map(|(_, y)| *y).fold(0.0, f64::max)),
        x: Axis {
            label: "size of the buffer",
            scale: Scale::powers_of_two(places().map(|(x, _)| *x)),
            show: number::short_size,
        },
        y: Axis {
            label: "bus bandwidth, GB/s",
            scale: Scale::from_zero(places().map(|(_, y)| *y).chain(link)),
            show: number::significant,
        },
        baseline: Vec::new(),
        rules: rules.collect(),
        series,
    }
    .render()
}

fn series(
    run: &Collective,
    name: &str,
    half: fn(&CollectiveRow) -> Option<CollectiveResult>,
) -> Series {
    let mark = |row: &CollectiveRow| {
        let y = half(row)?.bus_gb_per_second;
        let tooltip = format!("{}, {name}: {}", number::size(row.size_bytes), gigabytes(y));
        Some(Mark { x: row.size_bytes as f64, y, tooltip })
            .filter(|mark| mark.x > 0.0 && y.is_finite())
    };
    Series::through(name.to_owned(), run.rows.iter().filter_map(mark).collect())
}

fn caption(run: &Collective, best: f64) -> Caption {
    let mut about = format!("Best: {}", gigabytes(best));
    if let Some(average) = run.average_bus_gb_per_second {
        about += &format!(", average of all sizes {}", gigabytes(average));
    }
    if let Some(efficiency) = run.efficiency {
        about += &format!("; {} of the link rate", number::percent(efficiency));
    }
    about.push('.');
    let operation = run.operation.as_deref().unwrap_or("collective operation");
    Caption { plot: "collective", title: format!("Bus bandwidth of {operation} by size"), about }
}

fn gigabytes(value: f64) -> String {
    format!("{} GB/s", number::significant(value))
}
