//! What `/metrics` answers. Asks no device, and takes no longer than counting does.

mod process;
mod rows;
mod store;
mod transport;

use std::ops::RangeInclusive;

use fabric::Histogram;
use metric::{Exposition, Row};

use super::status::Status;

/// One scrape.
pub(super) fn render(status: &Status) -> String {
    let mut answer = Exposition::new(&status.parts.prefix);
    store::add(&mut answer, status);
    transport::add(&mut answer, status);
    process::add(&mut answer);
    answer.to_string()
}

/// A histogram as Prometheus has them: a bound for each doubling, so that those of several servers can be added up.
fn durations(
    answer: &mut Exposition,
    row: &Row,
    histogram: &Histogram,
    doublings: RangeInclusive<u32>,
) {
    let bounds = histogram.doublings(doublings);
    let mut buckets: Vec<(f64, u64)> =
        bounds.map(|(end, values)| (end.as_secs_f64(), values)).collect();
    let inside: u64 = buckets.iter().map(|(_, values)| values).sum();
    buckets.push((f64::INFINITY, histogram.count().saturating_sub(inside)));
    answer.histogram(row, &[], &buckets, histogram.sum().as_secs_f64());
}
