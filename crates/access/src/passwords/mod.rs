//! Checks names and passwords. A comparison is slow by design, so results are cached; wrong passwords
//! do not evict right ones.

mod hash;
mod users;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::header;

pub use hash::Hash;
pub use users::Users;

/// Compares passwords and caches the results.
#[derive(Debug)]
pub struct Passwords {
    cache: Arc<Cache>,
    /// One comparison at a time, so that callers cannot occupy more than one CPU.
    comparison: Arc<Semaphore>,
    /// Limits the number of waiting callers.
    queue: Semaphore,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordCheck {
    /// Name and password are right.
    Right,
    /// The name is unknown or the password wrong.
    Wrong,
    /// Too many comparisons are waiting.
    Busy,
}

impl Passwords {
    /// `None`: the system's random number generator failed.
    pub fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Passwords {
            cache: Arc::new(Cache { key, results: Mutex::default() }),
            comparison: Arc::new(Semaphore::new(1)),
            queue: Semaphore::new(MAX_WAITING),
        })
    }

    /// Looks the result up in the cache, or compares. Unknown names take as long as known ones.
    pub async fn check(&self, users: &Users, credentials: &Credentials) -> PasswordCheck {
        let (hash, known) = users.hash_of(&credentials.name);
        let tag = self.cache.tag(hash, known, credentials);
        if let Some(right) = self.cache.get(&tag) {
            return PasswordCheck::of(right);
        }
        let Ok(_waiting) = self.queue.try_acquire() else { return PasswordCheck::Busy };
        let Ok(permit) = self.comparison.clone().acquire_owned().await else {
            return PasswordCheck::Busy;
        };
        // The caller before may have had the same credentials.
        if let Some(right) = self.cache.get(&tag) {
            return PasswordCheck::of(right);
        }
        let (hash, password) = (hash.clone(), credentials.password.clone());
        let cache = self.cache.clone();
        // Finishes and caches its result even if the caller has disconnected.
        let compared = spawn_blocking(move || {
            let right = hash.matches(&password) && known;
            cache.insert(tag, right);
            drop(permit);
            right
        });
        compared.await.map_or(PasswordCheck::Busy, PasswordCheck::of)
    }
}

impl PasswordCheck {
    fn of(right: bool) -> Self {
        if right { PasswordCheck::Right } else { PasswordCheck::Wrong }
    }
}

/// Name and password of a request.
pub struct Credentials {
    name: String,
    password: Vec<u8>,
}

impl Credentials {
    /// From the value of the header `authorization`.
    pub fn parse(header: &[u8]) -> Option<Self> {
        header::basic(header).map(|(name, password)| Credentials { name, password })
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Results by tag: a keyed digest of the credentials, so that no password is kept.
#[derive(Debug)]
struct Cache {
    key: hmac::Key,
    results: Mutex<Results>,
}

#[derive(Debug, Default)]
struct Results {
    right: Bounded<MAX_RIGHT>,
    wrong: Bounded<MAX_WRONG>,
}

type Tag = [u8; 32];

impl Cache {
    /// Covers the hash too: a changed hash in the file invalidates the cached results.
    fn tag(&self, hash: &Hash, known: bool, credentials: &Credentials) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&[u8::from(known)]);
        hash.bytes().for_each(|bytes| context.update(bytes));
        context.update(&(credentials.name.len() as u64).to_le_bytes());
        context.update(credentials.name.as_bytes());
        context.update(&credentials.password);
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn get(&self, tag: &Tag) -> Option<bool> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |right: bool| move || right;
        let right = results.right.has(tag).then(known(true));
        right.or_else(|| results.wrong.has(tag).then(known(false)))
    }

    fn insert(&self, tag: Tag, right: bool) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if right { results.right.add(tag) } else { results.wrong.add(tag) }
    }
}

/// The last `MAX` tags.
#[derive(Debug, Default)]
struct Bounded<const MAX: usize> {
    tags: HashSet<Tag>,
    order: VecDeque<Tag>,
}

impl<const MAX: usize> Bounded<MAX> {
    fn has(&self, tag: &Tag) -> bool {
        self.tags.contains(tag)
    }

    fn add(&mut self, tag: Tag) {
        if !self.tags.insert(tag) {
            return;
        }
        self.order.push_back(tag);
        if self.order.len() > MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.tags.remove(&oldest);
        }
    }
}

/// The last one waits a second at the default cost.
const MAX_WAITING: usize = 16;
/// More than a web config file has users.
const MAX_RIGHT: usize = 1000;
/// Enough for scrapers that repeat an old password; a caller that tries many evicts its own results.
const MAX_WRONG: usize = 1000;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// `fakepassword`, at the usual cost.
    const HASH: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

    fn users() -> Users {
        let named = HashMap::from([("ops".to_owned(), Hash::parse(HASH).unwrap())]);
        Users::new(named)
    }

    fn credentials(name: &str, password: &str) -> Credentials {
        Credentials { name: name.to_owned(), password: password.into() }
    }

    #[tokio::test]
    async fn wrong_passwords_do_not_evict_the_right_one() {
        let passwords = Passwords::new().unwrap();
        let (users, right) = (users(), credentials("ops", "fakepassword"));
        assert_eq!(passwords.check(&users, &right).await, PasswordCheck::Right);
        for wrong in
            [credentials("ops", "other"), credentials("root", "fakepassword"), credentials("", "")]
        {
            assert_eq!(passwords.check(&users, &wrong).await, PasswordCheck::Wrong);
        }
        for number in 0..2 * MAX_WRONG {
            passwords.cache.insert([number as u8; 32], false);
        }
        let _all_permits = passwords.queue.acquire_many(MAX_WAITING as u32).await.unwrap();
        assert_eq!(passwords.check(&users, &right).await, PasswordCheck::Right);
        assert_eq!(passwords.check(&users, &credentials("ops", "new")).await, PasswordCheck::Busy);
        let none = Users::new(HashMap::new());
        assert_eq!(
            passwords.check(&none, &right).await,
            PasswordCheck::Busy,
            "the cached result was for another hash"
        );
    }

    #[test]
    fn basic_headers_are_parsed() {
        let parsed = Credentials::parse(b"bAsIc b3BzOmE6Yg==").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.password.as_slice()), ("ops", &b"a:b"[..]));
        for wrong in
            [&b""[..], b"Basic", b"Basic ", b"Bearer b3BzOmE6Yg==", b"Basic b3Bz", b"Basic !"]
        {
            assert!(Credentials::parse(wrong).is_none());
        }
    }
}
