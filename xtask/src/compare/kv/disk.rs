//! Durable stores: their data folders, the time to restart, and the cost of a value that is not
//! in memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::pack::Pack;
use super::server::Server;
use super::wirelane::{self, Bench};
use super::{files, redis};
use crate::{Failure, shell};

/// Data folders on the disk of cargo's target folder or of the archive, removed on drop.
pub(super) struct Data(PathBuf);

impl Data {
    pub(super) fn new() -> Result<Self, Failure> {
        let path = match Pack::current() {
            Some(pack) => pack.data(),
            None => shell::target().join("xtask/compare-disk"),
        };
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(|error| format!("create {path:?}: {error}"))?;
        Ok(Data(path))
    }

    pub(super) fn folder(&self, name: &str) -> Result<String, Failure> {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("create {path:?}: {error}"))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Starts ours with this much memory.
    pub(super) fn wirelane(&self, memory: &str) -> Result<Server, Failure> {
        let folder = self.folder("wirelane")?;
        wirelane::start_with(memory, &["--data-dir", &folder])
    }

    pub(super) fn redis(&self) -> Result<Server, Failure> {
        redis::start_durable(&self.folder("redis")?, true)
    }

    /// Its log grows without a limit.
    pub(super) fn redis_without_rewrites(&self) -> Result<Server, Failure> {
        redis::start_durable(&self.folder("redis-without-rewrites")?, false)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Kills a store with a million keys; returns the seconds from its next start to the first value read, by a client that
/// starts when the port is open.
pub(super) fn restart(data: &Data) -> Result<Vec<f64>, Failure> {
    let server = data.wirelane(wirelane::MEMORY)?;
    // Only once: the next round finds them.
    if wirelane::get(&server, PROBE).is_err() {
        wirelane::store(&server, MILLION, 100)?;
    }
    wirelane::put(&server, PROBE, "here")?;
    drop(server);
    let started = Instant::now();
    let server = wirelane::spawn(wirelane::MEMORY, &["--data-dir", &data.folder("wirelane")?])?;
    let deadline = started + Duration::from_secs(60);
    while wirelane::get(&server, PROBE)? != "here" {
        if Instant::now() > deadline {
            return Err("the key was not found within a minute".to_owned());
        }
    }
    Ok(vec![started.elapsed().as_secs_f64()])
}

/// Reads per second, one at a time, of values of which a twentieth fits into memory.
pub(super) fn cold_gets(server: &Server) -> Result<Vec<f64>, Failure> {
    let bench =
        Bench { transport: "shm", size: VALUE, depth: 1, ops: READS, device: None, clients: 1 };
    Ok(vec![bench.rate_of(server, "1.0", VALUES)?])
}

/// The same from files, one for each value.
pub(super) fn file_reads(data: &Data) -> Result<Vec<f64>, Failure> {
    files::measure(&data.folder("files")?, VALUES, VALUE, READS)
}

/// Memory for a twentieth of the values.
pub(super) const SMALL_MEMORY: &str = "4MiB";
const VALUES: usize = 20_000;
const VALUE: usize = 4096;
const READS: usize = 40_000;
const MILLION: usize = 1_000_000;
const PROBE: &str = "compare/probe";
