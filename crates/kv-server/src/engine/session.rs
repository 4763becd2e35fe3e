//! Sessions: record a client's writes, so that a repeated request is not executed twice.
//!
//! What they remember has a limit in bytes. To stay within it, sessions that nobody uses are removed: those of identities that
//! take more than their share before others, and of these the one that was left longest ago. Then sessions forget their oldest
//! writes; the last 128 writes of each are always kept. A repeated write that was forgotten is refused as
//! [`WriteStart::Forgotten`], and the session of one that was removed is not resumed: the client reports its outcome as
//! unknown, and it is never executed again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use kv_proto::wire::Answer;

use crate::engine::random;

/// A session's id: a client that knows it, and has the same identity, may resume the session.
pub type SessionId = [u8; 16];

/// All sessions of one front end: links and gRPC have separate ones.
#[derive(Debug)]
pub struct Sessions {
    table: Arc<Table>,
}

/// The sessions by their id, and the bytes that they take.
#[derive(Debug)]
struct Table {
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    max: usize,
    bytes: AtomicUsize,
    max_bytes: usize,
    /// When removing sessions and their writes last freed too little.
    eviction_failed_at: Mutex<Option<Instant>>,
    /// Sessions that were removed before their time, to stay within the limits.
    evicted: AtomicU64,
}

/// The writes of one client.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    identity: String,
    table: Weak<Table>,
    bytes: AtomicUsize,
    writes: Mutex<Writes>,
    users: Mutex<SessionUsers>,
}

/// The users of a session: briefly two, when a client reconnects before its old connection is known to be lost.
#[derive(Debug, Default)]
struct SessionUsers {
    count: u32,
    /// When a user last left.
    left_at: Option<Instant>,
}

/// The last writes, from the oldest that is remembered. Sequence numbers that were never used take no memory.
#[derive(Debug, Default)]
struct Writes {
    started: bool,
    oldest: u64,
    /// Never less than `oldest`.
    newest: u64,
    known: HashMap<u64, Write, foldhash::fast::RandomState>,
    /// The writes that `known` has memory for. Its capacity is less after removals, until it is rebuilt.
    allocated: usize,
}

#[derive(Debug, Clone, Copy)]
enum Write {
    InFlight,
    Done(Answer),
}

/// Whether a write is to be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStart {
    /// Yes; report the outcome by [`Session::finish_write`] or [`Session::cancel_write`].
    New,
    /// It was executed before, with this answer.
    Done(Answer),
    /// It is being executed.
    InFlight,
    /// Its number is too old to be remembered, or too far ahead.
    Forgotten,
}

impl Sessions {
    /// At most `max` sessions, which take at most about `max_bytes`.
    pub fn new(max: usize, max_bytes: usize) -> Self {
        let table = Table {
            sessions: Mutex::default(),
            max,
            bytes: AtomicUsize::new(0),
            max_bytes,
            eviction_failed_at: Mutex::default(),
            evicted: AtomicU64::new(0),
        };
        Sessions { table: Arc::new(table) }
    }

    /// For the clients of a store of this many bytes.
    pub(crate) fn for_store(memory: usize, max: usize) -> Self {
        Sessions::new(max, (memory / 8).clamp(MIN_BYTES, MAX_BYTES))
    }

