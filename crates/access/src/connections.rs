//! The connections of a listener: their limit, and which of them is closed for a new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The open connections of a listener.
///
/// At the limit a new connection replaces another: the one that has made no request for longest, since it was opened or since its
/// last one was answered; or else the one whose answer has been prepared for longest. So a new connection has the time of as many
/// others as the limit allows to make its request. Authenticated connections are never replaced; one identity has at most
/// three quarters of all.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    list: Mutex<List>,
    closed: Notify,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct List {
    /// Orders connections by their last change.
    clock: u64,
    last_id: u64,
    open: HashMap<u64, Entry>,
    /// The number of authenticated connections, by identity.
    authenticated: HashMap<String, usize>,
    /// Replaced connections that are not closed yet.
    closing: usize,
}

#[derive(Debug)]
struct Entry {
    state: State,
    since: u64,
    replaced: Arc<Notify>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It has made no request, or its last one is answered.
    Idle,
    /// The answer to its request is being prepared.
    Busy,
    Authenticated(String),
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub struct Connection {
    all: Arc<Connections>,
    id: u64,
    replaced: Arc<Notify>,
}

/// Why an authenticated request cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The connection is being closed for another one: nothing may be executed.
    Replaced,
    /// The identity has too many connections.
    TooMany,
}

impl Connections {
    /// At most `max` connections.
    pub fn new(max: usize) -> Self {
        Connections {
            max,
            list: Mutex::default(),
            closed: Notify::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Adds a connection, which may replace another; `None`: all others are authenticated.
    pub fn admit(self: &Arc<Self>) -> Option<Connection> {
        let mut list = self.lock();
        if list.open.len() >= self.max {
            self.count_refused();
            if !list.replace_one() {
                return None;
            }
        }
        list.last_id += 1;
        let (id, since, replaced) = (list.last_id, list.tick(), Arc::new(Notify::new()));
        list.open.insert(id, Entry { state: State::Idle, since, replaced: replaced.clone() });
        Some(Connection { all: self.clone(), id, replaced })
    }

    /// The number of open connections.
    pub fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// The number of connections that were refused or replaced at the limit, or counted by [`Connections::count_refused`].
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a refused connection.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Waits until all connections are closed.
    pub async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.lock().is_empty() {
                return;
            }
            closed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closing == 0
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Makes a place by closing a connection that is not authenticated; `false` if there is none.
    fn replace_one(&mut self) -> bool {
        let candidates = self.open.iter().filter(|(_, entry)| !entry.state.is_authenticated());
        let first = candidates.min_by_key(|(_, entry)| (entry.state == State::Busy, entry.since));
        let Some(id) = first.map(|(id, _)| *id) else { return false };
        if let Some(entry) = self.open.remove(&id) {
            self.closing += 1;
            entry.replaced.notify_one();
        }
        true
    }
}

impl State {
    fn is_authenticated(&self) -> bool {
        matches!(self, State::Authenticated(_))
    }
}

impl Connection {
    /// It makes a request.
    pub fn set_busy(&self) {
        self.set(State::Busy);
    }

    /// Its last request is answered.
    pub fn set_idle(&self) {
        self.set(State::Idle);
    }

    /// Its caller is authenticated.
    pub fn authenticate(&self, identity: &str) -> Result<(), NotAdmitted> {
        let mut list = self.all.lock();
        let List { open, authenticated, .. } = &mut *list;
        let entry = open.get_mut(&self.id).ok_or(NotAdmitted::Replaced)?;
        if entry.state.is_authenticated() {
            return Ok(());
        }
        let own = authenticated.entry(identity.to_owned()).or_default();
        if *own >= self.all.max / 4 * 3 {
            return Err(NotAdmitted::TooMany);
        }
        *own += 1;
        entry.state = State::Authenticated(identity.to_owned());
        Ok(())
    }

    /// Waits until it is to be closed for another one.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }

    fn set(&self, state: State) {
        let mut list = self.all.lock();
        let now = list.tick();
        let entry = list.open.get_mut(&self.id);
        if let Some(entry) = entry.filter(|entry| !entry.state.is_authenticated()) {
            (entry.state, entry.since) = (state, now);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut list = self.all.lock();
        match list.open.remove(&self.id) {
            Some(Entry { state: State::Authenticated(identity), .. }) => {
                let own = list.authenticated.get_mut(&identity);
                let left = own.map(|own| {
                    *own -= 1;
                    *own
                });
                if left == Some(0) {
                    list.authenticated.remove(&identity);
                }
            }
            Some(_) => {}
            None => list.closing -= 1,
        }
        drop(list);
        self.all.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_without_a_request_are_replaced_first_the_oldest_before_others() {
        let all = Arc::new(Connections::new(4));
        let [busy, idle, first, second] = [(); 4].map(|()| all.admit().unwrap());
        busy.set_busy();
        idle.set_idle();
        let mut held = Vec::new();
        for oldest in [&first, &second, &idle, &busy] {
            held.push(all.admit().unwrap());
            oldest.replaced().await;
            held.last().unwrap().authenticate(&format!("{}", held.len())).unwrap();
        }
        assert_eq!(first.authenticate("late"), Err(NotAdmitted::Replaced));
        assert!(all.admit().is_none(), "all are authenticated");
        assert_eq!((all.count(), all.refused()), (4, 5));
    }

    #[tokio::test]
    async fn new_connections_do_not_replace_each_other_while_others_are_idle_for_longer() {
        let all = Arc::new(Connections::new(4));
        let idle = [(); 4].map(|()| all.admit().unwrap());
        for each in &idle {
            each.set_busy();
            each.set_idle();
        }
        let probes = [(); 3].map(|()| all.admit().unwrap());
        for probe in &probes {
            assert_eq!(probe.authenticate("monitoring"), Ok(()), "it is not replaced");
        }
        for each in &idle[..3] {
            each.replaced().await;
        }
    }

    #[tokio::test]
    async fn one_identity_leaves_places_for_others() {
        let all = Arc::new(Connections::new(8));
        let mut many: Vec<_> = (0..6).map(|_| all.admit().unwrap()).collect();
        assert!(many.iter().all(|each| each.authenticate("many").is_ok()));
        let more = [(); 2].map(|()| all.admit().unwrap());
        for each in &more {
            assert_eq!(each.authenticate("many"), Err(NotAdmitted::TooMany));
        }
        let other = all.admit().unwrap();
        assert_eq!(other.authenticate("other"), Ok(()));
        more[0].replaced().await;
        many.pop();
        assert_eq!(more[1].authenticate("many"), Ok(()));
        drop((many, more, other));
        all.all_closed().await;
        assert!(all.lock().authenticated.is_empty());
    }
}
