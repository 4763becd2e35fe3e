//! The secrets by which a listener knows its callers.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::key::{Key, KeyId, NAME_FIX, Secret, check_name};
use super::noise::EPHEMERAL;
use super::ticket::Ticket;
use crate::error::{Error, Kind};
use crate::half::deadline;

/// Keys and tickets. Clones are the same ring: what is added later, listeners know at once.
#[derive(Clone, Default)]
pub struct Keyring {
    ring: Arc<Mutex<Ring>>,
    /// How often keys or tickets were taken away, for who must know whether somebody came by one of them.
    withdrawals: Arc<AtomicU64>,
}

#[derive(Default)]
struct Ring {
    keys: HashMap<KeyId, Key>,
    tickets: HashMap<KeyId, Issued>,
    /// When each ticket ends, the earliest first.
    ends: BTreeSet<(Instant, KeyId)>,
    seen: Seen,
}

struct Issued {
    secret: Secret,
    identity: String,
    until: Instant,
}

/// A secret, and who has it.
pub(super) struct Found {
    pub(super) secret: Secret,
    pub(super) identity: String,
    /// It is a ticket, which must be spent.
    pub(super) once: bool,
    /// How often keys had been taken away when it was found.
    pub(super) withdrawals: u64,
}

impl Keyring {
    /// A ring without keys.
    pub fn new() -> Self {
        Keyring::default()
    }

    /// Adds a key. Several at once let keys be changed without a moment when nobody gets in.
    pub fn add(&self, key: Key) -> Result<(), Error> {
        let mut ring = self.lock();
        if ring.keys.values().any(|old| old.name() == key.name() || old.id() == key.id()) {
            let why = "this name or this secret is on the ring already";
            let fix = "remove the old key first, or give another name";
            return Err(Error::new(Kind::Misuse, format!("add key {}", key.name()), why, fix));
        }
        ring.keys.insert(key.id(), key);
        Ok(())
    }

    /// Puts these in the place of all keys, at once, or none of them. Tickets go, since who got them may be known no
    /// more; sessions stay.
    pub fn replace(&self, keys: Vec<Key>) -> Result<(), Error> {
        let fresh = Keyring::new();
        keys.into_iter().try_for_each(|key| fresh.add(key))?;
        let mut ring = self.lock();
        ring.keys = std::mem::take(&mut fresh.lock().keys);
        self.withdraw_tickets_of(&mut ring);
        Ok(())
    }

    /// Takes all tickets away, since who got them may be known no more; keys and sessions stay. Who is coming by one
    /// just now can be told by [`Keyring::withdrawals`].
    pub fn withdraw_tickets(&self) {
        self.withdraw_tickets_of(&mut self.lock());
    }

    fn withdraw_tickets_of(&self, ring: &mut Ring) {
        ring.tickets.clear();
        ring.ends.clear();
        self.withdrawals.fetch_add(1, Relaxed);
    }

    /// How often keys or tickets were taken away, by [`Keyring::replace`] and its like: the same number as
    /// [`Session::withdrawals`](super::Session::withdrawals) means that what a session came by is still good.
    pub fn withdrawals(&self) -> u64 {
        self.withdrawals.load(Relaxed)
    }

    /// Whose token this is, for callers that show it as it is.
    pub fn holder(&self, token: &str) -> Option<String> {
        let shown = Secret::of_token(token);
        let ring = self.lock();
        let key = ring.keys.get(&shown.id())?;
        // The id is a digest of a digest: that it was found tells nothing of the token.
        key.secret().is(&shown).then(|| key.name().to_owned())
    }

    /// Takes a key away, and says whether there was one. Sessions that it opened stay.
    pub fn remove(&self, name: &str) -> bool {
        let mut ring = self.lock();
        let before = ring.keys.len();
        ring.keys.retain(|_, key| key.name() != name);
        let removed = ring.keys.len() < before;
        self.withdrawals.fetch_add(removed.into(), Relaxed);
        removed
    }

    /// Makes a ticket with which one session can be opened within `lifetime`, under the name `identity`.
    pub fn issue(&self, identity: &str, lifetime: Duration) -> Result<Ticket, Error> {
        let call = || format!("issue a ticket to {identity:?}");
        check_name(identity).map_err(|why| Error::new(Kind::Misuse, call(), why, NAME_FIX))?;
        let ticket = Ticket::random()?;
        let mut ring = self.lock();
        ring.forget_ended(Instant::now());
        if ring.tickets.len() >= MAX_TICKETS {
            let why = format!("{MAX_TICKETS} tickets are out that were neither used nor ended");
            let fix = "issue tickets only when they are needed, and for a shorter time";
            return Err(Error::new(Kind::Full, call(), why, fix));
        }
        let until = deadline(lifetime);
        let issued = Issued { secret: ticket.secret.clone(), identity: identity.to_owned(), until };
        ring.tickets.insert(ticket.id, issued);
        ring.ends.insert((until, ticket.id));
        Ok(ticket)
    }

    pub(super) fn find(&self, id: &KeyId, now: Instant) -> Option<Found> {
        let ring = self.lock();
        let withdrawals = self.withdrawals();
        if let Some(key) = ring.keys.get(id) {
            let (secret, identity) = (key.secret().clone(), key.name().to_owned());
            return Some(Found { secret, identity, once: false, withdrawals });
        }
        let issued = ring.tickets.get(id).filter(|issued| now < issued.until)?;
        let (secret, identity) = (issued.secret.clone(), issued.identity.clone());
        Some(Found { secret, identity, once: true, withdrawals })
    }

