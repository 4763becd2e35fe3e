//! A web config file, in the format of Prometheus's exporter-toolkit: TLS, users, headers, a rate limit.
//!
//! [`Config`] is what a file says; `file` reads it, `fields` finds its way in the document. TLS is made of its section
//! in `tls`, by names that are Go's (`names`), with callers judged by `client`.

mod client;
mod duration;
mod fields;
mod file;
mod names;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use access::passwords::Users;
use hyper::header::{HeaderName, HeaderValue};

pub(crate) use file::read;
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
