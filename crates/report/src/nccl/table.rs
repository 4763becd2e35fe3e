//! Parses the table: the words of its header identify the columns.

use crate::{CollectiveResult, CollectiveRow};

/// The columns of a table, from its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// Columns before the results.
    parameters: Vec<Parameter>,
    /// Columns of the out-of-place and in-place results.
    halves: Vec<Vec<Measurement>>,
    /// Number of words after the results: a timestamp has two.
    trailing: usize,
    /// Version 1 prints milliseconds.
    is_milliseconds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
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
    /// The largest deviation, which older versions print instead of wrong values.
    Deviation,
    /// A result of `-I 1`: ignored.
    Other,
}

impl Columns {
    /// Parses a header line.
    pub(super) fn parse(line: &str) -> Option<Columns> {
        let line = line.trim_start().strip_prefix('#')?;
        let mut columns = Columns {
            parameters: Vec::new(),
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
        let has_size = columns.parameters.first() == Some(&Parameter::Size);
        let is_complete = has_size && (1..=2).contains(&columns.halves.len());
        (is_complete && columns.halves.iter().all(complete)).then_some(columns)
    }

    /// Whether rows have the largest deviation instead of the number of wrong values.
    pub(super) fn has_deviations(&self) -> bool {
        self.halves.iter().flatten().any(|measurement| *measurement == Measurement::Deviation)
    }

    fn add(&mut self, word: &str) -> Option<()> {
        let parameter = match word {
            "size" | "bytes" => Some(Parameter::Size),
            "count" | "N" => Some(Parameter::Count),
            "type" => Some(Parameter::Type),
            "redop" | "op" => Some(Parameter::Reduction),
            "root" => Some(Parameter::Root),
            _ => None,
        };
        if let Some(parameter) = parameter {
            self.parameters.push(parameter);
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

    /// Parses a row. `None`: it is mixed with other output, or truncated.
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
        for parameter in &self.parameters {
            match parameter {
                Parameter::Size => row.size_bytes = words.next()?.parse().ok()?,
                Parameter::Count => row.count = Some(words.next()?.parse().ok()?),
                Parameter::Type => row.datatype = Some(name(words.next()?)?),
                // The column may be empty for operations without a reduction.
                Parameter::Reduction => {
                    row.reduction = words.next_if(|word| name(word).is_some()).map(str::to_owned)
                }
                Parameter::Root => {
                    row.root = u32::try_from(words.next()?.parse::<i64>().ok()?).ok()
                }
            }
        }
        self.measurements(words, row)
    }

    fn measurements(&self, mut words: Words, mut row: CollectiveRow) -> Option<CollectiveRow> {
        let both = self.halves.len() == 2;
        let blank = both && words.spaces() >= MIN_BLANK_SPACES;
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

    /// Parses one half; `Some(None)`: its results are not numbers, as for a time of 0.
    fn half(
        &self,
        measurements: &[Measurement],
        words: &mut Words,
    ) -> Option<Option<CollectiveResult>> {
        let mut half = CollectiveResult {
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

/// Whether the results are plausible numbers.
pub(super) fn is_sound(half: &CollectiveResult) -> bool {
    let measurements = [half.time_us, half.algorithm_gb_per_second, half.bus_gb_per_second];
    measurements.iter().all(|measurement| (0.0..MAX_VALUE).contains(measurement))
}

/// A count that may be written `1e+06`.
pub(super) fn count(word: &str) -> Option<u64> {
    let number: f64 = word.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number as u64)
}

/// A word that is not a number.
fn name(word: &str) -> Option<String> {
    let fits = word.len() <= MAX_NAME_BYTES && word.parse::<f64>().is_err();
    fits.then(|| word.to_owned())
}

/// Words of a line, and the spaces between them.
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

    fn next_if(&mut self, predicate: impl Fn(&str) -> bool) -> Option<&'l str> {
        let mut ahead = *self;
        let word = ahead.next().filter(|word| predicate(word))?;
        *self = ahead;
        Some(word)
    }

    fn spaces(self) -> usize {
        self.rest.len() - self.rest.trim_start().len()
    }
}

/// An empty half is 32 spaces; between two columns there are at most 10.
const MIN_BLANK_SPACES: usize = 24;
const MAX_NAME_BYTES: usize = 32;
/// The largest plausible value.
const MAX_VALUE: f64 = 1e15;

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
    fn scientific_notation_is_read() {
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
    fn a_replay_has_only_the_in_place_half() {
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
    fn a_time_of_zero_gives_no_results() {
        let row = columns(NEW).row("           0             0     float     sum      -1     0.00     nan     nan       0     0.00    -nan     inf       0");
        let row = row.expect("a row");
        assert_eq!((row.size_bytes, row.out_of_place, row.in_place), (0, None, None));
    }
}
