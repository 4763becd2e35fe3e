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
    /// When making room last did not free enough.
    futile_at: Mutex<Option<Instant>>,
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
            futile_at: Mutex::default(),
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
        let mut futile_at = lock(&self.futile_at);
        if futile_at.is_some_and(|at| at.elapsed() < FUTILE_PAUSE) {
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
        *futile_at = (self.bytes.load(Relaxed) > enough).then(Instant::now);
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
/// After this, room is made again if the last time did not free enough.
const FUTILE_PAUSE: Duration = Duration::from_millis(100);
/// The limits of the bytes of all sessions of a front end; between them, an eighth of the store's memory.
const MIN_BYTES: usize = 8 << 20;
const MAX_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use kv_proto::wire::Status;

    use super::*;

    fn answer(version: u64) -> Answer {
        Answer { version, ..Answer::new(Status::Ok) }
    }

    #[test]
    fn a_repeated_write_gets_its_first_answer() {
        let sessions = Sessions::new(64, 1 << 20);
        let (session, known) = sessions.enter(None, "me").unwrap();
        assert!(!known);
        assert_eq!(session.start_write(0), WriteStart::New);
        assert_eq!(session.start_write(0), WriteStart::InFlight);
        assert!(session.has_write(0) && !session.has_write(1));
        session.finish_write(0, answer(7));
        session.leave();
        let (again, known) = sessions.enter(Some(session.id()), "me").unwrap();
        assert!(known);
        assert_eq!(again.start_write(0), WriteStart::Done(answer(7)));
        assert_eq!(again.start_write(2), WriteStart::New, "in any order");
        assert_eq!(again.start_write(1), WriteStart::New);
        again.cancel_write(1);
        assert_eq!(again.start_write(1), WriteStart::New);
    }

    #[test]
    fn another_identity_cannot_resume_it() {
        let sessions = Sessions::new(64, 1 << 20);
        let (session, _) = sessions.enter(None, "me").unwrap();
        let (other, known) = sessions.enter(Some(session.id()), "you").unwrap();
        assert!(!known && other.id() != session.id());
        assert!(sessions.find(&session.id(), "you").is_none());
        assert!(sessions.find(&session.id(), "me").is_some());
    }

    #[test]
    fn the_oldest_writes_are_forgotten() {
        let sessions = Sessions::new(64, 1 << 20);
        let (session, _) = sessions.enter(None, "me").unwrap();
        for sequence in 0..MAX_REMEMBERED_WRITES * 2 {
            assert_eq!(session.start_write(sequence), WriteStart::New);
            session.finish_write(sequence, answer(sequence));
        }
        assert_eq!(session.start_write(0), WriteStart::Forgotten);
        assert_eq!(session.start_write(1 << 40), WriteStart::Forgotten, "it takes no memory");
        let last = MAX_REMEMBERED_WRITES * 2 - 1;
        assert_eq!(session.start_write(last), WriteStart::Done(answer(last)));
    }

    #[test]
    fn one_identity_may_use_a_quarter_and_replaces_its_own() {
        let sessions = Sessions::new(8, 1 << 20);
        let enter = |identity| sessions.enter(None, identity).map(|(session, _)| session);
        let (first, second) = (enter("many").unwrap(), enter("many").unwrap());
        let other = enter("other").unwrap();
        other.leave();
        assert!(enter("many").is_none(), "its two of eight are in use");
        first.leave();
        let third = enter("many").unwrap();
        assert!(sessions.find(&first.id(), "many").is_none());
        assert!(sessions.find(&other.id(), "other").is_some(), "although it was left earlier");
        drop((second, third));
    }

    /// Executes writes, from the first number on.
    fn write(session: &Session, count: u64) {
        for sequence in 0..count {
            assert_eq!(session.start_write(sequence), WriteStart::New);
            session.finish_write(sequence, answer(sequence));
        }
    }

    #[test]
    fn sessions_left_first_are_removed_for_bytes_and_not_resumed() {
        let limit = 4 << 20;
        let sessions = Sessions::new(1000, limit);
        let ids: Vec<_> = (0..100)
            .map(|_| {
                let (session, _) = sessions.enter(None, "me").unwrap();
                write(&session, 4096);
                session.leave();
                assert!(sessions.bytes() <= limit, "{}", sessions.bytes());
                session.id()
            })
            .collect();
        assert!(sessions.evicted() > 50 && sessions.find(&ids[0], "me").is_none());
        let (last, resumed) = sessions.enter(Some(ids[99]), "me").unwrap();
        assert!(resumed);
        assert_eq!(last.start_write(4095), WriteStart::Done(answer(4095)));
        let (_first, resumed) = sessions.enter(Some(ids[0]), "me").unwrap();
        assert!(!resumed, "its client reports unknown outcomes");
    }

    #[test]
    fn sessions_in_use_forget_their_oldest_writes_for_bytes() {
        let limit = 4 << 20;
        let sessions = Sessions::new(1000, limit);
        let used: Vec<_> = (0..100).map(|_| sessions.enter(None, "me").unwrap().0).collect();
        for session in &used {
            write(session, 4096);
        }
        assert!(sessions.bytes() <= limit, "{}", sessions.bytes());
        assert_eq!((sessions.len(), sessions.evicted()), (100, 0));
        let first = &used[0];
        assert_eq!(first.start_write(0), WriteStart::Forgotten, "not executed again");
        assert_eq!(first.start_write(4095), WriteStart::Done(answer(4095)), "its newest");
    }

    #[test]
    fn an_ended_session_keeps_nothing() {
        let sessions = Sessions::new(64, 1 << 20);
        let (session, _) = sessions.enter(None, "me").unwrap();
        write(&session, 100);
        assert!(sessions.bytes() > 100 * size_of::<Answer>());
        session.leave();
        sessions.end(&session);
        let id = session.id();
        drop(session);
        assert_eq!((sessions.bytes(), sessions.len()), (0, 0));
        assert!(!sessions.enter(Some(id), "me").unwrap().1);
    }

    /// A late goodbye of a connection that was lost, or given up, before the client connected again.
    #[test]
    fn a_session_that_was_resumed_does_not_end_with_its_earlier_connection() {
        let sessions = Sessions::new(64, 1 << 20);
        let (session, _) = sessions.enter(None, "me").unwrap();
        let (again, resumed) = sessions.enter(Some(session.id()), "me").unwrap();
        assert!(resumed);
        session.leave();
        sessions.end(&session);
        assert!(sessions.find(&session.id(), "me").is_some());
        again.leave();
        sessions.end(&again);
        assert!(sessions.is_empty());
    }

    /// Sessions as gRPC has them: used only during a call.
    fn unused(sessions: &Sessions, identity: &str, writes: u64) -> SessionId {
        let (session, _) = sessions.enter(None, identity).unwrap();
        write(&session, writes);
        session.leave();
        session.id()
    }

    #[test]
    fn an_identity_that_takes_more_than_its_share_loses_its_own_sessions_first() {
        let sessions = Sessions::new(1000, 4 << 20);
        let other = unused(&sessions, "other", 4096);
        for _ in 0..100 {
            unused(&sessions, "many", 4096);
        }
        assert!(sessions.evicted() > 50 && sessions.bytes() <= 4 << 20);
        assert!(sessions.find(&other, "other").is_some(), "although it was left first");
    }

    /// A write in flight keeps its session from forgetting, and removing a session that a call uses frees nothing.
    #[test]
    fn writes_in_flight_neither_exceed_the_limit_nor_evict_others() {
        let limit = 4 << 20;
        let sessions = Sessions::new(1000, limit);
        let other = unused(&sessions, "other", 100);
        let mut held = Vec::new();
        for _ in 0..100 {
            let (session, _) = sessions.enter(None, "many").unwrap();
            assert_eq!(session.start_write(0), WriteStart::New, "and does not end");
            for sequence in 1..4096 {
                if session.start_write(sequence) == WriteStart::New {
                    session.finish_write(sequence, answer(sequence));
                }
            }
            session.leave();
            held.push(session);
        }
        let last_writes = map_bytes(2 * MIN_REMEMBERED_WRITES as usize - 1);
        let (bytes, max) = (sessions.bytes(), limit + held.len() * (last_writes + 1000));
        assert!(bytes <= max, "{bytes}, and at most {max} with the last writes of each");
        assert!(sessions.find(&other, "other").is_some());
        assert_eq!(held[99].start_write(0), WriteStart::InFlight, "not executed twice");
    }

    /// However little memory there is, a session whose writes end goes on, from any number, and remembers the last ones.
    #[test]
    fn a_session_goes_on_while_others_exceed_the_limit() {
        let sessions = Sessions::new(1000, 64 << 10);
        let held: Vec<_> = (0..20).map(|_| sessions.enter(None, "many").unwrap().0).collect();
        for session in &held {
            for sequence in 0..120 {
                assert_eq!(session.start_write(sequence), WriteStart::New);
            }
        }
        assert!(sessions.bytes() > 2 * sessions.max_bytes(), "all of them are in flight");
        for first in [0, 1, 5000, 1 << 40] {
            let (session, _) = sessions.enter(None, "one").unwrap();
            for sequence in first..first + 5000 {
                assert_eq!(session.start_write(sequence), WriteStart::New, "{sequence}");
                session.finish_write(sequence, answer(sequence));
                // Some are tried again: these leave gaps.
                if sequence % 3 == 0 {
                    session.cancel_write(sequence);
                    assert_eq!(session.start_write(sequence), WriteStart::New);
                    session.finish_write(sequence, answer(sequence));
                }
                let earlier = sequence.saturating_sub(100).max(first);
                assert_eq!(session.start_write(earlier), WriteStart::Done(answer(earlier)));
            }
            assert!(map_bytes(lock(&session.writes).allocated) <= map_bytes(448));
            session.leave();
        }
    }

    #[test]
    fn the_count_of_bytes_is_right_with_several_calls_in_one_session() {
        let sessions = Sessions::new(64, 64 << 20);
        let (session, _) = sessions.enter(None, "me").unwrap();
        std::thread::scope(|scope| {
            for first in 0..4 {
                let session = &session;
                scope.spawn(move || {
                    for sequence in (first..4096).step_by(4) {
                        session.start_write(sequence);
                    }
                });
            }
        });
        let allocated = lock(&session.writes).allocated;
        let bytes = size_of::<Session>() + "me".len() + map_bytes(allocated);
        assert_eq!(sessions.bytes(), bytes);
    }

    #[test]
    fn skipped_numbers_take_no_memory() {
        let (session, _) = Sessions::new(64, 1 << 20).enter(None, "me").unwrap();
        assert_eq!(session.start_write(1), WriteStart::New);
        assert_eq!(session.start_write(2 * MAX_REMEMBERED_WRITES - 1), WriteStart::New);
        assert_eq!(lock(&session.writes).known.len(), 2);
    }

    #[test]
    fn sessions_without_users_expire() {
        let sessions = Sessions::new(64, 1 << 20);
        let (session, _) = sessions.enter(None, "me").unwrap();
        assert_eq!(sessions.expire(Instant::now()), None, "it is in use");
        session.leave();
        assert!(sessions.expire(Instant::now()).is_some_and(|next| next <= SESSION_LIFETIME));
        assert_eq!(sessions.expire(Instant::now() + SESSION_LIFETIME), None);
        assert!(sessions.is_empty());
    }
}
