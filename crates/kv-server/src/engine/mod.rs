//! The store with its bytes and its clock: what every front end uses, links and gRPC.

pub(crate) mod journal;
pub(crate) mod outcome;
pub(crate) mod quota;
pub(crate) mod session;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fabric::{Error, Memory, Pages};
use kv_store::{Facts, Moment, Pinned, Ranges, Reservation, ReserveError, Store, WhenFull};

use access::Access;
pub use journal::JournalCounts;
use journal::{Journal, Opened};
use quota::Claim;
pub use quota::Quota;
pub use session::{Session, SessionId, Sessions, Turn};

/// What a store is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many bytes the pool has.
    pub memory: usize,
    /// Which pages it is made of.
    pub pages: Pages,
    /// What to do when it is full.
    pub when_full: WhenFull,
    /// The longest value taken; none: what fits into the pool.
    pub max_value: Option<u64>,
    /// How many bytes of values that are being written may be in flight at once; none: half of the memory.
    pub max_in_flight: Option<u64>,
    /// How long a cursor or a staged value may be idle.
    pub idle: Duration,
    /// Where acknowledged writes are kept; none: the store is in memory only.
    pub data_dir: Option<PathBuf>,
}

/// Keys, values, sessions.
pub struct Engine {
    /// Which key has which part of the pool.
    pub store: Store,
    /// The pool.
    memory: Memory,
    max_value: u64,
    idle: Duration,
    began: Instant,
    epoch: u64,
    quota: Arc<Quota>,
    pub(crate) sessions: Sessions,
    access: Arc<Access>,
    /// What was done, by kind; see [`Engine::counts`].
    pub(crate) counts: Counts,
    /// When it began, in milliseconds since 1970.
    unix_began: u64,
    journal: OnceLock<Journal>,
}

/// What the front ends have done.
#[derive(Debug, Default)]
pub struct Counts {
    /// Batches answered on links.
    pub batches: AtomicU64,
    /// Requests in them.
    pub requests: AtomicU64,
    /// Bytes of values sent.
    pub bytes_out: AtomicU64,
    /// Values that clients on this host read where they lie.
    pub zero_copy_reads: AtomicU64,
    /// Bytes of values received.
    pub bytes_in: AtomicU64,
    /// Clients that broke the protocol.
    pub protocol_errors: AtomicU64,
    /// Cursors and staged values that were closed since they were idle.
    pub idled: AtomicU64,
    /// Batches rejected since the store was shutting down.
    pub turned_away: AtomicU64,
}

impl Engine {
    /// Allocates the memory. It is not yet touched: see [`Engine::pool`]. Everybody may do everything.
    pub fn new(settings: &Settings) -> Result<Arc<Self>, Error> {
        Engine::guarded(settings, Access::open())
    }

    /// The same, for those who have access.
    pub fn guarded(settings: &Settings, access: Arc<Access>) -> Result<Arc<Self>, Error> {
        Engine::with_disk_writer(settings, access, |writer| writer)
    }

    /// The same, with the disk wrapped: for tests in which disks fail.
    pub fn with_disk_writer(
        settings: &Settings,
        access: Arc<Access>,
        wrap: impl FnOnce(Box<dyn kv_disk::DiskWriter>) -> Box<dyn kv_disk::DiskWriter>,
    ) -> Result<Arc<Self>, Error> {
        let since = unix_time();
        // With a disk the clock does not matter: it remembers the last run.
        let opened = settings.data_dir.as_deref();
        let opened = opened.map(|path| Opened::new(path, since.as_secs(), wrap)).transpose();
        let opened = opened.map_err(|error| unopened(&error))?;
        let run = opened.as_ref().map_or(since.as_secs(), |opened| opened.epoch);
        Engine::of_run(settings, access, opened, run)
    }