    /// Uses a ticket up, and says whether it was still good.
    pub(super) fn spend(&self, id: &KeyId, now: Instant) -> bool {
        let mut ring = self.lock();
        let Some(issued) = ring.tickets.remove(id) else { return false };
        ring.ends.remove(&(issued.until, *id));
        now < issued.until
    }

    /// Remembers with which ephemeral key a caller came, and says whether it is new.
    pub(super) fn remember(&self, ephemeral: [u8; EPHEMERAL]) -> bool {
        self.lock().seen.add(ephemeral)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // Nothing is left half done where a panic could happen.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn forget_ended(&mut self, now: Instant) {
        while self.ends.first().is_some_and(|(until, _)| *until <= now) {
            let ended = self.ends.pop_first();
            ended.map(|(_, id)| self.tickets.remove(&id));
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ring = self.lock();
        let mut names: Vec<&str> = ring.keys.values().map(Key::name).collect();
        names.sort_unstable();
        let tickets = ring.tickets.len();
        f.debug_struct("Keyring").field("keys", &names).field("tickets", &tickets).finish()
    }
}

/// The ephemeral keys of the last callers, the oldest first. One that comes twice was recorded.
#[derive(Default)]
struct Seen {
    order: VecDeque<[u8; EPHEMERAL]>,
    all: HashSet<[u8; EPHEMERAL]>,
}

impl Seen {
    fn add(&mut self, ephemeral: [u8; EPHEMERAL]) -> bool {
        if !self.all.insert(ephemeral) {
            return false;
        }
        self.order.push_back(ephemeral);
        if self.order.len() > MAX_SEEN {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.all.remove(&oldest));
        }
        true
    }
}

const MAX_TICKETS: usize = 65_536;
/// Beyond that a recorded caller fails one step later, where it lacks the keys.
const MAX_SEEN: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, digit: &str) -> Key {
        Key::from_hex(name, &digit.repeat(64)).unwrap()
    }

    #[test]
    fn keys_come_and_go_and_clones_see_it() {
        let ring = Keyring::new();
        let (old, new) = (key("old", "1"), key("new", "2"));
        ring.clone().add(old.clone()).unwrap();
        ring.add(new.clone()).unwrap();
        assert_eq!(ring.add(key("old", "3")).unwrap_err().kind(), Kind::Misuse);
        assert_eq!(ring.add(key("other", "2")).unwrap_err().kind(), Kind::Misuse);
        let now = Instant::now();
        assert_eq!(ring.find(&old.id(), now).unwrap().identity, "old");
        assert!(ring.remove("old") && !ring.remove("old"));
        assert!(ring.find(&old.id(), now).is_none());
        assert_eq!(ring.find(&new.id(), now).unwrap().secret.bytes(), &[0x22; 32]);
        assert_eq!(format!("{ring:?}"), "Keyring { keys: [\"new\"], tickets: 0 }");
        ring.replace(vec![key("third", "3"), key("fourth", "3")]).unwrap_err();
        assert!(ring.find(&new.id(), now).is_some(), "all or nothing");
        ring.replace(vec![Key::from_token("me", "wlt_mine").unwrap()]).unwrap();
        assert!(ring.find(&new.id(), now).is_none());
        assert_eq!(ring.holder("wlt_mine").as_deref(), Some("me"));
        assert_eq!(ring.holder("wlt_yours"), None);
    }

    #[test]
    fn a_ticket_is_spent_once_and_ends() {
        let ring = Keyring::new();
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let ticket = ring.issue("worker-7", minute).unwrap();
        let found = ring.find(&ticket.id, now).unwrap();
        assert!(found.once && found.identity == "worker-7");
        assert!(ring.find(&ticket.id, now + 2 * minute).is_none());
        assert!(ring.spend(&ticket.id, now) && !ring.spend(&ticket.id, now));
        assert!(ring.find(&ticket.id, now).is_none());
        let gone = ring.issue("worker-9", minute).unwrap();
        let before = ring.withdrawals();
        ring.replace(Vec::new()).unwrap();
        assert!(ring.find(&gone.id, now).is_none() && ring.withdrawals() > before);
        let late = ring.issue("worker-8", minute).unwrap();
        assert!(!ring.spend(&late.id, now + 2 * minute));
        assert_eq!(ring.issue("anonymous", minute).unwrap_err().kind(), Kind::Misuse);
    }

    #[test]
    fn tickets_are_limited_and_ended_ones_make_room() {
        let ring = Keyring::new();
        let hour = Duration::from_secs(3600);
        let ended = ring.issue("early", Duration::ZERO).unwrap();
        for _ in 0..MAX_TICKETS {
            ring.issue("many", hour).unwrap();
        }
        assert_eq!(ring.issue("one more", hour).unwrap_err().kind(), Kind::Full);
        assert!(!ring.lock().tickets.contains_key(&ended.id));
        assert_eq!(ring.lock().ends.len(), MAX_TICKETS);
        ring.lock().forget_ended(Instant::now() + 2 * hour);
        ring.issue("one more", hour).unwrap();
    }

    #[test]
    fn the_last_callers_are_remembered_and_no_more() {
        let ring = Keyring::new();
        let caller = |number: usize| {
            let mut ephemeral = [0; EPHEMERAL];
            ephemeral[..8].copy_from_slice(&number.to_le_bytes());
            ephemeral
        };
        assert!((0..=MAX_SEEN).all(|number| ring.remember(caller(number))));
        assert!(!ring.remember(caller(1)) && !ring.remember(caller(MAX_SEEN)));
        assert!(ring.remember(caller(0)), "forgotten long ago");
        assert_eq!(ring.lock().seen.all.len(), MAX_SEEN);
    }
}
