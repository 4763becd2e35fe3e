//! The document of a run, of every kind: printed by `--json`, read by reports and the history.
//!
//! Its schema is `docs/bench.schema.json`. Every field is always present; a value that does not apply, or is unknown,
//! is null, never zero. Names contain units.

mod collective;
mod matrix;
mod point;
mod verdict;

pub use collective::{Collective, CollectiveResult, CollectiveRow};
pub use matrix::{FailedPair, Matrix, SlowHost, SlowPair};
pub use point::{Point, PointLatency, Tool};
pub use verdict::{Bottleneck, Bound, Expectation, Verdict};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A run: its parameters, results and verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// The program's version.
    pub program: String,
    /// The kind of run.
    pub kind: RunKind,
    /// Start time, RFC 3339, in UTC.
    pub when: String,
    /// The host that started it.
    pub host: String,
    /// The peer, if there is one.
    pub peer: Option<String>,
    /// The measurements.
    pub points: Vec<Point>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// Mesh: every pair.
    pub matrix: Option<Matrix>,
    /// NCCL and PyTorch: their table.
    pub collective: Option<Collective>,
}

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Bandwidth.
    Bw,
    /// Latency.
    Lat,
    /// Message rate.
    Rate,
    /// TCP compared with RDMA.
    Compare,
    /// Every pair of several hosts.
    Mesh,
    /// nccl-tests.
    Nccl,
    /// PyTorch.
    Torch,
}

/// Format and version of these documents.
pub const FORMAT: &str = "wirelane bench 1";

impl Document {
    /// A document without results.
    pub fn new(kind: RunKind, when: String, host: String) -> Document {
        Document {
            format: FORMAT.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            kind,
            when,
            host,
            peer: None,
            points: Vec::new(),
            verdict: None,
            matrix: None,
            collective: None,
        }
    }

    /// Parses a document. Its texts may come from other machines: control characters are replaced by spaces, so that each is one
    /// line.
    pub fn parse(text: &str) -> Result<Document, String> {
        let mut document: Value =
            serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        replace_controls(&mut document);
        match document["format"].as_str() {
            Some(FORMAT) => {}
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                return Err(format!("unsupported format `{other}`: this program reads `{FORMAT}`"));
            }
            None => {
                return Err(format!(
                    "not a result of `wirelane bench`: its format is not `{FORMAT}`"
                ));
            }
        }
        serde_json::from_value(document)
            .map_err(|error| format!("does not match the schema: {}", one_line(&error.to_string())))
    }
}

/// Replaces control characters in all texts of a value by spaces.
pub fn replace_controls(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(char::is_control) => *text = one_line(text),
        Value::Array(values) => values.iter_mut().for_each(replace_controls),
        Value::Object(values) => values.values_mut().for_each(replace_controls),
        _ => {}
    }
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

impl From<crate::Test> for RunKind {
    fn from(test: crate::Test) -> RunKind {
        match test {
            crate::Test::Bandwidth => RunKind::Bw,
            crate::Test::Latency => RunKind::Lat,
            crate::Test::Rate => RunKind::Rate,
        }
    }
}

impl RunKind {
    /// Its name on the command line and in documents.
    pub fn name(self) -> &'static str {
        match self {
            RunKind::Bw => "bw",
            RunKind::Lat => "lat",
            RunKind::Rate => "rate",
            RunKind::Compare => "compare",
            RunKind::Mesh => "mesh",
            RunKind::Nccl => "nccl",
            RunKind::Torch => "torch",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_and_unknown_fields_are_refused() {
        let document = Document::new(RunKind::Bw, "2026-01-01T00:00:00Z".into(), "a".into());
        let text = serde_json::to_string(&document).expect("JSON");
        assert_eq!(Document::parse(&text), Ok(document));
        let newer = text.replace("bench 1", "bench 2");
        assert!(Document::parse(&newer).expect_err("a newer one").contains("`wirelane bench 2`"));
        let more = text.replace("\"peer\"", "\"pear\"");
        assert!(Document::parse(&more).expect_err("an unknown field").contains("pear"));
        assert!(Document::parse("[]").is_err() && Document::parse("BW").is_err());
    }

    #[test]
    fn texts_are_one_line_each() {
        let document = Document::new(RunKind::Bw, "2026-01-01".into(), "a\nb\u{1b}\u{9b}é".into());
        let text = serde_json::to_string(&document).expect("JSON");
        assert_eq!(Document::parse(&text).expect("a document").host, "a b  é");
        let more = text.replace("\"peer\"", "\"pe\\nar\"");
        assert!(Document::parse(&more).expect_err("an unknown field").contains("pe ar"));
    }
}
