//! The secrets that a listener authenticates its initiators with.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::key::{Key, KeyId, NAME_FIX, Secret, check_name};
use super::noise::EPHEMERAL_BYTES;
use super::ticket::Ticket;
use crate::error::{Error, ErrorKind};
use crate::setup::deadline;

/// Keys and tickets. Clones are the same keyring: changes take effect at listeners immediately.
#[derive(Clone, Default)]
pub struct Keyring {
    ring: Arc<Mutex<Ring>>,
    /// The number of revocations of keys or tickets.
    revocations: Arc<AtomicU64>,
}

#[derive(Default)]
struct Ring {
    keys: HashMap<KeyId, Key>,
    tickets: HashMap<KeyId, IssuedTicket>,
    /// Expiry times of tickets, the earliest first.
    expiries: BTreeSet<(Instant, KeyId)>,
    recent: RecentEphemerals,
}

struct IssuedTicket {
    secret: Secret,
    identity: String,
    until: Instant,
}

/// A secret, and the identity that belongs to it.
pub(super) struct FoundSecret {
    pub(super) secret: Secret,
    pub(super) identity: String,
    /// Whether it is a ticket, which can be used once.
    pub(super) single_use: bool,
    /// The number of revocations when it was found.
    pub(super) revocations: u64,
}

impl Keyring {
    /// An empty keyring.
    pub fn new() -> Self {
        Keyring::default()
    }

    /// Whether it has no keys and no tickets.
    pub(super) fn is_empty(&self) -> bool {
        let ring = self.lock();
        ring.keys.is_empty() && ring.tickets.is_empty()
    }

    /// Adds a key. With several keys at the same time a key can be replaced without interruption.
    pub fn add(&self, key: Key) -> Result<(), Error> {
        let mut ring = self.lock();
        if ring.keys.values().any(|old| old.name() == key.name() || old.id() == key.id()) {
            let why = "there is already a key with this name or this secret";
            let fix = "remove the old key first, or use another name";
            return Err(Error::new(ErrorKind::Misuse, format!("add key {}", key.name()), why, fix));
        }
        ring.keys.insert(key.id(), key);
        Ok(())
    }

    /// Replaces all keys atomically; on an error nothing changes. Tickets are revoked, since their owners' keys may be
    /// gone; sessions stay open.
    pub fn replace(&self, keys: Vec<Key>) -> Result<(), Error> {
        let fresh = Keyring::new();
        keys.into_iter().try_for_each(|key| fresh.add(key))?;
        let mut ring = self.lock();
        ring.keys = std::mem::take(&mut fresh.lock().keys);
        self.revoke_tickets_of(&mut ring);
        Ok(())
    }

    /// Revokes all tickets; keys and sessions stay. A session that was being opened with one can be recognised by
    /// [`Keyring::revocations`].
    pub fn revoke_tickets(&self) {
        self.revoke_tickets_of(&mut self.lock());
    }

    fn revoke_tickets_of(&self, ring: &mut Ring) {
        ring.tickets.clear();
        ring.expiries.clear();
        self.revocations.fetch_add(1, Relaxed);
    }

    /// The number of revocations of keys or tickets. If it is equal to
    /// [`Session::revocations`](super::Session::revocations), the credentials of that session are still valid.
    pub fn revocations(&self) -> u64 {
        self.revocations.load(Relaxed)
    }

    /// The name of a token, for clients that send it in plain text.
    pub fn name_of(&self, token: &str) -> Option<String> {
        let secret = Secret::of_token(token);
        let ring = self.lock();
        let key = ring.keys.get(&secret.id())?;
        // The id is a digest of a digest: the time of the lookup reveals nothing about the token.
        key.secret().equals(&secret).then(|| key.name().to_owned())
    }

    /// Removes a key; `false` if there is none. Its sessions stay open.
    pub fn remove(&self, name: &str) -> bool {
        let mut ring = self.lock();
        let before = ring.keys.len();
        ring.keys.retain(|_, key| key.name() != name);
        let removed = ring.keys.len() < before;
        self.revocations.fetch_add(removed.into(), Relaxed);
        removed
    }

    /// Issues a ticket that can open one session within `lifetime`, with the name `identity`.
    pub fn issue(&self, identity: &str, lifetime: Duration) -> Result<Ticket, Error> {
        let call = || format!("issue a ticket to {identity:?}");
        check_name(identity).map_err(|why| Error::new(ErrorKind::Misuse, call(), why, NAME_FIX))?;
        let ticket = Ticket::random()?;
        let mut ring = self.lock();
        ring.drop_expired(Instant::now());
        if ring.tickets.len() >= MAX_TICKETS {
            let why = format!("{MAX_TICKETS} tickets are issued and neither used nor expired");
            let fix = "issue tickets only when they are needed, and with a shorter lifetime";
            return Err(Error::new(ErrorKind::Full, call(), why, fix));
        }
        let until = deadline(lifetime);
        let issued =
            IssuedTicket { secret: ticket.secret.clone(), identity: identity.to_owned(), until };
        ring.tickets.insert(ticket.id, issued);
        ring.expiries.insert((until, ticket.id));
        Ok(ticket)
    }

