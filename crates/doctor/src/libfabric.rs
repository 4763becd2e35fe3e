//! The state of libfabric on the running machine. The program queries it and passes the result: nothing here loads a
//! library.

/// The user's settings for libfabric, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libfabric {
    /// The provider that the settings name.
    pub provider: Option<String>,
    /// The library file that the user names.
    pub library_file: Option<String>,
    /// The result of the query.
    pub answer: Answer,
}

/// The result of querying libfabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Not loaded, since it is not needed; the reason.
    NotQueried(String),
    /// It cannot be used.
    Unavailable {
        /// Why.
        why: String,
        /// What to do.
        fix: String,
    },
    /// It was loaded.
    Loaded(Library),
}

/// A libfabric that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// `1.17`.
    pub version: String,
    /// The file it was loaded from.
    pub file: String,
    /// Its providers of reliable datagrams, without duplicates: `efa`, `tcp;ofi_rxm`.
    pub providers: Vec<String>,
    /// The provider that links use, or why they do not use libfabric.
    pub links: Result<Choice, String>,
    /// The provider that `--transport ofi` uses, and why; or why there is none.
    pub transport_ofi: String,
}

/// The provider that links use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The provider.
    pub provider: String,
    /// Why this one.
    pub why: String,
    /// Whether libfabric caches its memory registrations, which links cannot use.
    pub caches_registrations: bool,
}

impl Libfabric {
    /// The library, if it was loaded.
    pub(super) fn library(&self) -> Option<&Library> {
        match &self.answer {
            Answer::Loaded(library) => Some(library),
            Answer::NotQueried(_) | Answer::Unavailable { .. } => None,
        }
    }
}
