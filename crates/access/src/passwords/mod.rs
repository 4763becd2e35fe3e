//! Whether a name and a password are right. A comparison takes long on purpose, so answers are remembered, and
//! those that were right are not pushed out by any number of wrong ones.

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

/// Compares passwords, and remembers what came of it.
#[derive(Debug)]
pub struct Passwords {
    memory: Arc<Memory>,
    /// One comparison at a time: no caller can take more than one CPU.
    turn: Arc<Semaphore>,
    /// As many may wait for their turn.
    waiting: Semaphore,
}

/// What became of a name and a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Both are right.
    Right,
    /// One of them is not, or nobody has that name.
    Wrong,
    /// Too many wait to be compared.
    Busy,
}

impl Passwords {
    /// None: the system has no randomness.
    pub fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Passwords {
            memory: Arc::new(Memory { key, answers: Mutex::default() }),
            turn: Arc::new(Semaphore::new(1)),
            waiting: Semaphore::new(MAX_WAITING),
        })
    }

    /// Compares, or remembers. Unknown names take as long as known ones.
    pub async fn check(&self, users: &Users, credentials: &Credentials) -> Verdict {
        let (hash, known) = users.hash_of(&credentials.name);
        let tag = self.memory.tag(hash, known, credentials);
        if let Some(right) = self.memory.answer(&tag) {
            return Verdict::of(right);
        }
        let Ok(_place) = self.waiting.try_acquire() else { return Verdict::Busy };
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return Verdict::Busy };
        // Whoever was before may have asked the same.
        if let Some(right) = self.memory.answer(&tag) {
            return Verdict::of(right);
        }
        let (hash, password) = (hash.clone(), credentials.password.clone());
        let memory = self.memory.clone();
        // It ends, and is remembered, also if the caller has gone meanwhile.
        let compared = spawn_blocking(move || {
            let right = hash.is_of(&password) && known;
            memory.remember(tag, right);
            drop(turn);
            right
        });
        compared.await.map_or(Verdict::Busy, Verdict::of)
    }
}

impl Verdict {
    fn of(right: bool) -> Self {
        if right { Verdict::Right } else { Verdict::Wrong }
    }
}

/// A name and a password as a caller shows them.
pub struct Credentials {
    name: String,
    password: Vec<u8>,
}

impl Credentials {
    /// From the value of the header `authorization`.
    pub fn parse(header: &[u8]) -> Option<Self> {
        header::basic(header).map(|(name, password)| Credentials { name, password })
    }
}

/// Answers by tags: keyed digests of what was asked, so that no password is kept.
#[derive(Debug)]
struct Memory {
    key: hmac::Key,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    right: Bounded<MAX_RIGHT>,
    wrong: Bounded<MAX_WRONG>,
}

type Tag = [u8; 32];

impl Memory {
    /// The hash is a part of it: when it changes in the file, nothing is remembered of it.
    fn tag(&self, hash: &Hash, known: bool, credentials: &Credentials) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&[u8::from(known)]);
        hash.bytes().for_each(|bytes| context.update(bytes));
        context.update(&(credentials.name.len() as u64).to_le_bytes());
        context.update(credentials.name.as_bytes());
        context.update(&credentials.password);
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn answer(&self, tag: &Tag) -> Option<bool> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |right: bool| move || right;
        let right = answers.right.has(tag).then(known(true));
        right.or_else(|| answers.wrong.has(tag).then(known(false)))
    }

    fn remember(&self, tag: Tag, right: bool) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if right { answers.right.add(tag) } else { answers.wrong.add(tag) }
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

/// A second of work at the usual cost, for who comes last.
const MAX_WAITING: usize = 16;
/// More users than such a file is meant for.
const MAX_RIGHT: usize = 1000;
/// Scrapers with an old password ask the same again and again; who tries many is not remembered for long.
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
    async fn the_right_password_is_remembered_whatever_else_is_tried() {
        let passwords = Passwords::new().unwrap();
        let (users, right) = (users(), credentials("ops", "fakepassword"));
        assert_eq!(passwords.check(&users, &right).await, Verdict::Right);
        for wrong in
            [credentials("ops", "other"), credentials("root", "fakepassword"), credentials("", "")]
        {
            assert_eq!(passwords.check(&users, &wrong).await, Verdict::Wrong);
        }
        for number in 0..2 * MAX_WRONG {
            passwords.memory.remember([number as u8; 32], false);
        }
        let _all_places = passwords.waiting.acquire_many(MAX_WAITING as u32).await.unwrap();
        assert_eq!(passwords.check(&users, &right).await, Verdict::Right);
        assert_eq!(passwords.check(&users, &credentials("ops", "new")).await, Verdict::Busy);
        let none = Users::new(HashMap::new());
        assert_eq!(passwords.check(&none, &right).await, Verdict::Busy, "it was of another hash");
    }

    #[test]
    fn headers_are_read_as_they_are_sent() {
        let parsed = Credentials::parse(b"bAsIc b3BzOmE6Yg==").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.password.as_slice()), ("ops", &b"a:b"[..]));
        for wrong in
            [&b""[..], b"Basic", b"Basic ", b"Bearer b3BzOmE6Yg==", b"Basic b3Bz", b"Basic !"]
        {
            assert!(Credentials::parse(wrong).is_none());
        }
    }
}
