//! The values that are plotted, by size or by path.

use super::plot::Scale;
use crate::number;
use crate::{Point, Test};

/// A value of each point.
pub(super) struct Measure {
    /// The name of the plot in the page.
    pub(super) plot: &'static str,
    pub(super) title: &'static str,
    /// The label of the axis.
    pub(super) axis: &'static str,
    pub(super) measurement: fn(&Point) -> Option<f64>,
    /// A result with its unit.
    pub(super) show: fn(f64) -> String,
    /// A result on the axis.
    pub(super) tick: fn(f64) -> String,
    pub(super) more_is_better: bool,
}

impl Measure {
    /// The value of a point, if it can be drawn.
    pub(super) fn of(&self, point: &Point) -> Option<f64> {
        (self.measurement)(point)
            .filter(|measurement| measurement.is_finite() && *measurement > 0.0)
    }

    /// A linear scale from zero if more is better, else a logarithmic one.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        match self.more_is_better {
            true => Scale::from_zero(values),
            false => Scale::powers_of_ten(values),
        }
    }
}

pub(super) const BANDWIDTH: Measure = Measure {
    plot: "bandwidth",
    title: "Bandwidth",
    axis: "Gb/s",
    measurement: |point| point.gbps.filter(|_| point.test == Test::Bandwidth),
    show: number::rate,
    tick: number::significant,
    more_is_better: true,
};

pub(super) const RATE: Measure = Measure {
    plot: "rate",
    title: "Messages per second",
    axis: "messages per second",
    measurement: |point| point.messages_per_second.filter(|_| point.test != Test::Latency),
    show: |rate| format!("{}/s", number::count(rate)),
    tick: number::count,
    more_is_better: true,
};

pub(super) const LATENCY: Measure = Measure {
    plot: "latency",
    title: "Latency",
    axis: "latency",
    measurement: |point| {
        let median = point.latency.as_ref()?.p50_ns as f64;
        Some(median).filter(|_| point.test == Test::Latency)
    },
    show: |median| format!("{} (p50)", number::time(median)),
    tick: number::time,
    more_is_better: false,
};

pub(super) const CPU: Measure = Measure {
    plot: "cpu",
    title: "CPU time of both ends per gigabyte",
    axis: "CPU time per GB",
    measurement: |point| {
        let both = point.cpu_seconds_per_gb? + point.peer_cpu_seconds_per_gb.unwrap_or(0.0);
        Some(both * 1e9).filter(|_| point.test == Test::Bandwidth)
    },
    show: number::time,
    tick: number::time,
    more_is_better: false,
};
