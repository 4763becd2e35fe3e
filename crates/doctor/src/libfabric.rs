//! What libfabric says on the running machine. The program asks it and hands the answer in: nothing here loads a
//! library.

/// What the user says of libfabric, and what it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libfabric {
    /// The provider that the settings name.
    pub provider: Option<String>,
    /// The file that the user names.
    pub named: Option<String>,
    /// What it answered.
    pub answer: Answer,
}

/// What libfabric answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nobody has a use for it, and so it was not loaded; why.
    NotAsked(String),
    /// It cannot be used.
    Off {
        /// Why.
        reason: String,
        /// What to do.
        fix: String,
    },
    /// It is there.
    Here(Here),
}

/// A libfabric that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// `1.17`.
    pub version: String,
    /// Where it was loaded from.
    pub file: String,
    /// Its providers of reliable datagrams, each once: `efa`, `tcp;ofi_rxm`.
    pub providers: Vec<String>,
    /// What links go by, or why they do not go by libfabric.
    pub links: Result<Choice, String>,
    /// What `--transport ofi` takes, and why; or why nothing.
    pub alone: String,
}

/// What links go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The provider.
    pub provider: String,
    /// Why this one.
    pub why: String,
    /// Whether libfabric keeps its registrations in a cache, which links have no use for.
    pub keeps_registrations: bool,
}

impl Libfabric {
    /// What it is, if it answered.
    pub(super) fn here(&self) -> Option<&Here> {
        match &self.answer {
            Answer::Here(here) => Some(here),
            Answer::NotAsked(_) | Answer::Off { .. } => None,
        }
    }
}
