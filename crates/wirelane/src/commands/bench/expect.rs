//! What the user expects of a run: `90%`, `50Gb/s`, `10us`, `2M/s`.

use std::str::FromStr;

use doctor::verdict::best;
use report::{Expectation, Point, Test, Verdict};

use crate::output::Failure;

/// What a run must reach, and as it was typed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expect {
    text: String,
    least: Least,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Least {
    /// Of what the way should give.
    Part(f64),
    Gbps(f64),
    /// The median at most.
    Microseconds(f64),
    MessagesPerSecond(f64),
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write a part (90%), a bandwidth (50Gb/s), a latency (10us) or a rate (2M/s)".to_owned()
        };
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        if !number.is_finite() || number <= 0.0 {
            return Err(wrong());
        }
        let least = match text[digits.len()..].trim() {
            "%" => Least::Part(number / 100.0),
            "Gb/s" | "Gbit/s" | "Gbps" => Least::Gbps(number),
            "Mb/s" | "Mbit/s" | "Mbps" => Least::Gbps(number / 1e3),
            "GB/s" => Least::Gbps(number * 8.0),
            "MB/s" => Least::Gbps(number * 8.0 / 1e3),
            "ns" => Least::Microseconds(number / 1e3),
            "us" | "µs" => Least::Microseconds(number),
            "ms" => Least::Microseconds(number * 1e3),
            "/s" => Least::MessagesPerSecond(number),
            "k/s" => Least::MessagesPerSecond(number * 1e3),
            "M/s" => Least::MessagesPerSecond(number * 1e6),
            _ => return Err(wrong()),
        };
        Ok(Expect { text: text.to_owned(), least })
    }
}

impl Expect {
    /// Whether it can be asked of such a test.
    pub(super) fn check(&self, test: Test) -> Result<(), Failure> {
        let is_time = matches!(self.least, Least::Microseconds(_));
        match (test == Test::Latency, is_time) {
            (true, false) => Err(Failure::usage(format!(
                "--expect {}: of a latency test expect a time, such as 10us",
                self.text
            ))),
            (false, true) => Err(Failure::usage(format!(
                "--expect {}: of bandwidth or rate expect a part, Gb/s or messages, such as 90%, 50Gb/s or 2M/s",
                self.text
            ))),
            _ => Ok(()),
        }
    }

    /// What came of it, by the best of the run.
    pub(super) fn judge(
        &self,
        points: &[Point],
        verdict: &Verdict,
    ) -> Result<Expectation, Failure> {
        let best = best(points);
        let unknown = |what: &str| Failure::failed(format!("--expect {}: {what}", self.text));
        let (reached, met) = match self.least {
            Least::Part(least) => {
                let part = verdict.part.ok_or_else(|| {
                    unknown("the expected bandwidth of this transport is not known; expect Gb/s instead")
                })?;
                (format!("{:.1}%", part * 100.0), part >= least)
            }
            Least::Gbps(least) => {
                let gbps = best.and_then(|best| best.gbps).or(verdict.reached_gbps);
                let gbps = gbps.ok_or_else(|| unknown("no bandwidth was measured"))?;
                (format!("{gbps:.2}Gb/s"), gbps >= least)
            }
            Least::MessagesPerSecond(least) => {
                let rates = points.iter().filter_map(|point| point.messages_per_second);
                let rate = rates.max_by(f64::total_cmp);
                let rate = rate.ok_or_else(|| unknown("no messages were counted"))?;
                (format!("{rate:.0}/s"), rate >= least)
            }
            Least::Microseconds(most) => {
                let spread = best.and_then(|best| best.latency.as_ref());
                let spread = spread.ok_or_else(|| unknown("nothing was timed"))?;
                let us = spread.p50_ns as f64 / 1e3;
                (format!("{us:.2}us"), us <= most)
            }
        };
        Ok(Expectation { asked: self.text.clone(), reached, met })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_as_people_write_them() {
        let least = |text: &str| text.parse::<Expect>().ok().map(|expect| expect.least);
        assert_eq!(least("90%"), Some(Least::Part(0.9)));
        assert_eq!(least("50Gb/s"), Some(Least::Gbps(50.0)));
        assert_eq!(least("1 GB/s"), Some(Least::Gbps(8.0)));
        assert_eq!(least("1.5ms"), Some(Least::Microseconds(1500.0)));
        assert_eq!(least("10us"), Some(Least::Microseconds(10.0)));
        assert_eq!(least("2M/s"), Some(Least::MessagesPerSecond(2e6)));
        for wrong in ["", "90", "%", "-1%", "0%", "NaN%", "5 parsecs", "1e999%"] {
            assert_eq!(least(wrong), None, "{wrong}");
        }
        let time: Expect = "10us".parse().expect("a time");
        assert!(time.check(Test::Latency).is_ok() && time.check(Test::Bandwidth).is_err());
    }
}
