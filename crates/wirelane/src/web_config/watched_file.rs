//! A web config file that is reloaded when it, or a file that it names, changes.
//!
//! It is checked at every connection and request, by time and size. Errors in a new version are logged
//! once, and the old one stays active.

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
pub(super) struct WatchedFile {
    path: PathBuf,
    current: Mutex<Current>,
}

/// A loaded file.
#[derive(Debug)]
pub(super) struct LoadedConfig {
    pub(super) config: Config,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) limiter: Option<Arc<Limiter>>,
}

#[derive(Debug)]
struct Current {
    loaded: Arc<LoadedConfig>,
    /// The state of the files when they were loaded.
    stamps: Vec<Stamp>,
}

impl WatchedFile {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let (stamps, loaded) = load(path);
        let current = Current { loaded: Arc::new(loaded?), stamps };
        Ok(WatchedFile { path: path.to_owned(), current: Mutex::new(current) })
    }

    /// The active configuration; reloads the files if they have changed.
    pub(super) fn config(&self) -> Arc<LoadedConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Vec<Stamp> = current.stamps.iter().map(|stamp| Stamp::of(&stamp.path)).collect();
        if now == current.stamps || now.iter().any(Stamp::is_recent) {
            return current.loaded.clone();
        }
        let (stamps, new) = load(&self.path);
        current.stamps = stamps;
        match new.and_then(|new| replace(&self.path, &current.loaded, new)) {
            Ok(new) => {
                tracing::info!(file = %self.path.display(), "reloaded the web config file");
                current.loaded = Arc::new(new);
            }
            Err(failure) => {
                tracing::warn!(%failure, "the web config file is not reloaded");
            }
        }
        current.loaded.clone()
    }
}

/// Loads the files. Returns their stamps also on errors, since they are reloaded when one of them changes.
fn load(path: &Path) -> (Vec<Stamp>, Result<LoadedConfig, Failure>) {
    let mut stamps = vec![Stamp::of(path)];
    let loaded = file::read(path).and_then(|config| {
        let files = config.tls.as_ref().map(|tls| tls.files()).unwrap_or_default();
        stamps.extend(files.iter().map(|file| Stamp::of(file)));
        let tls = config.tls.as_ref().map(|tls| tls.open()).transpose()?;
        let limiter = config.rate.map(|rate| Arc::new(Limiter::new(rate, Instant::now())));
        Ok(LoadedConfig { config, tls, limiter })
    });
    (stamps, loaded)
}

/// Checks that a new configuration can replace the active one, and keeps the limiter if its rate is unchanged.
fn replace(
    path: &Path,
    old: &LoadedConfig,
    mut new: LoadedConfig,
) -> Result<LoadedConfig, Failure> {
    let path = path.display();
    // More likely a full disk than the intention to remove all access rules.
    if new.config.is_empty && !old.config.is_empty {
        return Err(Failure::usage(format!("{path} is empty; restart to apply that")));
    }
    if new.tls.is_some() != old.tls.is_some() {
        let switch = if old.tls.is_some() { "from TLS to plain HTTP" } else { "to TLS" };
        return Err(Failure::usage(format!(
            "{path} would change {switch}, which requires a restart"
        )));
    }
    if let (Some(old), Some(added)) = (&old.limiter, &new.limiter)
        && old.rate() == added.rate()
    {
        new.limiter = Some(old.clone());
    }
    Ok(new)
}

/// The state of a file at a time; `None` if it did not exist.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    metadata: Option<FileState>,
}

#[derive(Debug, PartialEq, Eq)]
struct FileState {
    inode: (u64, u64),
    bytes: u64,
    modified: Option<SystemTime>,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let metadata = std::fs::metadata(path).ok().map(|data| FileState {
            inode: (data.dev(), data.ino()),
            bytes: data.len(),
            modified: data.modified().ok(),
            changed: (data.ctime(), data.ctime_nsec()),
        });
        Stamp { path: path.to_owned(), metadata }
    }

    /// Whether it may still be being written.
    fn is_recent(&self) -> bool {
        let modified = self.metadata.as_ref().and_then(|state| state.modified);
        modified.is_some_and(|at| at.elapsed().is_ok_and(|age| age < SETTLE_TIME))
    }
}

/// A file that was not modified for this long is assumed to be complete.
const SETTLE_TIME: Duration = Duration::from_millis(200);
