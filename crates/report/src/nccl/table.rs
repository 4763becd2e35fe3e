//! The table: its header's words say what stands where.

use crate::{CollectiveRow, Half};

/// Columns of a table, as its header names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// Before the results.
    left: Vec<Left>,
    /// Results of each half.
    halves: Vec<Vec<Measurement>>,
    /// Words after them: a timestamp has two.
    trailing: usize,
    /// Version 1 counts milliseconds.
    is_milliseconds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Size,
    Count,
    Type,
    Reduction,
    Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measurement {
    Time,
    Algorithm,
    Bus,
    Wrong,
    /// The largest deviation, which older versions tell instead of wrong values.
    Deviation,
    /// A result of `-I 1`: known, and not kept.
    Other,
}

impl Columns {
    /// Of a header line.
    pub(super) fn parse(line: &str) -> Option<Columns> {
        let line = line.trim_start().strip_prefix('#')?;
        let mut columns = Columns {
            left: Vec::new(),
            halves: Vec::new(),
            trailing: 0,
            is_milliseconds: line.split_whitespace().next() == Some("bytes"),
        };
        for word in line.split_whitespace() {
            columns.add(word)?;
        }
        let complete = |half: &Vec<Measurement>| {
            half.contains(&Measurement::Time) && half.contains(&Measurement::Bus)
        };
        let begins = columns.left.first() == Some(&Left::Size);
        let whole = begins && (1..=2).contains(&columns.halves.len());
        (whole && columns.halves.iter().all(complete)).then_some(columns)
    }

    /// Whether rows tell their largest deviation, and not which values are wrong.
    pub(super) fn has_deviations(&self) -> bool {
        self.halves.iter().flatten().any(|measurement| *measurement == Measurement::Deviation)
    }

    fn add(&mut self, word: &str) -> Option<()> {
        let left = match word {
            "size" | "bytes" => Some(Left::Size),
            "count" | "N" => Some(Left::Count),
            "type" => Some(Left::Type),
            "redop" | "op" => Some(Left::Reduction),
            "root" => Some(Left::Root),
            _ => None,
        };
        if let Some(left) = left {
            self.left.push(left);
            return self.halves.is_empty().then_some(());
        }
        let measurement = match word {
            "time" | "cputime" => {
                self.halves.push(Vec::new());
                Measurement::Time
            }
            "algbw" => Measurement::Algorithm,
            "busbw" => Measurement::Bus,
            "#wrong" => Measurement::Wrong,
            "error" | "res" => Measurement::Deviation,
            "i_min" | "i_max" | "i_p99" | "i_cv%" => Measurement::Other,
            "timestamp" => {
                self.trailing = 2;
                return Some(());
            }
            _ => return None,
        };
        self.halves.last_mut()?.push(measurement);
        Some(())
    }

    /// A row. None: something is between its words, or its end is missing.
    pub(super) fn row(&self, line: &str) -> Option<CollectiveRow> {
        let mut words = Words { rest: line };
        let mut row = CollectiveRow {
            size_bytes: 0,
            count: None,
            datatype: None,
            reduction: None,
            root: None,
            out_of_place: None,
            in_place: None,
        };
        for left in &self.left {
            match left {
                Left::Size => row.size_bytes = words.next()?.parse().ok()?,
                Left::Count => row.count = Some(words.next()?.parse().ok()?),
                Left::Type => row.datatype = Some(name(words.next()?)?),
                // What has no reduction may have an empty place for it.
                Left::Reduction => {
                    row.reduction = words.next_if(|word| name(word).is_some()).map(str::to_owned)
                }
                Left::Root => row.root = u32::try_from(words.next()?.parse::<i64>().ok()?).ok(),
            }
        }
        self.measurements(words, row)
    }

    fn measurements(&self, mut words: Words, mut row: CollectiveRow) -> Option<CollectiveRow> {
        let both = self.halves.len() == 2;
        let blank = both && words.spaces() >= BLANK;
        for (place, half) in self.halves.iter().enumerate() {
            if place == 0 && blank {
                continue;
            }
            let read = self.half(half, &mut words)?;
            match place {
                0 => row.out_of_place = read,
                _ => row.in_place = read,
            }
        }
        for _ in 0..self.trailing {
            words.next()?;
        }
        words.next().is_none().then_some(row)
    }

