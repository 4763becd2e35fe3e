//! Sessions: record a client's writes, so that a repeated request is not executed twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kv_proto::wire::Answer;

use crate::engine::random;

/// A session's id: a client that knows it, and has the same identity, may resume the session.
pub type SessionId = [u8; 16];

/// All sessions of one front end: links and gRPC have separate ones.
#[derive(Debug)]
pub struct Sessions {
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    max: usize,
}

/// The writes of one client.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    identity: String,
    writes: Mutex<Writes>,
    presence: Mutex<Presence>,
}

/// The users of a session: briefly two, when a client reconnects before its old connection is known to be lost.
#[derive(Debug, Default)]
struct Presence {
    users: u32,
    /// When a user last left.
    left: Option<Instant>,
}

/// The last writes, from the oldest that is remembered. Sequence numbers that were never used take no memory.
#[derive(Debug, Default)]
struct Writes {
    started: bool,
    oldest: u64,
    newest: u64,
    known: HashMap<u64, Write, foldhash::fast::RandomState>,
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

impl Default for Sessions {
    fn default() -> Self {
        Sessions::new(MAX_SESSIONS)
    }
}

impl Sessions {
    /// At most `max` sessions.
    pub fn new(max: usize) -> Self {
        Sessions { sessions: Mutex::default(), max }
    }

    /// Resumes a session, or opens one; returns whether it was resumed. `None`: too many sessions.
    pub fn enter(&self, id: Option<SessionId>, identity: &str) -> Option<(Arc<Session>, bool)> {
        let mut sessions = lock(&self.sessions);
        let old = id.and_then(|id| sessions.get(&id)).filter(|old| old.identity == identity);
        if let Some(old) = old {
            old.add_user();
            return Some((old.clone(), true));
        }
        // If full, the session that was left first is removed: of the same identity, if that uses its share.
        let share = self.max / 4;
        let own = match sessions.len() < share {
            true => 0,
            false => sessions.values().filter(|old| old.identity == identity).count(),
        };
        if own >= share || sessions.len() >= self.max {
            let left = sessions.values().filter_map(|old| Some((old.left()?, old)));
            let candidates = left.filter(|(_, old)| own < share || old.identity == identity);
            let oldest = candidates.map(|(left, old)| (left, old.id)).min();
            sessions.remove(&oldest?.1);
        }
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random().to_le_bytes());
        id[8..].copy_from_slice(&random().to_le_bytes());
        let session = Arc::new(Session {
            id,
            identity: identity.to_owned(),
            writes: Mutex::default(),
            presence: Mutex::default(),
        });
        session.add_user();
        sessions.insert(id, session.clone());
        Some((session, false))
    }

    /// An existing session of this identity.
    pub fn find(&self, id: &SessionId, identity: &str) -> Option<Arc<Session>> {
        let sessions = lock(&self.sessions);
        sessions.get(id).filter(|session| session.identity == identity).cloned()
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes sessions that were left long ago; returns when to call it again.
    pub(crate) fn expire(&self, now: Instant) -> Option<Duration> {
        let mut sessions = lock(&self.sessions);
        let mut next = None::<Duration>;
        sessions.retain(|_, session| {
            let Some(left) = session.left() else { return true };
            let rest = SESSION_LIFETIME.saturating_sub(now.saturating_duration_since(left));
            if !rest.is_zero() {
                next = Some(next.map_or(rest, |next| next.min(rest)));
            }
            !rest.is_zero()
        });
        next
    }
}

impl Session {
    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn add_user(&self) {
        lock(&self.presence).users += 1;
    }

    /// Removes a user.
    pub fn leave(&self) {
        let mut presence = lock(&self.presence);
        presence.users = presence.users.saturating_sub(1);
        presence.left = Some(Instant::now());
    }

    /// Since when it has no users.
    fn left(&self) -> Option<Instant> {
        let presence = lock(&self.presence);
        presence.left.filter(|_| presence.users == 0)
    }

    /// Starts a write; returns whether it is to be executed.
    pub fn start_write(&self, sequence: u64) -> WriteStart {
        let mut writes = lock(&self.writes);
        // A client continues its numbers from one session to the next.
        if !std::mem::replace(&mut writes.started, true) {
            writes.oldest = sequence.saturating_sub(WINDOW);
        }
        let Some(ahead) = sequence.checked_sub(writes.oldest) else { return WriteStart::Forgotten };
        if ahead >= 2 * MAX_REMEMBERED_WRITES {
            return WriteStart::Forgotten;
        }
        match writes.known.get(&sequence) {
            Some(Write::InFlight) => return WriteStart::InFlight,
            Some(Write::Done(answer)) => return WriteStart::Done(*answer),
            None => {}
        }
        writes.known.insert(sequence, Write::InFlight);
        writes.newest = writes.newest.max(sequence);
        writes.forget();
        WriteStart::New
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

impl Writes {
    /// Forgets the oldest, up to the first that is in flight.
    fn forget(&mut self) {
        while self.newest - self.oldest >= MAX_REMEMBERED_WRITES
            && !matches!(self.known.get(&self.oldest), Some(Write::InFlight))
        {
            self.known.remove(&self.oldest);
            self.oldest += 1;
        }
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
const MAX_SESSIONS: usize = 65_536;

#[cfg(test)]
mod tests {
    use kv_proto::wire::Status;

    use super::*;

    fn answer(version: u64) -> Answer {
        Answer { version, ..Answer::new(Status::Ok) }
    }

    #[test]
    fn a_repeated_write_gets_its_first_answer() {
        let sessions = Sessions::default();
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
        let sessions = Sessions::default();
        let (session, _) = sessions.enter(None, "me").unwrap();
        let (other, known) = sessions.enter(Some(session.id()), "you").unwrap();
        assert!(!known && other.id() != session.id());
        assert!(sessions.find(&session.id(), "you").is_none());
        assert!(sessions.find(&session.id(), "me").is_some());
    }

    #[test]
    fn the_oldest_writes_are_forgotten() {
        let sessions = Sessions::default();
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
        let sessions = Sessions::new(8);
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

    #[test]
    fn skipped_numbers_take_no_memory() {
        let (session, _) = Sessions::default().enter(None, "me").unwrap();
        assert_eq!(session.start_write(1), WriteStart::New);
        assert_eq!(session.start_write(2 * MAX_REMEMBERED_WRITES - 1), WriteStart::New);
        assert_eq!(lock(&session.writes).known.len(), 2);
    }

    #[test]
    fn sessions_without_users_expire() {
        let sessions = Sessions::default();
        let (session, _) = sessions.enter(None, "me").unwrap();
        assert_eq!(sessions.expire(Instant::now()), None, "it is in use");
        session.leave();
        assert!(sessions.expire(Instant::now()).is_some_and(|next| next <= SESSION_LIFETIME));
        assert_eq!(sessions.expire(Instant::now() + SESSION_LIFETIME), None);
        assert!(sessions.is_empty());
    }
}
