//! A mesh as text: a heat map, and slow hosts and pairs.

use std::fmt::Write;

use report::Matrix;

use crate::output::wrap;

/// A sentence on slow hosts and pairs.
pub(super) fn summary(matrix: &Matrix) -> String {
    let median = match matrix.median_gbps {
        Some(median) => format!("median {median:.2} Gb/s"),
        None => return "no pair could be measured".to_owned(),
    };
    let hosts = matrix.slow_hosts.iter().map(|slow| {
        let percent = slow.ratio_to_median * 100.0;
        format!("every pair with {} is slow: {:.2} Gb/s, {percent:.0} %", slow.host, slow.gbps)
    });
    let pairs = matrix.slow_pairs.iter().map(|slow| {
        let percent = slow.ratio_to_median * 100.0;
        format!(
            "the pair {} and {} is slow: {:.2} Gb/s from {}, {percent:.0} %",
            slow.from, slow.to, slow.gbps, slow.from
        )
    });
    let slow: Vec<String> = hosts.chain(pairs).collect();
    match slow.is_empty() {
        true => format!("{median}, no slow pairs"),
        false => format!("{median}; {}", slow.join("; ")),
    }
}

/// Gb/s from each row's host to each column's, with a shade for its ratio to the median. In several tables if the columns do not
/// fit the width side by side.
pub(super) fn render(matrix: &Matrix) -> String {
    let title = "Gb/s from each host (rows) to each other host (columns)\n";
    wrap::fit(title) + &table(matrix, wrap::columns()) + &wrap::fit(&notes(matrix))
}

fn table(matrix: &Matrix, width: Option<usize>) -> String {
    let label = matrix.hosts.iter().map(|host| host.chars().count()).max().unwrap_or(0) + 6;
    let fitting = width.map_or(usize::MAX, |width| width.saturating_sub(label) / CELL).max(1);
    let columns: Vec<usize> = (0..matrix.hosts.len()).collect();
    let mut text = String::new();
    for columns in columns.chunks(fitting) {
        let _ = write!(text, "{:label$}", "");
        for column in columns {
            let _ = write!(text, "{:>CELL$}", format!("[{}]", column + 1));
        }
        text.push('\n');
        for (row, host) in matrix.hosts.iter().enumerate() {
            let _ = write!(text, "{:label$}", format!("[{}] {host}", row + 1));
            for column in columns {
                let _ = write!(text, "{:>CELL$}", cell(matrix, row, *column));
            }
            text.push('\n');
        }
    }
    text
}

/// The latency, and pairs that could not be measured.
fn notes(matrix: &Matrix) -> String {
    let mut text = String::new();
    let latencies = matrix.latency_us.iter().flatten().flatten().copied();
    if let (Some(min), Some(max)) =
        (latencies.clone().min_by(f64::total_cmp), latencies.max_by(f64::total_cmp))
    {
        let _ = writeln!(text, "median latency {min:.1} to {max:.1} µs");
    }
    for failed in &matrix.failed {
        let _ = writeln!(text, "not measured: {} → {}: {}", failed.from, failed.to, failed.why);
    }
    text
}

fn cell(matrix: &Matrix, row: usize, column: usize) -> String {
    let Some(gbps) = matrix.gbps[row][column] else {
        return if row == column { "·".to_owned() } else { "!".to_owned() };
    };
    let part =
        matrix.median_gbps.filter(|median| *median > 0.0).map_or(1.0, |median| gbps / median);
    let shade = match part {
        part if part < 0.6 => '░',
        part if part < 0.8 => '▒',
        part if part < 0.95 => '▓',
        _ => '█',
    };
    format!("{gbps:.2} {shade}")
}

const CELL: usize = 10;

#[cfg(test)]
mod tests {
    use doctor::evaluation::{PairResult, matrix};

    use super::*;

    #[test]
    fn a_slow_pair_is_named_and_shaded() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let mut measured = Vec::new();
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            let gbps = if from + to == 3 { 1.0 } else { 10.0 };
            measured.push(PairResult { from, to, measurements: Ok((gbps, None)) });
        }
        let matrix = matrix(&hosts, &measured);
        assert!(summary(&matrix).contains("the pair b and c is slow: 1.00 Gb/s from b, 10 %"));
        let text = render(&matrix);
        assert!(text.contains("1.00 ░") && text.contains("10.00 █"), "{text}");
        let narrow = table(&matrix, Some(20));
        assert!(narrow.lines().all(|line| line.chars().count() <= 20), "{narrow}");
        assert_eq!(narrow.lines().count(), 3 * (1 + 3), "a table for each column: {narrow}");
    }
}