    /// The engine of this run, whose number no other has.
    pub(crate) fn of_run(
        settings: &Settings,
        access: Arc<Access>,
        opened: Option<Opened>,
        run: u64,
    ) -> Result<Arc<Self>, Error> {
        let memory = Memory::allocate(settings.memory, settings.pages)?;
        // The run in the high half, writes in the low one: no run reuses a version of an earlier one, unless it made
        // four thousand million of them a second, or the clock was set back between the two.
        let first_version = (run << 32) + 1;
        let [seed, epoch] = [0; 2].map(|_: u32| random());
        let store = Store::new(kv_store::Settings {
            pool_bytes: settings.memory as u64,
            // Keys may take as much as values, so that a store has twice its memory at the very most.
            index_bytes: (settings.memory as u64).max(MIN_INDEX),
            shards: SHARDS,
            // What is on the disk can always leave the memory.
            when_full: if opened.is_some() { WhenFull::Evict } else { settings.when_full },
            first_version,
            seed,
        });
        let max_in_flight = settings.max_in_flight.unwrap_or(settings.memory as u64 / 2);
        let quota = Arc::new(Quota::new(max_in_flight));
        let engine = Arc::new(Engine {
            store,
            max_value: settings.max_value.unwrap_or(u64::MAX).min(settings.memory as u64),
            memory,
            idle: settings.idle,
            began: Instant::now(),
            epoch,
            quota,
            sessions: Sessions::default(),
            access,
            counts: Counts::default(),
            unix_began: unix_time().as_millis() as u64,
            journal: OnceLock::new(),
        });
        if let Some(opened) = opened {
            let started = opened.start(&engine);
            let journal = started.map_err(|error| {
                let fix = "raise the limit of processes: `ulimit -u`";
                Error::new(fabric::Kind::System, "start the threads for the disk", error, fix)
            })?;
            let _ = engine.journal.set(journal);
        }
        Ok(engine)
    }

    /// The journal, if there is a disk.
    #[inline]
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.get()
    }

    /// Whether there is a disk.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.journal().is_some()
    }

    /// Whether what is acknowledged survives a crash, and what was done for that.
    pub fn durability(&self) -> Option<Durability<'_>> {
        self.journal().map(|journal| Durability { counts: journal.counts(), disk: journal.disk() })
    }

    /// Ends the work on the disk, once everything that was asked for is done.
    pub fn close(&self) {
        if let Some(journal) = self.journal() {
            journal.close();
        }
    }

    /// The time in milliseconds since 1970, as it goes on since the start: a clock that is set does not matter.
    pub(crate) fn unix_now(&self) -> u64 {
        self.unix_began + self.now().0
    }

    /// When something expires that does so at that time since 1970.
    pub(crate) fn moment_of(&self, unix: Option<u64>) -> Option<Moment> {
        unix.map(|unix| Moment(unix.saturating_sub(self.unix_began)))
    }

    /// What the disk knows of a value, as the store has it; none if it has expired.
    pub(crate) fn facts_of(&self, facts: &kv_disk::Facts) -> Option<Facts> {
        let kv_disk::Facts { version, expires, length } = *facts;
        let live = expires.is_none_or(|at| at > self.unix_now());
        live.then(|| Facts { length, version, expires: self.moment_of(expires) })
    }

    /// The memory that values lie in: to be registered, and prefaulted where that is wanted.
    pub fn pool(&self) -> &Memory {
        &self.memory
    }

    /// Which run of the store this is.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The longest value taken.
    pub fn max_value(&self) -> u64 {
        self.max_value
    }

    /// The quota of bytes that are being written.
    pub fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// How long a cursor or a staged value may be idle.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// What the front ends have done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Who may do what.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// How many sessions are remembered.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The time, as the store counts it.
    #[inline]
    pub fn now(&self) -> Moment {
        Moment(self.began.elapsed().as_millis() as u64)
    }

    /// When something expires that does so in `ttl` milliseconds.
    pub fn expiry(&self, ttl: Option<u64>, now: Moment) -> Option<Moment> {
        ttl.map(|ttl| Moment(now.0.saturating_add(ttl)))
    }

    /// Room for a value, if it is not too long.
    pub fn reserve(&self, length: u64) -> Result<Reservation, ReserveError> {
        if length > self.max_value {
            return Err(ReserveError::TooLong { max: self.max_value });
        }
        self.store.reserve(length, self.now())
    }

    /// Copies bytes into reserved room, from an offset on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn fill(&self, room: &Reservation, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (at, length) in within(&room.ranges(), offset, bytes.len() as u64) {
            let (part, more) = rest.split_at(length as usize);
            self.memory.write(at as usize, part);
            rest = more;
        }
        assert!(rest.is_empty(), "{} bytes at {offset} of {}", bytes.len(), room.length());
    }

    /// Copies bytes of a pinned value out, from an offset on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn copy_out(&self, ranges: &Ranges, offset: u64, bytes: &mut [u8]) {
        let mut filled = 0;
        for (at, length) in within(ranges, offset, bytes.len() as u64) {
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

    /// Removes what has expired and sessions nobody came back to; returns when to look again.
    pub fn tidy(&self) -> Option<Duration> {
        let now = self.now();
        self.store.expire(now, MAX_EXPIRED);
        let sessions = self.sessions.expire(Instant::now());
        let expiry = self.store.next_expiry();
        let expiry = expiry.map(|at| Duration::from_millis(at.0.saturating_sub(now.0)));
        [expiry, sessions].into_iter().flatten().min()
    }
}

