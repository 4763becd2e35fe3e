//! The store with its bytes and its clock, used by both front ends: links and gRPC.

mod clock;
pub(crate) mod outcome;
pub(crate) mod persistence;
pub(crate) mod quota;
pub(crate) mod session;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fabric::{Error, Memory, Pages};
use rustix::time::{ClockId, clock_gettime};

use kv_store::{Metadata, Pinned, Ranges, Reservation, ReserveError, Store, Timestamp, WhenFull};

use access::Access;
pub use clock::ClockWatch;
pub use persistence::PersistenceCounts;
use persistence::{OpenDisk, Persistence};
use quota::Claim;
pub use quota::Quota;
pub use session::{Session, SessionId, Sessions, WriteStart};

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The size of the pool in bytes.
    pub memory: usize,
    /// The kind of pages of the pool.
    pub pages: Pages,
    /// What to do when the pool is full.
    pub when_full: WhenFull,
    /// The longest value accepted; `None`: what fits into the pool.
    pub max_value: Option<u64>,
    /// The limit of bytes of values that are being written; `None`: half of the memory.
    pub max_in_flight: Option<u64>,
    /// How long a read handle or a staged value may be idle.
    pub idle_timeout: Duration,
    /// The directory for acknowledged writes; `None`: in-memory only.
    pub data_dir: Option<PathBuf>,
}

/// Keys, values, sessions.
pub struct Engine {
    /// The index: keys to ranges of the pool.
    pub index: Store,
    /// The pool.
    memory: Memory,
    max_value: u64,
    idle_timeout: Duration,
    /// The clock's time at the start.
    started: Duration,
    epoch: u64,
    quota: Arc<Quota>,
    pub(crate) sessions: Sessions,
    access: Arc<Access>,
    /// See [`Engine::counts`].
    pub(crate) counts: Counts,
    persistence: OnceLock<Persistence>,
    clock: ClockWatch,
}

/// Counters of the front ends.
#[derive(Debug, Default)]
pub struct Counts {
    /// Batches answered on links.
    pub batches: AtomicU64,
    /// Requests in them.
    pub requests: AtomicU64,
    /// Bytes of values sent.
    pub bytes_out: AtomicU64,
    /// Values that clients on this host read in place.
    pub in_place_reads: AtomicU64,
    /// Bytes of values received.
    pub bytes_in: AtomicU64,
    /// Clients that broke the protocol.
    pub protocol_errors: AtomicU64,
    /// Read handles and staged values that were closed because they were idle.
    pub idle_closed: AtomicU64,
    /// Batches refused because the store was shutting down.
    pub refused: AtomicU64,
}

impl Engine {
    /// Allocates the memory, without touching it: see [`Engine::pool`]. Every client may do everything.
    pub fn new(settings: &Settings) -> Result<Arc<Self>, Error> {
        Engine::with_access(settings, Access::allow_all())
    }

    /// The same, with access control.
    pub fn with_access(settings: &Settings, access: Arc<Access>) -> Result<Arc<Self>, Error> {
        Engine::with_disk_writer(settings, access, |writer| writer)
    }

    /// The same, with a wrapped disk, for tests that inject faults.
    pub fn with_disk_writer(
        settings: &Settings,
        access: Arc<Access>,
        wrap: impl FnOnce(Box<dyn kv_disk::DiskWriter>) -> Box<dyn kv_disk::DiskWriter>,
    ) -> Result<Arc<Self>, Error> {
        let since = unix_time();
        // With a disk the clock does not matter: the number of the last run is stored.
        let opened = settings.data_dir.as_deref();
        let opened = opened.map(|path| OpenDisk::new(path, since.as_secs(), wrap)).transpose();
        let opened = opened.map_err(|error| open_error(&error))?;
        let run = opened.as_ref().map_or(since.as_secs(), |opened| opened.run);
        Engine::for_run(settings, access, opened, run)
    }

