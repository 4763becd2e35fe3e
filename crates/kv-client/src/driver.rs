//! The task of an async client: it owns the connection, sends the requests of callers, and returns the answers.
//!
//! Unsafe here: a descriptor of our own is registered with the runtime, which requires that it stays open.
#![allow(unsafe_code, reason = "registers a descriptor with the runtime")]

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabric::link::LinkStatus;
use kv_proto::wire::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::core::ClientCore;
use crate::error::{Error, ErrorKind};
use crate::outcome::Outcome;
use crate::request_id::RequestId;
use crate::retry::Pauses;

/// One request: how it is submitted, again if it had to wait, and where its outcome goes.
pub(crate) struct QueuedRequest {
    pub(crate) submit: Submit,
    pub(crate) outcome: oneshot::Sender<Result<Outcome, Error>>,
}

pub(crate) type Submit = Box<dyn FnMut(&mut ClientCore, RequestId) -> Result<(), Error> + Send>;

/// State that the task shares with callers.
pub(crate) struct Shared {
    /// The length of the client buffer.
    pub(crate) client_buffer: usize,
    state: Mutex<State>,
}

/// State that changes with the connection.
#[derive(Clone)]
struct State {
    report: Option<Arc<fabric::link::Report>>,
    limits: Option<Limits>,
    max_put_bytes: usize,
    chunk: usize,
}

impl State {
    fn of(core: &ClientCore) -> Self {
        State {
            report: core.report(),
            limits: core.limits().copied(),
            max_put_bytes: core.max_put_bytes(),
            chunk: core.chunk(),
        }
    }
}

impl Shared {
    pub(crate) fn link_status(&self) -> Option<LinkStatus> {
        let report = self.state().report.clone();
        report.map(|report| report.status())
    }

    pub(crate) fn limits(&self) -> Option<Limits> {
        self.state().limits
    }

    /// The maximum length of a value that one request stores.
    pub(crate) fn max_put_bytes(&self) -> usize {
        self.state().max_put_bytes
    }

    /// The length of the chunks of longer values.
    pub(crate) fn chunk(&self) -> usize {
        self.state().chunk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, core: &ClientCore) {
        *self.state() = State::of(core);
    }
}

pub(crate) struct Driver {
    core: ClientCore,
    requests: mpsc::Receiver<QueuedRequest>,
    /// The callers that wait for an answer.
    callers: HashMap<RequestId, oneshot::Sender<Result<Outcome, Error>>>,
    /// Requests that wait for space or a connection.
    waiting_for_space: VecDeque<QueuedRequest>,
    request_id: RequestId,
    shared: Arc<Shared>,
}

/// Why `serve` has returned.
enum End {
    Lost,
    /// All clones of the client are dropped.
    NoCallers,
}

