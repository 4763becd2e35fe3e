//! The lines below the table.

use super::table;

/// A line below the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Footer {
    /// `# Out of bounds values : 0 OK`
    Wrong(u64),
    /// `# Avg bus bandwidth    : 3.27`, and whether it reaches NCCL_TESTS_MIN_BW, if that was set.
    Average(f64, Option<bool>),
}

impl Footer {
    /// Parses a line; version 1 has no `#`.
    pub(super) fn parse(line: &str) -> Option<Footer> {
        let (what, value) = line.trim_start_matches(['#', ' ']).split_once(':')?;
        let mut words = value.split_whitespace();
        match what.trim_end() {
            "Out of bounds values" => {
                let count = table::count(words.next()?)?;
                words.next()?;
                Some(Footer::Wrong(count))
            }
            "Avg bus bandwidth" => {
                let average: f64 = words.next()?.parse().ok()?;
                let enough = words.next().map(|word| word == "OK");
                average.is_finite().then_some(Footer::Average(average, enough))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_of_all_versions_are_read() {
        let read = Footer::parse;
        assert_eq!(read("# Out of bounds values : 0 OK"), Some(Footer::Wrong(0)));
        assert_eq!(read(" Out of bounds values : 12 FAILED"), Some(Footer::Wrong(12)));
        assert_eq!(read("# Avg bus bandwidth    : 3.27 "), Some(Footer::Average(3.27, None)));
        assert_eq!(
            read("# Avg bus bandwidth    : 1e+03 OK"),
            Some(Footer::Average(1000.0, Some(true)))
        );
        assert_eq!(
            read("# Avg bus bandwidth    : 2 FAILED"),
            Some(Footer::Average(2.0, Some(false)))
        );
        for cut in
            ["# Out of bounds values : 0", "# Avg bus bandwidth    :", "# Avg bus bandwidth : nan"]
        {
            assert_eq!(read(cut), None, "{cut}");
        }
    }
}