    /// The engine of this run, whose number is unique.
    pub(crate) fn for_run(
        settings: &Settings,
        access: Arc<Access>,
        opened: Option<OpenDisk>,
        run: u64,
    ) -> Result<Arc<Self>, Error> {
        let memory = Memory::allocate(settings.memory, settings.pages)?;
        // The run in the high half, writes in the low one: no run reuses a version of an earlier one, unless that made
        // 2^32 writes per second, or the clock was set back between the two.
        let first_version = (run << 32) + 1;
        let [seed, epoch] = [0; 2].map(|_: u32| random());
        let index = Store::new(kv_store::Settings {
            pool_bytes: settings.memory as u64,
            // Keys may take as much as values, so a store takes at most twice its memory.
            index_bytes: (settings.memory as u64).max(MIN_INDEX_BYTES),
            shards: SHARDS,
            // With a disk, values may always be evicted from memory.
            when_full: if opened.is_some() { WhenFull::Evict } else { settings.when_full },
            first_version,
            seed,
        });
        let max_in_flight = settings.max_in_flight.unwrap_or(settings.memory as u64 / 2);
        let quota = Arc::new(Quota::new(max_in_flight));
        let engine = Arc::new(Engine {
            index,
            max_value: settings.max_value.unwrap_or(u64::MAX).min(settings.memory as u64),
            memory,
            idle_timeout: settings.idle_timeout,
            started: time_since_boot(),
            epoch,
            quota,
            sessions: Sessions::for_store(settings.memory, MAX_SESSIONS),
            access,
            counts: Counts::default(),
            persistence: OnceLock::new(),
            clock: ClockWatch::start(),
        });
        if let Some(opened) = opened {
            let started = opened.start(&engine);
            let persistence = started.map_err(|error| {
                let fix = "raise the limit of processes: `ulimit -u`";
                Error::new(fabric::ErrorKind::System, "start the threads for the disk", error, fix)
            })?;
            let _ = engine.persistence.set(persistence);
        }
        Ok(engine)
    }

    /// The threads of the disk, if the store has one.
    #[inline]
    pub(crate) fn persistence(&self) -> Option<&Persistence> {
        self.persistence.get()
    }

    /// Whether the store has a disk.
    #[inline]
    pub(crate) fn has_disk(&self) -> bool {
        self.persistence().is_some()
    }

    /// The state of the disk, if the store has one.
    pub fn disk_status(&self) -> Option<DiskStatus<'_>> {
        self.persistence().map(|persistence| DiskStatus {
            counts: persistence.counts(),
            disk: persistence.disk(),
        })
    }

    /// Ends the threads of the disk, after all queued requests.
    pub fn close(&self) {
        if let Some(persistence) = self.persistence() {
            persistence.close();
        }
    }

    /// The wall clock in milliseconds since 1970: for expiries on the disk, which other runs read.
    pub(crate) fn unix_now(&self) -> u64 {
        unix_time().as_millis() as u64
    }

    /// What happened to the clocks since the start.
    pub fn clock(&self) -> &ClockWatch {
        &self.clock
    }

    /// Converts an expiry on the disk: what is left by the wall clock, from now on by the store's.
    pub(crate) fn timestamp_of(&self, unix: Option<u64>) -> Option<Timestamp> {
        let left = |unix: u64| unix.saturating_sub(self.unix_now());
        unix.map(|unix| Timestamp(self.now().0.saturating_add(left(unix))))
    }

    /// Converts the disk's metadata of a value; `None` if it has expired.
    pub(crate) fn metadata_of(&self, metadata: &kv_disk::Metadata) -> Option<Metadata> {
        let kv_disk::Metadata { version, expires, length } = *metadata;
        let live = expires.is_none_or(|at| at > self.unix_now());
        live.then(|| Metadata { length, version, expires: self.timestamp_of(expires) })
    }

    /// The memory of the values: to be registered, and prefaulted if wanted.
    pub fn pool(&self) -> &Memory {
        &self.memory
    }

    /// A random number that identifies this run.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The longest value accepted.
    pub fn max_value(&self) -> u64 {
        self.max_value
    }

    /// The quota of bytes that are being written.
    pub fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// How long a read handle or a staged value may be idle.
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// The counters of the front ends.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The access control.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// The sessions of links.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The current time of the store's clock, which nobody sets, and which runs while the machine sleeps.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp(time_since_boot().saturating_sub(self.started).as_millis() as u64)
    }

    /// The time `ttl` milliseconds from now.
    pub fn expiry(&self, ttl: Option<u64>, now: Timestamp) -> Option<Timestamp> {
        ttl.map(|ttl| Timestamp(now.0.saturating_add(ttl)))
    }

    /// Memory for a value, if it is not too long.
    pub fn reserve(&self, length: u64) -> Result<Reservation, ReserveError> {
        if length > self.max_value {
            return Err(ReserveError::TooLong { max: self.max_value });
        }
        self.index.reserve(length, self.now())
    }

    /// Copies bytes into reserved memory, from an offset on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn fill(&self, reservation: &Reservation, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (at, length) in subranges(&reservation.ranges(), offset, bytes.len() as u64) {
            let (part, more) = rest.split_at(length as usize);
            self.memory.write(at as usize, part);
            rest = more;
        }
        assert!(rest.is_empty(), "{} bytes at {offset} of {}", bytes.len(), reservation.length());
    }

    /// Copies bytes of a pinned value out, from an offset on.
    ///
    /// # Panics
    /// If the value is shorter.
    pub fn copy_out(&self, ranges: &Ranges, offset: u64, bytes: &mut [u8]) {
        let mut filled = 0;
        for (at, length) in subranges(ranges, offset, bytes.len() as u64) {
            self.memory.read(at as usize, &mut bytes[filled..filled + length as usize]);
            filled += length as usize;
        }
        assert!(filled == bytes.len(), "{} bytes at {offset}", bytes.len());
    }

    /// CRC32C of a part of a pinned value.
    pub fn checksum(&self, ranges: &Ranges, offset: u64, length: u64) -> u32 {
        let mut bytes = [0; 4096];
        let mut sum = 0;
        let mut done = 0;
        while done < length {
            let part = &mut bytes[..(length - done).min(4096) as usize];
            self.copy_out(ranges, offset + done, part);
            sum = crc32c::crc32c_append(sum, part);
            done += part.len() as u64;
        }
        sum
    }

    /// Removes expired values and sessions; returns when to call it again.
    pub fn clean_up(&self) -> Option<Duration> {
        self.clock.look(self.persistence.get().is_some());
        let now = self.now();
        self.index.expire(now, MAX_EXPIRED);
        let sessions = self.sessions.expire(Instant::now());
        let expiry = self.index.next_expiry();
        let expiry = expiry.map(|at| Duration::from_millis(at.0.saturating_sub(now.0)));
        [expiry, sessions].into_iter().flatten().min()
    }
}