impl Driver {
    pub(crate) fn new(
        core: ClientCore,
        requests: mpsc::Receiver<QueuedRequest>,
    ) -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared {
            client_buffer: core.client_buffer().len(),
            state: Mutex::new(State::of(&core)),
        });
        let (callers, waiting_for_space) = (HashMap::new(), VecDeque::new());
        (
            Driver {
                core,
                requests,
                callers,
                waiting_for_space,
                request_id: RequestId::NONE,
                shared: shared.clone(),
            },
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
            // Without callers no connection is made.
            if self.callers.is_empty() && self.waiting_for_space.is_empty() {
                match self.requests.recv().await {
                    Some(request) => self.waiting_for_space.push_back(request),
                    None => break,
                }
            }
            let Some(driver) = self.reconnect().await else { return };
            self = driver;
        }
        // Closing a link may take a moment.
        let Driver { core, .. } = self;
        drop(tokio::task::spawn_blocking(move || drop(core)));
    }

    /// Reconnects, on threads that may block, with growing pauses. `None`: the runtime ends.
    async fn reconnect(mut self) -> Option<Self> {
        let deadline = Instant::now() + self.core.settings().timeout;
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
            let over = Instant::now() + pause >= deadline || self.requests.is_closed();
            if over || !error.is_transient() {
                self.fail(&error);
                return Some(self);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns this error to all callers.
    fn fail(&mut self, error: &Error) {
        let waiting_for_space = self.waiting_for_space.drain(..).map(|request| request.outcome);
        for answer in waiting_for_space.chain(self.callers.drain().map(|(_, answer)| answer)) {
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Serves callers until the connection is lost.
    async fn serve(&mut self) -> Result<End, Error> {
        let Some(fd) = self.core.fd() else { return Ok(End::Lost) };
        let fd = register(fd.try_clone_to_owned().map_err(io_failed)?)?;
        loop {
            let mut busy = self.take_queued();
            busy |= self.retry_waiting();
            // On an error the limit in flight is reached: answers free space.
            let _ = self.core.flush();
            busy |= self.deliver();
            if !self.core.is_connected() {
                return Ok(End::Lost);
            }
            if self.requests.is_closed() && self.requests.is_empty() {
                return Ok(End::NoCallers);
            }
            if busy || !self.core.arm() || is_readable(&fd) {
                // Let other tasks run, perhaps with the delivered answers.
                tokio::task::yield_now().await;
                continue;
            }
            let waits = !self.waiting_for_space.is_empty() || self.core.has_unsent();
            let handles = self.core.handles().clone();
            tokio::select! {
                request = self.requests.recv(), if self.waiting_for_space.len() < MAX_WAITING => match request {
                    Some(request) => self.submit(request),
                    None => return Ok(End::NoCallers),
                },
                // The descriptor was not readable just now, so this is a new event or an old one.
                ready = fd.readable() => ready.map_err(io_failed)?.clear_ready(),
                // Callers that drop values free space in the client buffer, without a notification.
                () = tokio::time::sleep(RETRY_INTERVAL), if waits => {}
                // The next flush closes them.
                () = handles.dropped() => {}
            }
        }
    }

    fn take_queued(&mut self) -> bool {
        let mut any = false;
        while self.waiting_for_space.len() < MAX_WAITING
            && let Ok(request) = self.requests.try_recv()
        {
            self.submit(request);
            any = true;
        }
        any
    }

    /// Submits waiting requests again, in their order.
    fn retry_waiting(&mut self) -> bool {
        let before = self.waiting_for_space.len();
        for _ in 0..before {
            let Some(request) = self.waiting_for_space.pop_front() else { break };
            let left = self.waiting_for_space.len();
            self.submit(request);
            if self.waiting_for_space.len() > left {
                // The first one stays the first.
                self.waiting_for_space.rotate_right(1);
                break;
            }
        }
        self.waiting_for_space.len() < before
    }

    fn submit(&mut self, mut request: QueuedRequest) {
        // The caller's time limit has passed.
        if request.outcome.is_closed() {
            return;
        }
        self.request_id = self.request_id.next();
        match (request.submit)(&mut self.core, self.request_id) {
            Ok(()) => drop(self.callers.insert(self.request_id, request.outcome)),
            Err(error)
                if matches!(error.kind(), ErrorKind::ClientLimit | ErrorKind::Unavailable) =>
            {
                self.waiting_for_space.push_back(request);
            }
            Err(error) => drop(request.outcome.send(Err(error))),
        }
    }

    fn deliver(&mut self) -> bool {
        let Driver { core, callers, .. } = self;
        let mut any = false;
        core.poll(|request_id, outcome| {
            any = true;
            if let Some(answer) = callers.remove(&request_id) {
                let _ = answer.send(Ok(outcome));
            }
        });
        any
    }
}

fn register(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, Error> {
    // SAFETY: an `OwnedFd` stays open until it is dropped, and always has the same descriptor.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(|error| io_failed(error.into()))
}

fn io_failed(error: std::io::Error) -> Error {
    let text = "wait for the store: the tokio runtime must have I/O and time enabled";
    Error::new(ErrorKind::Other, text).because(error)
}

/// The runtime reports changes only; this reads the state.
fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// How many may wait for space; more wait in the channel.
const MAX_WAITING: usize = 1024;
/// How often those are submitted again.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
