//! The value of `--expect`: `90%`, `50Gb/s`, `10us`, `2M/s`.

use std::str::FromStr;

use doctor::evaluation::best;
use report::{Expectation, Point, Test, Verdict};

use crate::output::Failure;

/// A limit that a run must reach, and its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expect {
    text: String,
    threshold: Threshold,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Threshold {
    /// Share of the expected bandwidth.
    Share(f64),
    Gbps(f64),
    /// Maximum of the median.
    Microseconds(f64),
    MessagesPerSecond(f64),
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected a share (90%), a bandwidth (50Gb/s), a latency (10us) or a rate (2M/s)"
                .to_owned()
        };
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        if !number.is_finite() || number <= 0.0 {
            return Err(wrong());
        }
        let threshold = match text[digits.len()..].trim() {
            "%" => Threshold::Share(number / 100.0),
            "Gb/s" | "Gbit/s" | "Gbps" => Threshold::Gbps(number),
            "Mb/s" | "Mbit/s" | "Mbps" => Threshold::Gbps(number / 1e3),
            "GB/s" => Threshold::Gbps(number * 8.0),
            "MB/s" => Threshold::Gbps(number * 8.0 / 1e3),
            "ns" => Threshold::Microseconds(number / 1e3),
            "us" | "µs" => Threshold::Microseconds(number),
            "ms" => Threshold::Microseconds(number * 1e3),
            "/s" => Threshold::MessagesPerSecond(number),
            "k/s" => Threshold::MessagesPerSecond(number * 1e3),
            "M/s" => Threshold::MessagesPerSecond(number * 1e6),
            _ => return Err(wrong()),
        };
        Ok(Expect { text: text.to_owned(), threshold })
    }
}

impl Expect {
    /// Whether it fits the test.
    pub(super) fn check(&self, test: Test) -> Result<(), Failure> {
        let is_time = matches!(self.threshold, Threshold::Microseconds(_));
        match (test == Test::Latency, is_time) {
            (true, false) => Err(Failure::usage(format!(
                "--expect {}: a latency test needs a time, such as 10us",
                self.text
            ))),
            (false, true) => Err(Failure::usage(format!(
                "--expect {}: bandwidth and rate need a share, Gb/s or messages, such as 90%, 50Gb/s or 2M/s",
                self.text
            ))),
            _ => Ok(()),
        }
    }

    /// Compares the best result of the run with it.
    pub(super) fn evaluate(
        &self,
        points: &[Point],
        verdict: &Verdict,
    ) -> Result<Expectation, Failure> {
        let best = best(points);
        let unknown = |what: &str| Failure::failed(format!("--expect {}: {what}", self.text));
        let (reached, met) = match self.threshold {
            Threshold::Share(min) => {
                let ratio = verdict.ratio.ok_or_else(|| {
                    unknown("the expected bandwidth of this transport is unknown; use Gb/s instead")
                })?;
                (format!("{:.1}%", ratio * 100.0), ratio >= min)
            }
            Threshold::Gbps(min) => {
                let gbps = best.and_then(|best| best.gbps).or(verdict.reached_gbps);
                let gbps = gbps.ok_or_else(|| unknown("no bandwidth was measured"))?;
                (format!("{gbps:.2}Gb/s"), gbps >= min)
            }
            Threshold::MessagesPerSecond(min) => {
                let rates = points.iter().filter_map(|point| point.messages_per_second);
                let rate = rates.max_by(f64::total_cmp);
                let rate = rate.ok_or_else(|| unknown("no messages were counted"))?;
                (format!("{rate:.0}/s"), rate >= min)
            }
            Threshold::Microseconds(max) => {
                let latency = best.and_then(|best| best.latency.as_ref());
                let latency = latency.ok_or_else(|| unknown("no latency was measured"))?;
                let us = latency.p50_ns as f64 / 1e3;
                (format!("{us:.2}us"), us <= max)
            }
        };
        Ok(Expectation { expected: self.text.clone(), reached, met })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_parsed() {
        let threshold = |text: &str| text.parse::<Expect>().ok().map(|expect| expect.threshold);
        assert_eq!(threshold("90%"), Some(Threshold::Share(0.9)));
        assert_eq!(threshold("50Gb/s"), Some(Threshold::Gbps(50.0)));
        assert_eq!(threshold("1 GB/s"), Some(Threshold::Gbps(8.0)));
        assert_eq!(threshold("1.5ms"), Some(Threshold::Microseconds(1500.0)));
        assert_eq!(threshold("10us"), Some(Threshold::Microseconds(10.0)));
        assert_eq!(threshold("2M/s"), Some(Threshold::MessagesPerSecond(2e6)));
        for wrong in ["", "90", "%", "-1%", "0%", "NaN%", "5 parsecs", "1e999%"] {
            assert_eq!(threshold(wrong), None, "{wrong}");
        }
        let time: Expect = "10us".parse().expect("a time");
        assert!(time.check(Test::Latency).is_ok() && time.check(Test::Bandwidth).is_err());
    }
}