    pub(super) fn find(&self, id: &KeyId, now: Instant) -> Option<FoundSecret> {
        let ring = self.lock();
        let revocations = self.revocations();
        if let Some(key) = ring.keys.get(id) {
            let (secret, identity) = (key.secret().clone(), key.name().to_owned());
            return Some(FoundSecret { secret, identity, single_use: false, revocations });
        }
        let issued = ring.tickets.get(id).filter(|issued| now < issued.until)?;
        let (secret, identity) = (issued.secret.clone(), issued.identity.clone());
        Some(FoundSecret { secret, identity, single_use: true, revocations })
    }

    /// Uses a ticket; `false` if it is used already or expired.
    pub(super) fn use_ticket(&self, id: &KeyId, now: Instant) -> bool {
        let mut ring = self.lock();
        let Some(issued) = ring.tickets.remove(id) else { return false };
        ring.expiries.remove(&(issued.until, *id));
        now < issued.until
    }

    /// Stores the ephemeral key of an initiator; `false` if it was seen before.
    pub(super) fn remember_ephemeral(&self, ephemeral: [u8; EPHEMERAL_BYTES]) -> bool {
        self.lock().recent.add(ephemeral)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // No critical section leaves an inconsistent state on a panic.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn drop_expired(&mut self, now: Instant) {
        while self.expiries.first().is_some_and(|(until, _)| *until <= now) {
            let expired = self.expiries.pop_first();
            expired.map(|(_, id)| self.tickets.remove(&id));
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

/// The ephemeral keys of recent initiators, the oldest first. A repeated one is a replay.
#[derive(Default)]
struct RecentEphemerals {
    order: VecDeque<[u8; EPHEMERAL_BYTES]>,
    all: HashSet<[u8; EPHEMERAL_BYTES]>,
}

impl RecentEphemerals {
    fn add(&mut self, ephemeral: [u8; EPHEMERAL_BYTES]) -> bool {
        if !self.all.insert(ephemeral) {
            return false;
        }
        self.order.push_back(ephemeral);
        if self.order.len() > MAX_RECENT {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.all.remove(&oldest));
        }
        true
    }
}

const MAX_TICKETS: usize = 65_536;
/// An older replay fails one step later, since it cannot encrypt its hello.
const MAX_RECENT: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, digit: &str) -> Key {
        Key::from_hex(name, &digit.repeat(64)).unwrap()
    }

    #[test]
    fn keys_are_added_and_removed_in_all_clones() {
        let ring = Keyring::new();
        let (old, new) = (key("old", "1"), key("new", "2"));
        ring.clone().add(old.clone()).unwrap();
        ring.add(new.clone()).unwrap();
        assert_eq!(ring.add(key("old", "3")).unwrap_err().kind(), ErrorKind::Misuse);
        assert_eq!(ring.add(key("other", "2")).unwrap_err().kind(), ErrorKind::Misuse);
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
        assert_eq!(ring.name_of("wlt_mine").as_deref(), Some("me"));
        assert_eq!(ring.name_of("wlt_yours"), None);
    }

    #[test]
    fn a_ticket_is_used_once_and_expires() {
        let ring = Keyring::new();
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let ticket = ring.issue("worker-7", minute).unwrap();
        let found = ring.find(&ticket.id, now).unwrap();
        assert!(found.single_use && found.identity == "worker-7");
        assert!(ring.find(&ticket.id, now + 2 * minute).is_none());
        assert!(ring.use_ticket(&ticket.id, now) && !ring.use_ticket(&ticket.id, now));
        assert!(ring.find(&ticket.id, now).is_none());
        let gone = ring.issue("worker-9", minute).unwrap();
        let before = ring.revocations();
        ring.replace(Vec::new()).unwrap();
        assert!(ring.find(&gone.id, now).is_none() && ring.revocations() > before);
        let late = ring.issue("worker-8", minute).unwrap();
        assert!(!ring.use_ticket(&late.id, now + 2 * minute));
        assert_eq!(ring.issue("anonymous", minute).unwrap_err().kind(), ErrorKind::Misuse);
    }

    #[test]
    fn tickets_are_limited_and_expired_ones_are_dropped() {
        let ring = Keyring::new();
        let hour = Duration::from_secs(3600);
        let ended = ring.issue("early", Duration::ZERO).unwrap();
        for _ in 0..MAX_TICKETS {
            ring.issue("many", hour).unwrap();
        }
        assert_eq!(ring.issue("one more", hour).unwrap_err().kind(), ErrorKind::Full);
        assert!(!ring.lock().tickets.contains_key(&ended.id));
        assert_eq!(ring.lock().expiries.len(), MAX_TICKETS);
        ring.lock().drop_expired(Instant::now() + 2 * hour);
        ring.issue("one more", hour).unwrap();
    }

    #[test]
    fn ephemeral_keys_of_recent_initiators_are_stored() {
        let ring = Keyring::new();
        let initiator = |number: usize| {
            let mut ephemeral = [0; EPHEMERAL_BYTES];
            ephemeral[..8].copy_from_slice(&number.to_le_bytes());
            ephemeral
        };
        assert!((0..=MAX_RECENT).all(|number| ring.remember_ephemeral(initiator(number))));
        assert!(
            !ring.remember_ephemeral(initiator(1))
                && !ring.remember_ephemeral(initiator(MAX_RECENT))
        );
        assert!(ring.remember_ephemeral(initiator(0)), "no longer stored");
        assert_eq!(ring.lock().recent.all.len(), MAX_RECENT);
    }
}
