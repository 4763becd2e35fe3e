//! The definition of a metric, as a constant.

/// A metric: its name without the prefix, its unit, help and kind.
///
/// A name is `snake_case`, contains its unit as a word, and ends in `_total` if and only if it is a
/// counter. Rows are constants, so that an invalid one does not compile:
///
/// ```compile_fail
/// const SENT: metric::Row = metric::Row::counter("sent", "bytes", "Payload sent");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    kind: Kind,
}

/// How a metric behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Numbers of values in buckets.
    Histogram,
    /// Quantiles, computed by the program.
    Summary,
}

impl Row {
    /// A number that only grows. Its name ends in `_total`.
    pub const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Row {
        Row::new(name, unit, help, Kind::Counter)
    }

    /// A number that goes up and down. A unit of `""` is for plain numbers.
    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Row {
        Row::new(name, unit, help, Kind::Gauge)
    }

    /// Values in buckets.
    pub const fn histogram(name: &'static str, unit: &'static str, help: &'static str) -> Row {
        Row::new(name, unit, help, Kind::Histogram)
    }

    /// Values by quantiles.
    pub const fn summary(name: &'static str, unit: &'static str, help: &'static str) -> Row {
        Row::new(name, unit, help, Kind::Summary)
    }

    const fn new(name: &'static str, unit: &'static str, help: &'static str, kind: Kind) -> Row {
        let row = Row { name, unit, help, kind };
        if let Some(problem) = row.problem() {
            panic!("{}", problem);
        }
        row
    }

    /// The base unit that a name contains as a word; empty if there is none.
    pub const fn unit_in(name: &str) -> &'static str {
        let mut at = 0;
        while at < UNITS.len() {
            if has_word(name.as_bytes(), UNITS[at].as_bytes()) {
                return UNITS[at];
            }
            at += 1;
        }
        ""
    }

    /// The name, without the prefix.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The unit, as in the name; empty for plain numbers.
    pub const fn unit(&self) -> &'static str {
        self.unit
    }

    /// One line of help.
    pub const fn help(&self) -> &'static str {
        self.help
    }

    /// The kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    const fn problem(&self) -> Option<&'static str> {
        let name = self.name.as_bytes();
        if !is_snake_case(name) {
            return Some("a metric's name is snake_case: a-z, 0-9 and single underscores");
        }
        if ends_with(name, b"_total") != matches!(self.kind, Kind::Counter) {
            return Some("a metric's name ends in _total if and only if it is a counter");
        }
        if ends_with(name, b"_sum") || ends_with(name, b"_count") || ends_with(name, b"_bucket") {
            return Some("_sum, _count and _bucket are added to a metric's name, not part of it");
        }
        if has_word(name, b"counter") || has_word(name, b"gauge") || has_word(name, b"histogram") {
            return Some("a metric's name must not contain a metric's kind");
        }
        if !self.unit.is_empty() && !has_word(name, self.unit.as_bytes()) {
            return Some("a metric's name must contain its unit as a word");
        }
        if self.unit.is_empty() && !Row::unit_in(self.name).is_empty() {
            return Some("a metric with a unit in its name must have that unit");
        }
        if self.help.is_empty() {
            return Some("a metric must have help");
        }
        None
    }
}

impl Kind {
    /// The name in the `# TYPE` line.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }
}

const fn is_snake_case(name: &[u8]) -> bool {
    let mut last = b'_';
    let mut at = 0;
    while at < name.len() {
        let good = match name[at] {
            b'a'..=b'z' => true,
            b'0'..=b'9' => at > 0,
            b'_' => last != b'_',
            _ => false,
        };
        if !good {
            return false;
        }
        last = name[at];
        at += 1;
    }
    last != b'_'
}

const fn ends_with(name: &[u8], end: &[u8]) -> bool {
    name.len() >= end.len() && holds_at(name, end, name.len() - end.len())
}

/// Whether a name contains a word, between underscores or its ends.
const fn has_word(name: &[u8], word: &[u8]) -> bool {
    let mut at = 0;
    while at + word.len() <= name.len() {
        let begins = at == 0 || name[at - 1] == b'_';
        let end = at + word.len();
        if begins && (end == name.len() || name[end] == b'_') && holds_at(name, word, at) {
            return true;
        }
        at += 1;
    }
    false
}

const fn holds_at(name: &[u8], part: &[u8], from: usize) -> bool {
    let mut at = 0;
    while at < part.len() {
        if name[from + at] != part[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Units that a name may contain. A rate has the unit of the counted thing: `bytes_per_second` is in bytes.
const UNITS: [&str; 8] =
    ["bytes", "seconds", "ratio", "celsius", "watts", "joules", "hertz", "ticks"];

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(name: &'static str, unit: &'static str, kind: Kind) -> bool {
        Row { name, unit, help: "Help", kind }.problem().is_some()
    }

    #[test]
    fn conventional_names_are_accepted() {
        assert!(!problem("rdma_transmit_payload_bytes_total", "bytes", Kind::Counter));
        assert!(!problem("rdma_send_latency_ns", "ns", Kind::Summary));
        assert!(!problem("request_duration_seconds", "seconds", Kind::Histogram));
        assert!(!problem("rdma_rails_up", "", Kind::Gauge));
    }

    #[test]
    fn unconventional_names_are_refused() {
        assert!(problem("rdma_transmit_payload_bytes", "bytes", Kind::Counter));
        assert!(problem("links_total", "", Kind::Gauge));
        assert!(problem("pool_used", "bytes", Kind::Gauge));
        assert!(problem("pool_kilobytes", "bytes", Kind::Gauge));
        assert!(problem("link_count", "", Kind::Gauge));
        assert!(problem("pool_bytes", "", Kind::Gauge));
        assert!(problem("counter_resets_total", "", Kind::Counter));
        for name in ["", "_a", "a_", "a__b", "Links", "a-b", "1a", "é"] {
            assert!(problem(name, "", Kind::Gauge), "{name}");
        }
    }
}
