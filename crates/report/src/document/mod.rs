//! The one document of every kind of run, as `--json` prints it and reports and histories read it.
//!
//! Its schema is `docs/bench.schema.json`. Every field is always there; what does not apply, or is not known, is null:
//! missing is missing, never zero. Units stand in names.

mod collective;
mod matrix;
mod point;
mod verdict;

pub use collective::{Collective, CollectiveRow, Half};
pub use matrix::{Failed, Matrix, SlowHost, SlowLink};
pub use point::{Point, Spread, Tool};
pub use verdict::{Cap, Expectation, Likely, Verdict};

use serde::{Deserialize, Serialize};

/// A run: what was asked, what was measured, and what is thought of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// The program's version.
    pub program: String,
    /// What kind of run it is.
    pub kind: RunKind,
    /// When it began, as RFC 3339 has it, in UTC.
    pub when: String,
    /// The host it was asked on.
    pub host: String,
    /// The other end, if there is one.
    pub peer: Option<String>,
    /// Each measurement.
    pub points: Vec<Point>,
    /// What is thought of it.
    pub verdict: Option<Verdict>,
    /// Of a mesh: every pair.
    pub matrix: Option<Matrix>,
    /// Of NCCL and PyTorch: their table.
    pub collective: Option<Collective>,
}

/// What kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Bandwidth.
    Bw,
    /// Latency.
    Lat,
    /// Operations a second.
    Rate,
    /// TCP and RDMA beside each other.
    Compare,
    /// Every pair of several hosts.
    Mesh,
    /// nccl-tests.
    Nccl,
    /// PyTorch.
    Torch,
}

/// Tells these documents from others, and their versions apart.
pub const FORMAT: &str = "wirelane bench 1";

impl Document {
    /// A document of nothing yet.
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

    /// One that was written before; what is wrong with it otherwise.
    pub fn parse(text: &str) -> Result<Document, String> {
        let format = serde_json::from_str::<serde_json::Value>(text)
            .map_err(|error| format!("it is no JSON: {error}"))?;
        match format["format"].as_str() {
            Some(FORMAT) => {}
            Some(other) => {
                let other: String =
                    other.chars().filter(|letter| !letter.is_control()).take(40).collect();
                return Err(format!("it is `{other}`, and this program reads `{FORMAT}`"));
            }
            None => return Err(format!("it is no result of `wirelane bench`: no `{FORMAT}`")),
        }
        serde_json::from_str(text).map_err(|error| format!("it is not as the schema says: {error}"))
    }
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
    /// As it is typed and written.
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
    fn another_document_is_refused_with_its_name() {
        let document = Document::new(RunKind::Bw, "2026-01-01T00:00:00Z".into(), "a".into());
        let text = serde_json::to_string(&document).expect("JSON");
        assert_eq!(Document::parse(&text), Ok(document));
        let newer = text.replace("bench 1", "bench 2");
        assert!(Document::parse(&newer).expect_err("a newer one").contains("`wirelane bench 2`"));
        let more = text.replace("\"peer\"", "\"pear\"");
        assert!(Document::parse(&more).expect_err("an unknown field").contains("pear"));
        assert!(Document::parse("[]").is_err() && Document::parse("BW").is_err());
    }
}
