//! A web config file that is read again whenever it changes, and so are the files that it names.
//!
//! It is looked at for every connection and request, by its time and size. What is wrong with a new one is logged
//! once, and the old one stays in force.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;

use super::config::Config;
use super::file;
use super::limiter::Limiter;
use crate::output::Failure;

#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    held: Mutex<Held>,
}

/// What is asked of callers now.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) config: Config,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) limiter: Option<Arc<Limiter>>,
}

#[derive(Debug)]
struct Held {
    terms: Arc<Terms>,
    /// The files as they were when they were last read.
    seen: Vec<Stamp>,
}

impl Watched {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let (seen, terms) = load(path);
        let held = Held { terms: Arc::new(terms?), seen };
        Ok(Watched { path: path.to_owned(), held: Mutex::new(held) })
    }

    /// As the files are now.
    pub(super) fn terms(&self) -> Arc<Terms> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Vec<Stamp> = held.seen.iter().map(|stamp| Stamp::of(&stamp.path)).collect();
        if now == held.seen || now.iter().any(Stamp::is_fresh) {
            return held.terms.clone();
        }
        let (seen, fresh) = load(&self.path);
        held.seen = seen;
        match fresh.and_then(|fresh| follow(&self.path, &held.terms, fresh)) {
            Ok(fresh) => {
                tracing::info!(file = %self.path.display(), "read the web config file again");
                held.terms = Arc::new(fresh);
            }
            Err(failure) => {
                tracing::warn!(%failure, "the web config stays as it was");
            }
        }
        held.terms.clone()
    }
}

/// Reads the files, and says which: also of what is wrong, since it is read again when one of them changes.
fn load(path: &Path) -> (Vec<Stamp>, Result<Terms, Failure>) {
    let mut seen = vec![Stamp::of(path)];
    let terms = file::read(path).and_then(|config| {
        let files = config.tls.as_ref().map(|tls| tls.files()).unwrap_or_default();
        seen.extend(files.iter().map(|file| Stamp::of(file)));
        let tls = config.tls.as_ref().map(|tls| tls.open()).transpose()?;
        let limiter = config.rate.map(|rate| Arc::new(Limiter::new(rate, Instant::now())));
        Ok(Terms { config, tls, limiter })
    });
    (seen, terms)
}

/// What may come after what is in force.
fn follow(path: &Path, old: &Terms, mut fresh: Terms) -> Result<Terms, Failure> {
    let path = path.display();
    // A disk that was full when it was written, more likely than a wish to let everybody in.
    if fresh.config.is_empty && !old.config.is_empty {
        return Err(Failure::usage(format!("{path} is empty; restart if that is meant")));
    }
    if fresh.tls.is_some() != old.tls.is_some() {
        let switch = if old.tls.is_some() { "from TLS to plain HTTP" } else { "to TLS" };
        return Err(Failure::usage(format!("{path} would change {switch}: that takes a restart")));
    }
    if let (Some(was), Some(is)) = (&old.limiter, &fresh.limiter)
        && was.rate() == is.rate()
    {
        fresh.limiter = Some(was.clone());
    }
    Ok(fresh)
}

/// A file as it was at a moment; none if it was not there.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    found: Option<Found>,
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    inode: (u64, u64),
    bytes: u64,
    modified: Option<SystemTime>,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let found = std::fs::metadata(path).ok().map(|data| Found {
            inode: (data.dev(), data.ino()),
            bytes: data.len(),
            modified: data.modified().ok(),
            changed: (data.ctime(), data.ctime_nsec()),
        });
        Stamp { path: path.to_owned(), found }
    }

    /// Whether somebody may still be writing it.
    fn is_fresh(&self) -> bool {
        let modified = self.found.as_ref().and_then(|found| found.modified);
        modified.is_some_and(|at| at.elapsed().is_ok_and(|age| age < SETTLED))
    }
}

/// A file that was not written for so long is whole, for all that can be told.
const SETTLED: Duration = Duration::from_millis(200);
