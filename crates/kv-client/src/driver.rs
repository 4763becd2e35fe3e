//! The task behind an async client: it owns the connection, sends what callers ask, and gives them the answers.
//!
//! Unsafe here: a descriptor of our own is given to the runtime, which wants it to stay open.
#![allow(unsafe_code, reason = "registers a descriptor with the runtime")]

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabric::link::Explanation;
use kv_proto::wire::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::core::Core;
use crate::error::{Error, Kind};
use crate::in_flight::Outcome;
use crate::retry::Pauses;
use crate::token::Token;

/// One request: how it is made, again if there was no room for it, and who waits for the answer.
pub(crate) struct Ask {
    pub(crate) make: Make,
    pub(crate) answer: oneshot::Sender<Result<Outcome, Error>>,
}

pub(crate) type Make = Box<dyn FnMut(&mut Core, Token) -> Result<(), Error> + Send>;

/// What the task shares with callers.
pub(crate) struct Shared {
    /// How long the receive buffer is.
    pub(crate) receive_buffer: usize,
    state: Mutex<State>,
}

/// What changes with the connection.
#[derive(Clone)]
struct State {
    report: Option<Arc<fabric::link::Report>>,
    limits: Option<Limits>,
    max_at_once: usize,
    piece: usize,
}

impl State {
    fn of(core: &Core) -> Self {
        State {
            report: core.report(),
            limits: core.limits().copied(),
            max_at_once: core.max_at_once(),
            piece: core.piece(),
        }
    }
}

impl Shared {
    pub(crate) fn explain(&self) -> Option<Explanation> {
        let report = self.state().report.clone();
        report.map(|report| report.explain())
    }

    pub(crate) fn limits(&self) -> Option<Limits> {
        self.state().limits
    }

    /// The longest value that one request stores.
    pub(crate) fn max_at_once(&self) -> usize {
        self.state().max_at_once
    }

    /// How long the pieces of longer values are.
    pub(crate) fn piece(&self) -> usize {
        self.state().piece
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, core: &Core) {
        *self.state() = State::of(core);
    }
}

pub(crate) struct Driver {
    core: Core,
    asks: mpsc::Receiver<Ask>,
    /// Who waits for which answer.
    waiting: HashMap<Token, oneshot::Sender<Result<Outcome, Error>>>,
    /// Requests for which there was no room yet, or no connection.
    refused: VecDeque<Ask>,
    token: Token,
    shared: Arc<Shared>,
}

/// Why the connection is not served any more.
enum End {
    Lost,
    /// All clones of the client are gone.
    NoCallers,
}