    /// A half; the inner none: its results are no numbers, as of what took no time.
    fn half(&self, measurements: &[Measurement], words: &mut Words) -> Option<Option<Half>> {
        let mut half = Half {
            time_us: 0.0,
            algorithm_gb_per_second: 0.0,
            bus_gb_per_second: 0.0,
            wrong: None,
        };
        for measurement in measurements {
            let word = words.next()?;
            match measurement {
                Measurement::Wrong if word == "N/A" => {}
                Measurement::Wrong => half.wrong = Some(count(word)?),
                Measurement::Deviation | Measurement::Other if word == "N/A" => {}
                Measurement::Deviation | Measurement::Other => drop(word.parse::<f64>().ok()?),
                Measurement::Time => {
                    let scale = if self.is_milliseconds { 1e3 } else { 1.0 };
                    half.time_us = word.parse::<f64>().ok()? * scale;
                }
                Measurement::Algorithm => half.algorithm_gb_per_second = word.parse().ok()?,
                Measurement::Bus => half.bus_gb_per_second = word.parse().ok()?,
            }
        }
        Some(Some(half).filter(is_sound))
    }
}

/// Whether results are numbers that a clock can give.
pub(super) fn is_sound(half: &Half) -> bool {
    let measurements = [half.time_us, half.algorithm_gb_per_second, half.bus_gb_per_second];
    measurements.iter().all(|measurement| (0.0..MAX).contains(measurement))
}

/// A count that may be written `1e+06`.
pub(super) fn count(word: &str) -> Option<u64> {
    let number: f64 = word.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number as u64)
}

/// A word that is no number.
fn name(word: &str) -> Option<String> {
    let fits = word.len() <= LONGEST_NAME && word.parse::<f64>().is_err();
    fits.then(|| word.to_owned())
}

/// Words one by one, and the spaces between.
#[derive(Clone, Copy)]
struct Words<'l> {
    rest: &'l str,
}

impl<'l> Words<'l> {
    fn next(&mut self) -> Option<&'l str> {
        let text = self.rest.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn next_if(&mut self, is_meant: impl Fn(&str) -> bool) -> Option<&'l str> {
        let mut ahead = *self;
        let word = ahead.next().filter(|word| is_meant(word))?;
        *self = ahead;
        Some(word)
    }

    fn spaces(self) -> usize {
        self.rest.len() - self.rest.trim_start().len()
    }
}

/// An empty half is thirty-two spaces; between two columns there are ten at most.
const BLANK: usize = 24;
const LONGEST_NAME: usize = 32;
/// No clock and no link gives more.
const MAX: f64 = 1e15;

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ";

    fn columns(header: &str) -> Columns {
        Columns::parse(header).expect(header)
    }

    #[test]
    fn other_lines_are_no_header() {
        for line in [
            "# size",
            "#",
            "size count type time algbw busbw",
            "# Using devices",
            "#  (B)  (elements)",
        ] {
            assert_eq!(Columns::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_row_in_scientific_notation() {
        let row = columns(NEW).row(" 17179869184    4294967296     float     sum      -1  1.2e+07  1431.7    2684   1e+06  1.1e+07    1562    2928       0");
        let row = row.expect("a row");
        let (out, inside) = (row.out_of_place.expect("there"), row.in_place.expect("there"));
        assert_eq!(
            (out.time_us, out.bus_gb_per_second, out.wrong),
            (1.2e7, 2684.0, Some(1_000_000))
        );
        assert_eq!((inside.time_us, row.root), (1.1e7, None));
    }

    #[test]
    fn a_replay_has_the_in_place_half_alone() {
        let line = format!(
            "     1048576        262144     float     sum      -1{}     7.05  148.71  223.07       0",
            " ".repeat(32)
        );
        let row = columns(NEW).row(&line).expect("a row");
        assert_eq!(row.out_of_place, None);
        assert_eq!(row.in_place.map(|half| half.bus_gb_per_second), Some(223.07));
    }

    #[test]
    fn a_row_that_is_cut_or_broken_is_none() {
        let columns = columns(NEW);
        let whole = "     1048576        262144     float     sum      -1     7.05  148.71    0.00      0     0.92  1142.05    0.00      0";
        assert!(columns.row(whole).is_some());
        let last_column = whole.rfind(' ').expect("spaces");
        for end in 1..=last_column {
            assert_eq!(columns.row(&whole[..end]), None, "{:?}", &whole[..end]);
        }
        let broken = whole.replace("0.92", "0.92node1:12:13 [0] NCCL INFO comm 0x55");
        assert_eq!(columns.row(&broken), None);
    }

    #[test]
    fn what_took_no_time_has_no_measurements() {
        let row = columns(NEW).row("           0             0     float     sum      -1     0.00     nan     nan       0     0.00    -nan     inf       0");
        let row = row.expect("a row");
        assert_eq!((row.size_bytes, row.out_of_place, row.in_place), (0, None, None));
    }
}