    /// Resumes a session, or opens one; returns whether it was resumed. `None`: too many sessions.
    pub fn enter(&self, id: Option<SessionId>, identity: &str) -> Option<(Arc<Session>, bool)> {
        let mut sessions = lock(&self.table.sessions);
        let old = id.and_then(|id| sessions.get(&id)).filter(|old| old.identity == identity);
        if let Some(old) = old {
            old.add_user();
            return Some((old.clone(), true));
        }
        // If full, the session that was left first is removed: of the same identity, if that uses its share.
        let share = self.table.max / 4;
        let own = match sessions.len() < share {
            true => 0,
            false => sessions.values().filter(|old| old.identity == identity).count(),
        };
        if own >= share || sessions.len() >= self.table.max {
            let unused = sessions.values().filter_map(|old| Some((old.unused_since()?, old)));
            let candidates = unused.filter(|(_, old)| own < share || old.identity == identity);
            let oldest = candidates.map(|(since, old)| (since, old.id)).min();
            sessions.remove(&oldest?.1);
            self.table.evicted.fetch_add(1, Relaxed);
        }
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random().to_le_bytes());
        id[8..].copy_from_slice(&random().to_le_bytes());
        let session = Arc::new(Session {
            id,
            identity: identity.to_owned(),
            table: Arc::downgrade(&self.table),
            bytes: AtomicUsize::new(0),
            writes: Mutex::default(),
            users: Mutex::default(),
        });
        session.add_user();
        sessions.insert(id, session.clone());
        drop(sessions);
        session.count(&self.table, 0);
        if self.table.is_over(0) {
            self.table.make_room();
        }
        Some((session, false))
    }

    /// Removes the session of a client that closed its connection in an orderly way: it repeats nothing. A session that
    /// another connection has resumed since is kept.
    pub(crate) fn end(&self, session: &Session) {
        // Under the lock, so that no connection resumes it in between.
        let mut sessions = lock(&self.table.sessions);
        if session.unused_since().is_some() {
            sessions.remove(&session.id);
        }
    }

    /// An existing session of this identity.
    pub fn find(&self, id: &SessionId, identity: &str) -> Option<Arc<Session>> {
        let sessions = lock(&self.table.sessions);
        sessions.get(id).filter(|session| session.identity == identity).cloned()
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        lock(&self.table.sessions).len()
    }

    /// The bytes that sessions take.
    pub fn bytes(&self) -> usize {
        self.table.bytes.load(Relaxed)
    }

    /// Their limit in bytes.
    pub fn max_bytes(&self) -> usize {
        self.table.max_bytes
    }

    /// The number of sessions that were removed before their time, to stay within the limits.
    pub fn evicted(&self) -> u64 {
        self.table.evicted.load(Relaxed)
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes sessions that were left long ago; returns when to call it again.
    pub(crate) fn expire(&self, now: Instant) -> Option<Duration> {
        let mut sessions = lock(&self.table.sessions);
        let mut next = None::<Duration>;
        sessions.retain(|_, session| {
            let Some(since) = session.unused_since() else { return true };
            let rest = SESSION_LIFETIME.saturating_sub(now.saturating_duration_since(since));
            if !rest.is_zero() {
                next = Some(next.map_or(rest, |next| next.min(rest)));
            }
            !rest.is_zero()
        });
        next
    }
}

impl Table {
    /// Whether the limit is exceeded with so many bytes more.
    fn is_over(&self, more: usize) -> bool {
        self.bytes.load(Relaxed) + more > self.max_bytes
    }

    /// Frees a part of the limit, so that this is rare. If little can be freed, it does nothing for a while, since it locks
    /// all sessions.
    fn make_room(&self) {
        let mut eviction_failed_at = lock(&self.eviction_failed_at);
        if eviction_failed_at.is_some_and(|at| at.elapsed() < EVICTION_PAUSE) {
            return;
        }
        let mut sessions = lock(&self.sessions);
        let enough = self.max_bytes - self.max_bytes / 8;
        self.remove_unused(&mut sessions, enough);
        if self.bytes.load(Relaxed) > enough {
            let part = enough / sessions.len().max(1);
            for session in sessions.values() {
                session.shrink(self, part);
            }
        }
        *eviction_failed_at = (self.bytes.load(Relaxed) > enough).then(Instant::now);
    }

