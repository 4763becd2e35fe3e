//! The verdict on a run. It is part of the document; `doctor` gives it.

use serde::{Deserialize, Serialize};

/// Whether the results are what this path should give.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// All of it in a sentence.
    pub summary: String,
    /// What the path should give: the least of the caps.
    pub should_give_gbps: Option<f64>,
    /// What caps it, the lowest first.
    pub caps: Vec<Cap>,
    /// The best that was reached.
    pub reached_gbps: Option<f64>,
    /// That, as a part of what it should give; 1 is all of it.
    pub part: Option<f64>,
    /// What likely limits it.
    pub likely: Vec<Likely>,
    /// What else to know: targets that were missed, what has no verdict.
    pub notes: Vec<String>,
    /// Whether what the user expects was reached.
    pub expectation: Option<Expectation>,
}

/// Something that caps a path's bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// The port, the PCIe hop, …
    pub what: String,
    /// What is left for the user's bytes there, in gigabits (10^9) a second.
    pub gbps: f64,
    /// What that was worked out from.
    pub evidence: String,
}

/// A likely limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Likely {
    /// The limit.
    pub what: String,
    /// What speaks for it.
    pub evidence: String,
    /// What to do, if something can be done.
    pub fix: Option<String>,
}

/// What `--expect` asked, and what came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// As it was typed.
    pub asked: String,
    /// What was reached, in the same terms.
    pub reached: String,
    /// Whether that is enough.
    pub met: bool,
}