/// The state of the disk.
pub struct DiskStatus<'e> {
    /// Its counters.
    pub counts: &'e PersistenceCounts,
    /// The data directory.
    pub disk: &'e kv_disk::Disk,
}

/// Converts an error of the disk, whose text includes the fix.
fn open_error(error: &kv_disk::Error) -> Error {
    let text = error.to_string();
    let (cause, fix) = text.rsplit_once(" — ").unwrap_or((&text, "choose another --data-dir"));
    let (call, why) = cause.split_once(": ").unwrap_or(("open the data directory", cause));
    Error::new(fabric::ErrorKind::System, call, why, fix)
}

/// A pinned value; unpinned on drop.
pub struct PinnedValue {
    engine: Arc<Engine>,
    pinned: Option<Pinned>,
}

impl PinnedValue {
    /// Takes ownership of a pin.
    pub fn new(engine: Arc<Engine>, pinned: Pinned) -> Self {
        PinnedValue { engine, pinned: Some(pinned) }
    }

    /// The value.
    pub fn value(&self) -> &Pinned {
        self.pinned.as_ref().expect("present until drop")
    }
}

impl Drop for PinnedValue {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            self.engine.index.unpin(pinned.pin);
        }
    }
}

/// Reserved memory for a value; it is cancelled on drop, unless it was committed.
pub struct ReservedValue {
    engine: Arc<Engine>,
    reservation: Option<Reservation>,
    _claim: Option<Claim>,
}

impl ReservedValue {
    /// Takes ownership of a reservation, and of the quota that was claimed for it.
    pub(crate) fn new(engine: Arc<Engine>, reservation: Reservation, claim: Option<Claim>) -> Self {
        ReservedValue { engine, reservation: Some(reservation), _claim: claim }
    }

    /// The reservation.
    pub fn reservation(&self) -> &Reservation {
        self.reservation.as_ref().expect("present until it is taken")
    }

    /// The reservation, to be committed.
    pub fn take(mut self) -> Reservation {
        self.reservation.take().expect("present until it is taken")
    }
}

impl Drop for ReservedValue {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.engine.index.cancel(reservation);
        }
    }
}

/// Where `length` bytes of a value from `offset` on are in the pool: offsets and lengths, in order.
pub(crate) fn subranges(
    ranges: &Ranges,
    offset: u64,
    length: u64,
) -> impl Iterator<Item = (u64, u64)> + '_ {
    let end = offset.saturating_add(length);
    let mut start = 0;
    ranges.as_slice().iter().filter_map(move |range| {
        let (from, to) = (start, start + range.length);
        start = to;
        let (first, last) = (offset.max(from), end.min(to));
        (first < last).then(|| (range.offset + first - from, last - first))
    })
}

pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn time_since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A cryptographically random number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // It blocks until the kernel's generator is initialised, and does not fail otherwise.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_le_bytes(bytes)
}

const MAX_SESSIONS: usize = 65_536;
const MIN_INDEX_BYTES: u64 = 16 << 20;
/// Enough that threads rarely wait for each other.
pub(crate) const SHARDS: usize = 64;
/// Values removed per clean-up, so that other work is not delayed.
const MAX_EXPIRED: usize = 10_000;
