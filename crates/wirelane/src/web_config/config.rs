//! The contents of a web config file.

use std::path::PathBuf;
use std::time::Duration;

use access::passwords::Users;
use hyper::header::{HeaderName, HeaderValue};

use super::tls::TlsSection;

/// The contents of a file.
#[derive(Debug)]
pub(super) struct Config {
    /// None: plain HTTP.
    pub(super) tls: Option<TlsSection>,
    /// Set in every reply.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) users: Users,
    pub(super) rate: Option<Rate>,
    /// Whether the file is empty.
    pub(super) is_empty: bool,
}

/// A rate limit: the parameters of a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Time to refill one token.
    pub(super) interval: Duration,
    /// Capacity of the bucket.
    pub(super) burst: u32,
}

/// Text in the file itself, or the path of another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Inline(String),
    File(PathBuf),
}