impl Driver {
    pub(crate) fn new(core: Core, asks: mpsc::Receiver<Ask>) -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared {
            receive_buffer: core.receive_buffer().len(),
            state: Mutex::new(State::of(&core)),
        });
        let (waiting, refused) = (HashMap::new(), VecDeque::new());
        (
            Driver { core, asks, waiting, refused, token: Token::NOBODY, shared: shared.clone() },
            shared,
        )
    }

    pub(crate) async fn run(mut self) {
        loop {
            match self.serve().await {
                Ok(End::Lost) => {}
                Ok(End::NoCallers) => break,
                Err(error) => self.fail(&error),
            }
            self.shared.update(&self.core);
            // No connection is made while there is no caller.
            if self.waiting.is_empty() && self.refused.is_empty() {
                match self.asks.recv().await {
                    Some(ask) => self.refused.push_back(ask),
                    None => break,
                }
            }
            let Some(driver) = self.reconnect().await else { return };
            self = driver;
        }
        // Taking a link apart may take a moment.
        let Driver { core, .. } = self;
        drop(tokio::task::spawn_blocking(move || drop(core)));
    }

    /// Connects anew, on threads that may block, with growing pauses. `None`: the runtime ends.
    async fn reconnect(mut self) -> Option<Self> {
        let deadline = Instant::now() + self.core.settings().deadline;
        let mut pauses = Pauses::new();
        loop {
            let calling = tokio::task::spawn_blocking(move || {
                let connected = self.core.connect_once(deadline);
                (self, connected)
            });
            let (driver, connected) = calling.await.ok()?;
            self = driver;
            let Err(error) = connected else {
                self.shared.update(&self.core);
                return Some(self);
            };
            let pause = pauses.next();
            let over = Instant::now() + pause >= deadline || self.asks.is_closed();
            if over || !error.may_pass() {
                self.fail(&error);
                return Some(self);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// All callers get this error.
    fn fail(&mut self, error: &Error) {
        let refused = self.refused.drain(..).map(|ask| ask.answer);
        for answer in refused.chain(self.waiting.drain().map(|(_, answer)| answer)) {
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Serves callers until the connection is lost.
    async fn serve(&mut self) -> Result<End, Error> {
        let Some(fd) = self.core.fd() else { return Ok(End::Lost) };
        let fd = register(fd.try_clone_to_owned().map_err(io_failed)?)?;
        loop {
            let mut busy = self.take_asks();
            busy |= self.ask_again();
            // As much is in flight as the store takes: answers make room.
            let _ = self.core.flush();
            busy |= self.deliver();
            if !self.core.is_connected() {
                return Ok(End::Lost);
            }
            if self.asks.is_closed() && self.asks.is_empty() {
                return Ok(End::NoCallers);
            }
            if busy || !self.core.arm() || is_readable(&fd) {
                // Other tasks must run too, perhaps with what was delivered.
                tokio::task::yield_now().await;
                continue;
            }
            let waits = !self.refused.is_empty() || self.core.has_unsent();
            let handles = self.core.handles().clone();
            tokio::select! {
                ask = self.asks.recv(), if self.refused.len() < MAX_REFUSED => match ask {
                    Some(ask) => self.ask(ask),
                    None => return Ok(End::NoCallers),
                },
                // The descriptor was not readable a moment ago, so this is a change, or an older one.
                ready = fd.readable() => ready.map_err(io_failed)?.clear_ready(),
                // Callers who drop values make room in the receive buffer, without a notification.
                () = tokio::time::sleep(RETRY), if waits => {}
                // They are closed with the next flush.
                () = handles.dropped() => {}
            }
        }
    }

    fn take_asks(&mut self) -> bool {
        let mut any = false;
        while self.refused.len() < MAX_REFUSED
            && let Ok(ask) = self.asks.try_recv()
        {
            self.ask(ask);
            any = true;
        }
        any
    }

    /// Tries those again that found no room, in their order.
    fn ask_again(&mut self) -> bool {
        let before = self.refused.len();
        for _ in 0..before {
            let Some(ask) = self.refused.pop_front() else { break };
            let left = self.refused.len();
            self.ask(ask);
            if self.refused.len() > left {
                // The first of them goes first the next time too.
                self.refused.rotate_right(1);
                break;
            }
        }
        self.refused.len() < before
    }

    fn ask(&mut self, mut ask: Ask) {
        // A caller whose deadline has passed does not wait for it any more.
        if ask.answer.is_closed() {
            return;
        }
        self.token = self.token.next();
        match (ask.make)(&mut self.core, self.token) {
            Ok(()) => drop(self.waiting.insert(self.token, ask.answer)),
            Err(error) if matches!(error.kind(), Kind::Busy | Kind::Gone) => {
                self.refused.push_back(ask);
            }
            Err(error) => drop(ask.answer.send(Err(error))),
        }
    }

    fn deliver(&mut self) -> bool {
        let Driver { core, waiting, .. } = self;
        let mut any = false;
        core.poll(|token, outcome| {
            any = true;
            if let Some(answer) = waiting.remove(&token) {
                let _ = answer.send(Ok(outcome));
            }
        });
        any
    }
}

fn register(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, Error> {
    // SAFETY: an `OwnedFd` is open as long as it lives, and gives out one descriptor only.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(|error| io_failed(error.into()))
}

fn io_failed(error: std::io::Error) -> Error {
    let text = "wait for the store: the tokio runtime must have I/O and time enabled";
    Error::new(Kind::Other, text).because(error)
}

/// The runtime reports changes only; this reads the state.
fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// How many may wait for room; more wait in the channel.
const MAX_REFUSED: usize = 1024;
/// How soon those are tried again.
const RETRY: Duration = Duration::from_millis(5);
