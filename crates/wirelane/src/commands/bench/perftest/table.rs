//! Reads perftest's output: the row below its header.

/// A row of a bandwidth or latency test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Row {
    Bandwidth {
        size: u64,
        iterations: u64,
        bytes_per_second: f64,
        messages_per_second: Option<f64>,
    },
    /// Times in microseconds.
    Latency {
        size: u64,
        iterations: u64,
        min: f64,
        max: f64,
        typical: f64,
        average: f64,
        stdev: f64,
        p99: f64,
        p99_9: f64,
    },
}

/// The last row of the output.
pub(super) fn last(printed: &str) -> Option<Row> {
    let lines: Vec<&str> = printed.lines().collect();
    let header = lines.iter().rposition(|line| line.trim_start().starts_with("#bytes"))?;
    let mut rows = lines[header + 1..].iter().filter_map(|line| row(lines[header], line));
    rows.next_back()
}

fn row(header: &str, line: &str) -> Option<Row> {
    let cells: Option<Vec<f64>> = line.split_whitespace().map(|cell| cell.parse().ok()).collect();
    let cells = cells?;
    let (size, iterations) = (*cells.first()? as u64, *cells.get(1)? as u64);
    if header.contains("t_typical") {
        let [min, max, typical, average, stdev, p99, p99_9] = cells.get(2..9)?.try_into().ok()?;
        return Some(Row::Latency {
            size,
            iterations,
            min,
            max,
            typical,
            average,
            stdev,
            p99,
            p99_9,
        });
    }
    let scale = match header {
        _ if header.contains("BW average[Gb/sec]") => 1e9 / 8.0,
        // Older versions print MB, but mean 2^20 bytes.
        _ if header.contains("BW average[MiB/sec]") || header.contains("BW average[MB/sec]") => {
            f64::from(1 << 20)
        }
        _ => return None,
    };
    Some(Row::Bandwidth {
        size,
        iterations,
        bytes_per_second: cells.get(3)? * scale,
        messages_per_second: cells.get(4).map(|millions| millions * 1e6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by hand in the form that perftest's sources print.
    const BANDWIDTH: &str = "\
 remote address: LID 0000 QPN 0x0011 PSN 0x8d9fd1
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      1000             41.23              40.00              0.000640
---------------------------------------------------------------------------------------
";
    const LATENCY: &str = "\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64       1000          80.11          900.50       91.25              95.00            12.00            140.00                  300.00
";

    #[test]
    fn mebibytes_are_converted_to_bytes() {
        let row = last(BANDWIDTH).expect("a row");
        let Row::Bandwidth { size, iterations, bytes_per_second, messages_per_second } = row else {
            panic!("{row:?}")
        };
        assert_eq!((size, iterations, bytes_per_second), (65536, 1000, 40.0 * 1_048_576.0));
        assert!((messages_per_second.expect("a rate") - 640.0).abs() < 1e-6);
        let bits = BANDWIDTH.replace("MiB/sec", "Gb/sec");
        assert!(
            matches!(last(&bits), Some(Row::Bandwidth { bytes_per_second, .. }) if bytes_per_second == 5e9)
        );
    }

    #[test]
    fn latency_columns_are_read() {
        let Some(Row::Latency { typical, p99, p99_9, stdev, .. }) = last(LATENCY) else {
            panic!("a row")
        };
        assert_eq!((typical, p99, p99_9, stdev), (91.25, 140.0, 300.0, 12.0));
        assert_eq!(last(" Couldn't connect to 10.0.0.2:18515\n"), None);
        assert_eq!(last(" #bytes #iterations t_avg[usec] tps average\n 8 1 1 1\n"), None);
    }
}