/// What is known of the disk.
pub struct Durability<'e> {
    /// What was done.
    pub counts: &'e JournalCounts,
    /// Where.
    pub disk: &'e kv_disk::Disk,
}

/// The disk's errors have their fix in their own text.
fn unopened(error: &kv_disk::Error) -> Error {
    let text = error.to_string();
    let (what, fix) = text.rsplit_once(" — ").unwrap_or((&text, "choose another --data-dir"));
    let (call, why) = what.split_once(": ").unwrap_or(("open the data directory", what));
    Error::new(fabric::Kind::System, call, why, fix)
}

/// A pinned value that unpins itself when it is dropped.
pub struct Held {
    engine: Arc<Engine>,
    pinned: Option<Pinned>,
}

impl Held {
    /// Takes over a pin.
    pub fn new(engine: Arc<Engine>, pinned: Pinned) -> Self {
        Held { engine, pinned: Some(pinned) }
    }

    /// What is held.
    pub fn value(&self) -> &Pinned {
        self.pinned.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            self.engine.store.unpin(pinned.pin);
        }
    }
}

/// Reserved room that is given back unless it was committed.
pub struct Staged {
    engine: Arc<Engine>,
    room: Option<Reservation>,
    _claim: Option<Claim>,
}

impl Staged {
    /// Takes over a reservation, and the part of the quota that was claimed for it.
    pub(crate) fn new(engine: Arc<Engine>, room: Reservation, claim: Option<Claim>) -> Self {
        Staged { engine, room: Some(room), _claim: claim }
    }

    /// The room.
    pub fn room(&self) -> &Reservation {
        self.room.as_ref().expect("it is there until it is taken")
    }

    /// The room, to be committed.
    pub fn take(mut self) -> Reservation {
        self.room.take().expect("it is there until it is taken")
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.engine.store.cancel(room);
        }
    }
}

/// Where `length` bytes from `offset` on lie in the pool: places and lengths, in order.
pub(crate) fn within(
    ranges: &Ranges,
    offset: u64,
    length: u64,
) -> impl Iterator<Item = (u64, u64)> + '_ {
    let end = offset.saturating_add(length);
    let mut begins = 0;
    ranges.as_slice().iter().filter_map(move |range| {
        let (from, to) = (begins, begins + range.length);
        begins = to;
        let (first, last) = (offset.max(from), end.min(to));
        (first < last).then(|| (range.offset + first - from, last - first))
    })
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A number nobody can guess.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Before the machine has enough of it, it waits; it fails nowhere else.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_le_bytes(bytes)
}

const MIN_INDEX: u64 = 16 << 20;
/// So many that threads seldom wait for each other.
pub(crate) const SHARDS: usize = 64;
/// At most so many at once, so that other work is not delayed.
const MAX_EXPIRED: usize = 10_000;
