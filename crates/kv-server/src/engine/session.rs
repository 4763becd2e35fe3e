//! Sessions: which writes of a client were done, so that one that is asked for again is not done again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kv_proto::wire::Answer;

use crate::engine::random;

/// A session's name: whoever knows it, and has the same identity, may go on with it.
pub type SessionId = [u8; 16];

/// All sessions of one front end: a client's session on links is not one by gRPC.
#[derive(Debug)]
pub struct Sessions {
    known: Mutex<HashMap<SessionId, Arc<Session>>>,
    most: usize,
}

/// The writes of one client.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    identity: String,
    writes: Mutex<Writes>,
    presence: Mutex<Presence>,
}

/// Who uses a session: for a moment two, when a client came back before its old connection was seen to be gone.
#[derive(Debug, Default)]
struct Presence {
    users: u32,
    /// When the last one left.
    left: Option<Instant>,
}

/// The last writes that were asked for, from the oldest that is remembered. What was never asked for takes no memory,
/// whatever its number.
#[derive(Debug, Default)]
struct Writes {
    begun: bool,
    oldest: u64,
    newest: u64,
    known: HashMap<u64, Write, foldhash::fast::RandomState>,
}

#[derive(Debug, Clone, Copy)]
enum Write {
    InBatch,
    Done(Answer),
}

/// Whether a write is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Yes; report how it went by [`Session::done`] or [`Session::undone`].
    Now,
    /// It was done before, and this was the answer.
    Again(Answer),
    /// It is being done.
    InBatch,
    /// It is too old to know, or numbered far ahead.
    Forgotten,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions::new(MAX_SESSIONS)
    }
}

impl Sessions {
    /// Room for so many.
    pub fn new(most: usize) -> Self {
        Sessions { known: Mutex::default(), most }
    }

    /// Goes on with a session, or begins one; and whether it was known. `None`: there are too many.
    pub fn enter(&self, id: Option<SessionId>, identity: &str) -> Option<(Arc<Session>, bool)> {
        let mut known = lock(&self.known);
        let old = id.and_then(|id| known.get(&id)).filter(|old| old.identity == identity);
        if let Some(old) = old {
            old.come();
            return Some((old.clone(), true));
        }
        // Room for who comes now, at the cost of who left first: of its own identity, if that has its share already.
        let share = self.most / 4;
        let own = match known.len() < share {
            true => 0,
            false => known.values().filter(|old| old.identity == identity).count(),
        };
        if own >= share || known.len() >= self.most {
            let left = known.values().filter_map(|old| Some((old.left()?, old)));
            let mine = left.filter(|(_, old)| own < share || old.identity == identity);
            let gone = mine.map(|(left, old)| (left, old.id)).min();
            known.remove(&gone?.1);
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
        session.come();
        known.insert(id, session.clone());
        Some((session, false))
    }

    /// A session that is known, for one request.
    pub fn find(&self, id: &SessionId, identity: &str) -> Option<Arc<Session>> {
        let known = lock(&self.known);
        known.get(id).filter(|session| session.identity == identity).cloned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.known).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets those that were left long ago; returns when to look again.
    pub(crate) fn expire(&self, now: Instant) -> Option<Duration> {
        let mut known = lock(&self.known);
        let mut next = None::<Duration>;
        known.retain(|_, session| {
            let Some(left) = session.left() else { return true };
            let rest = REMEMBERED.saturating_sub(now.saturating_duration_since(left));
            if !rest.is_zero() {
                next = Some(next.map_or(rest, |next| next.min(rest)));
            }
            !rest.is_zero()
        });
        next
    }
}

impl Session {
    /// Its name.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn come(&self) {
        lock(&self.presence).users += 1;
    }

    /// One of its users is gone.
    pub fn leave(&self) {
        let mut presence = lock(&self.presence);
        presence.users = presence.users.saturating_sub(1);
        presence.left = Some(Instant::now());
    }

    /// Since when nobody uses it.
    fn left(&self) -> Option<Instant> {
        let presence = lock(&self.presence);
        presence.left.filter(|_| presence.users == 0)
    }

    /// Asks whether a write is to be done.
    pub fn turn(&self, sequence: u64) -> Turn {
        let mut writes = lock(&self.writes);
        // A client counts on from one session to the next.
        if !std::mem::replace(&mut writes.begun, true) {
            writes.oldest = sequence.saturating_sub(WINDOW);
        }
        let Some(ahead) = sequence.checked_sub(writes.oldest) else { return Turn::Forgotten };
        if ahead >= 2 * REMEMBERED_WRITES {
            return Turn::Forgotten;
        }
        match writes.known.get(&sequence) {
            Some(Write::InBatch) => return Turn::InBatch,
            Some(Write::Done(answer)) => return Turn::Again(*answer),
            None => {}
        }
        writes.known.insert(sequence, Write::InBatch);
        writes.newest = writes.newest.max(sequence);
        writes.forget();
        Turn::Now
    }

