//! The disk of a store on the running machine, as its metrics describe it. The program queries them and passes the result:
//! nothing here opens a connection.

/// The disk of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreDisk {
    /// The address of its metrics.
    pub address: String,
    /// The data directory.
    pub path: String,
    /// Whether writes are refused.
    pub failing: bool,
    /// Writes that wait to be saved.
    pub queue: u64,
    /// Batches saved since the start, each with one sync.
    pub saves: u64,
    /// The p50 of their duration, between these seconds.
    pub save_p50: Option<(f64, f64)>,
    /// The p99.
    pub save_p99: Option<(f64, f64)>,
    /// How long the current save has run, in seconds; 0 if there is none.
    pub save_running: f64,
    /// The bytes of the log.
    pub log_bytes: u64,
    /// All bytes on the disk.
    pub bytes: u64,
    /// Reads that found a damaged value since the start.
    pub damaged: u64,
    /// By how many seconds the clock was set since the start, forward or back.
    pub clock_set: f64,
    /// How many seconds the machine slept since the start.
    pub suspended: f64,
}
