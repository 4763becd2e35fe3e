//! What a web config file says.

use std::path::PathBuf;
use std::time::Duration;

use access::passwords::Users;
use hyper::header::{HeaderName, HeaderValue};

use super::tls::TlsSection;

/// What a file says.
#[derive(Debug)]
pub(super) struct Config {
    /// None: plain HTTP.
    pub(super) tls: Option<TlsSection>,
    /// Set in every answer.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) users: Users,
    pub(super) rate: Option<Rate>,
    /// Whether it says nothing at all.
    pub(super) is_empty: bool,
}

/// How often somebody may ask: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// A token comes back after this.
    pub(super) interval: Duration,
    /// As many tokens as there are.
    pub(super) burst: u32,
}

/// Text in the file itself, or in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Inline(String),
    File(PathBuf),
}