    /// Whether a write was begun or done before: who asks again asks for its answer.
    pub(crate) fn has(&self, sequence: u64) -> bool {
        lock(&self.writes).known.contains_key(&sequence)
    }

    /// A write was done, or refused for good: whoever asks again gets this answer.
    pub fn done(&self, sequence: u64, answer: Answer) {
        if let Some(write) = lock(&self.writes).known.get_mut(&sequence) {
            *write = Write::Done(answer);
        }
    }

    /// A write came to nothing: it may be asked for again.
    pub fn undone(&self, sequence: u64) {
        lock(&self.writes).known.remove(&sequence);
    }
}

impl Writes {
    /// Forgets the oldest, up to the first that is in flight.
    fn forget(&mut self) {
        while self.newest - self.oldest >= REMEMBERED_WRITES
            && !matches!(self.known.get(&self.oldest), Some(Write::InBatch))
        {
            self.known.remove(&self.oldest);
            self.oldest += 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a session that was left is kept for its client to come back.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(300);
/// More than a client may have in flight.
const REMEMBERED_WRITES: u64 = 4096;
/// How far apart the numbers of writes may be that come out of order, from the first on.
pub(crate) const WINDOW: u64 = REMEMBERED_WRITES / 2;
const MAX_SESSIONS: usize = 65_536;

#[cfg(test)]
mod tests {
    use kv_proto::wire::Status;

    use super::*;

    fn answer(version: u64) -> Answer {
        Answer { version, ..Answer::new(Status::Ok) }
    }

    #[test]
    fn a_write_that_is_asked_for_again_gets_its_first_answer() {
        let sessions = Sessions::default();
        let (session, known) = sessions.enter(None, "me").unwrap();
        assert!(!known);
        assert_eq!(session.turn(0), Turn::Now);
        assert_eq!(session.turn(0), Turn::InBatch);
        assert!(session.has(0) && !session.has(1));
        session.done(0, answer(7));
        session.leave();
        let (again, known) = sessions.enter(Some(session.id()), "me").unwrap();
        assert!(known);
        assert_eq!(again.turn(0), Turn::Again(answer(7)));
        assert_eq!(again.turn(2), Turn::Now, "in any order");
        assert_eq!(again.turn(1), Turn::Now);
        again.undone(1);
        assert_eq!(again.turn(1), Turn::Now);
    }

    #[test]
    fn nobody_else_goes_on_with_it() {
        let sessions = Sessions::default();
        let (session, _) = sessions.enter(None, "me").unwrap();
        let (other, known) = sessions.enter(Some(session.id()), "you").unwrap();
        assert!(!known && other.id() != session.id());
        assert!(sessions.find(&session.id(), "you").is_none());
        assert!(sessions.find(&session.id(), "me").is_some());
    }

    #[test]
    fn the_oldest_are_forgotten_and_said_to_be() {
        let sessions = Sessions::default();
        let (session, _) = sessions.enter(None, "me").unwrap();
        for sequence in 0..REMEMBERED_WRITES * 2 {
            assert_eq!(session.turn(sequence), Turn::Now);
            session.done(sequence, answer(sequence));
        }
        assert_eq!(session.turn(0), Turn::Forgotten);
        assert_eq!(session.turn(1 << 40), Turn::Forgotten, "nobody fills memory so");
        let last = REMEMBERED_WRITES * 2 - 1;
        assert_eq!(session.turn(last), Turn::Again(answer(last)));
    }

    #[test]
    fn one_identity_has_a_quarter_and_pushes_out_its_own() {
        let sessions = Sessions::new(8);
        let enter = |identity| sessions.enter(None, identity).map(|(session, _)| session);
        let (first, second) = (enter("many").unwrap(), enter("many").unwrap());
        let other = enter("other").unwrap();
        other.leave();
        assert!(enter("many").is_none(), "it has two of eight, and uses them");
        first.leave();
        let third = enter("many").unwrap();
        assert!(sessions.find(&first.id(), "many").is_none());
        assert!(sessions.find(&other.id(), "other").is_some(), "though it left before");
        drop((second, third));
    }

    #[test]
    fn numbers_that_jump_take_no_memory() {
        let (session, _) = Sessions::default().enter(None, "me").unwrap();
        assert_eq!(session.turn(1), Turn::Now);
        assert_eq!(session.turn(2 * REMEMBERED_WRITES - 1), Turn::Now);
        assert_eq!(lock(&session.writes).known.len(), 2);
    }

    #[test]
    fn sessions_that_were_left_go() {
        let sessions = Sessions::default();
        let (session, _) = sessions.enter(None, "me").unwrap();
        assert_eq!(sessions.expire(Instant::now()), None, "it is in use");
        session.leave();
        assert!(sessions.expire(Instant::now()).is_some_and(|next| next <= REMEMBERED));
        assert_eq!(sessions.expire(Instant::now() + REMEMBERED), None);
        assert!(sessions.is_empty());
    }
}