    /// Removes sessions that nobody uses, until the others take no more than `enough` bytes: first of identities that take
    /// more than their share, then of all. What an identity takes beyond its share is not a reason to remove sessions of others.
    fn remove_unused(&self, sessions: &mut HashMap<SessionId, Arc<Session>>, enough: usize) {
        let share = self.max_bytes / 4;
        let mut by_identity = HashMap::<String, usize>::new();
        let mut unused = Vec::new();
        for session in sessions.values() {
            *by_identity.entry(session.identity.clone()).or_default() +=
                session.bytes.load(Relaxed);
            // Removing one that a call uses frees nothing.
            if let Some(since) = session.unused_since()
                && Arc::strong_count(session) == 1
            {
                unused.push((since, session.id));
            }
        }
        unused.sort_unstable();
        let mut counted: usize = by_identity.values().map(|bytes| share.min(*bytes)).sum();
        for of_all in [false, true] {
            unused.retain(|(_, id)| {
                let Some(session) = sessions.get(id) else { return false };
                let Some(of_identity) = by_identity.get_mut(&session.identity) else {
                    return false;
                };
                let is_due = match of_all {
                    true => counted > enough,
                    false => *of_identity > share && self.bytes.load(Relaxed) > enough,
                };
                if is_due {
                    counted -= share.min(*of_identity);
                    *of_identity = of_identity.saturating_sub(session.bytes.load(Relaxed));
                    counted += share.min(*of_identity);
                    sessions.remove(id);
                    self.evicted.fetch_add(1, Relaxed);
                }
                !is_due
            });
        }
    }
}

impl Session {
    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn add_user(&self) {
        lock(&self.users).count += 1;
    }

    /// Removes a user.
    pub fn leave(&self) {
        let mut users = lock(&self.users);
        users.count = users.count.saturating_sub(1);
        users.left_at = Some(Instant::now());
    }

    /// Since when it has no users.
    fn unused_since(&self) -> Option<Instant> {
        let users = lock(&self.users);
        users.left_at.filter(|_| users.count == 0)
    }

    /// Starts a write; returns whether it is to be executed.
    pub fn start_write(&self, sequence: u64) -> WriteStart {
        let mut writes = lock(&self.writes);
        if let Some(known) = writes.find(sequence) {
            return known;
        }
        if writes.is_full() {
            drop(writes);
            return self.start_with_growth(sequence);
        }
        writes.insert(sequence);
        WriteStart::New
    }

    /// The same, if remembering it takes more memory.
    #[cold]
    fn start_with_growth(&self, sequence: u64) -> WriteStart {
        // The store is being closed, and counts nothing any more.
        let Some(table) = self.table.upgrade() else { return self.start_uncounted(sequence) };
        let mut writes = lock(&self.writes);
        if writes.exceeds(&table) {
            // Without the lock: this locks every session.
            drop(writes);
            table.make_room();
            writes = lock(&self.writes);
        }
        // Another call may have started it in between.
        if let Some(known) = writes.find(sequence) {
            return known;
        }
        if writes.exceeds(&table) {
            writes.forget(MIN_REMEMBERED_WRITES);
            writes.rebuild();
        }
        // Many are known even so: the oldest is in flight, and nothing newer can be forgotten.
        let is_refused =
            writes.exceeds(&table) && writes.known.len() as u64 >= MIN_REMEMBERED_WRITES;
        if !is_refused {
            writes.insert(sequence);
        }
        self.count(&table, writes.allocated);
        if is_refused { WriteStart::Forgotten } else { WriteStart::New }
    }

    fn start_uncounted(&self, sequence: u64) -> WriteStart {
        let mut writes = lock(&self.writes);
        writes.find(sequence).unwrap_or_else(|| {
            writes.insert(sequence);
            WriteStart::New
        })
    }

    /// Forgets its oldest writes until it takes at most so many bytes, or remembers few writes.
    fn shrink(&self, table: &Table, bytes: usize) {
        let mut writes = lock(&self.writes);
        let mut keep = writes.newest - writes.oldest;
        while map_bytes(writes.allocated) > bytes && keep > MIN_REMEMBERED_WRITES {
            keep = (keep / 2).max(MIN_REMEMBERED_WRITES);
            writes.forget(keep);
            writes.rebuild();
        }
        self.count(table, writes.allocated);
    }

    /// Counts its bytes, with memory for so many writes. Called with the writes locked, so that the last count is right.
    fn count(&self, table: &Table, allocated: usize) {
        let now = size_of::<Session>() + self.identity.len() + map_bytes(allocated);
        let before = self.bytes.swap(now, Relaxed);
        table.bytes.fetch_add(now, Relaxed);
        table.bytes.fetch_sub(before, Relaxed);
    }

