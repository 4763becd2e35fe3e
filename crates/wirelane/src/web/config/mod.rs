//! A web config file, in the format of Prometheus's exporter-toolkit: TLS, users, headers, a rate limit.
//!
//! [`Config`] is what a file says; `file` reads it, `fields` finds its way in the document. TLS is made of its section
//! in `tls`, by names that are Go's (`names`), with callers judged by `client`. What a hashed password is, is in `hash`.

mod client;
mod duration;
mod fields;
mod file;
mod hash;
mod names;
mod san;
mod tls;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

pub(crate) use file::read;
pub(crate) use hash::Hash;
pub(crate) use tls::TlsSection;

/// What a file says.
#[derive(Debug)]
pub(crate) struct Config {
    /// None: plain HTTP.
    pub(crate) tls: Option<TlsSection>,
    /// Set in every answer.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) users: Users,
    pub(crate) rate: Option<Rate>,
    /// Whether it says nothing at all.
    pub(crate) is_empty: bool,
}

/// Who may come in by name and password; if there are none, everybody.
#[derive(Debug)]
pub(crate) struct Users {
    named: HashMap<String, Hash>,
    /// Compared with for names that are not there, so that the time an answer takes does not tell which are.
    decoy: Hash,
}

/// How often somebody may ask: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// A token comes back after this.
    pub(crate) interval: Duration,
    /// As many tokens as there are.
    pub(crate) burst: u32,
}

/// Text in the file itself, or in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Inline(String),
    File(PathBuf),
}

impl Users {
    pub(crate) fn new(named: HashMap<String, Hash>) -> Self {
        let cost = named.values().map(Hash::cost).max().unwrap_or(Hash::USUAL_COST);
        Users { named, decoy: Hash::decoy(cost) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// What a password for this name is compared with, and whether it can be right at all.
    pub(crate) fn hash_of(&self, name: &str) -> (&Hash, bool) {
        match self.named.get(name) {
            Some(hash) => (hash, true),
            None => (&self.decoy, false),
        }
    }
}