    /// Whether a write was started before, so that a repeated request only gets its answer.
    pub(crate) fn has_write(&self, sequence: u64) -> bool {
        lock(&self.writes).known.contains_key(&sequence)
    }

    /// Records the answer of a write that was executed, or refused for good: repeated requests get it too.
    pub fn finish_write(&self, sequence: u64, answer: Answer) {
        if let Some(write) = lock(&self.writes).known.get_mut(&sequence) {
            *write = Write::Done(answer);
        }
    }

    /// Removes a write that was not executed, so that it may be retried.
    pub fn cancel_write(&self, sequence: u64) {
        lock(&self.writes).known.remove(&sequence);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            table.bytes.fetch_sub(*self.bytes.get_mut(), Relaxed);
        }
    }
}

impl Writes {
    /// The answer for a write that is not to be executed: one that is known, or whose number is out of range.
    fn find(&mut self, sequence: u64) -> Option<WriteStart> {
        // A client continues its numbers from one session to the next.
        if !std::mem::replace(&mut self.started, true) {
            self.oldest = sequence.saturating_sub(WINDOW);
            self.newest = self.oldest;
        }
        let ahead = sequence.checked_sub(self.oldest);
        if ahead.is_none_or(|ahead| ahead >= 2 * MAX_REMEMBERED_WRITES) {
            return Some(WriteStart::Forgotten);
        }
        self.known.get(&sequence).map(|write| match write {
            Write::InFlight => WriteStart::InFlight,
            Write::Done(answer) => WriteStart::Done(*answer),
        })
    }

    fn insert(&mut self, sequence: u64) {
        self.known.insert(sequence, Write::InFlight);
        self.allocated = self.allocated.max(self.known.capacity());
        self.newest = self.newest.max(sequence);
        self.forget(MAX_REMEMBERED_WRITES);
    }

    /// Whether one more may take more memory.
    fn is_full(&self) -> bool {
        self.known.len() == self.known.capacity()
    }

    /// The bytes that one more takes. A map that is full because of removals is rebuilt in its place, if half of it is free.
    fn growth(&self) -> usize {
        if !self.is_full() || self.known.len() < self.allocated / 2 {
            return 0;
        }
        map_bytes((2 * self.allocated).max(3)) - map_bytes(self.allocated)
    }

    /// Whether one more takes more memory than sessions may have.
    fn exceeds(&self, table: &Table) -> bool {
        let growth = self.growth();
        growth > 0 && table.is_over(growth)
    }

    /// Frees the memory of what was removed. A new map: the old one would keep the places of removed writes.
    fn rebuild(&mut self) {
        self.known = std::mem::take(&mut self.known).into_iter().collect();
        self.allocated = self.known.capacity();
    }

    /// Forgets the oldest, up to the first that is in flight, until it remembers no more than the last `max`.
    fn forget(&mut self, max: u64) {
        while self.newest - self.oldest >= max
            && !matches!(self.known.get(&self.oldest), Some(Write::InFlight))
        {
            self.known.remove(&self.oldest);
            self.oldest += 1;
        }
    }
}

/// The bytes of a map with room for so many writes: a power of two of entries, an eighth of which stays free.
fn map_bytes(capacity: usize) -> usize {
    match capacity {
        0 => 0,
        _ => (capacity + 1).next_power_of_two() * (size_of::<(u64, Write)>() + 1),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a session without users is kept for its client to reconnect.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(300);
/// The number of writes remembered: more than a client may have in flight.
const MAX_REMEMBERED_WRITES: u64 = 4096;
/// The largest distance between numbers of writes that arrive out of order.
pub(crate) const WINDOW: u64 = MAX_REMEMBERED_WRITES / 2;
/// Writes that a session remembers however little memory there is.
const MIN_REMEMBERED_WRITES: u64 = 128;
/// After this, sessions and writes are removed again if the last time freed too little.
const EVICTION_PAUSE: Duration = Duration::from_millis(100);
/// The limits of the bytes of all sessions of a front end; between them, an eighth of the store's memory.
const MIN_BYTES: usize = 8 << 20;
const MAX_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests;
