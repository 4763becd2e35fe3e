//! Awaitable lanes: a task owns the lane, and handles send it requests.
//!
//! [`drive()`] returns the task, to be spawned, and a handle that can be cloned. The task polls, and sleeps
//! in the runtime when there is nothing to do, so the peer's requests are served even if
//! no caller awaits anything.
//!
//! Unsafe here: a descriptor of our own is registered with the runtime, which requires that it stays open.
#![allow(unsafe_code, reason = "registers a descriptor with the runtime")]

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::op::{Completion, Done, Failure, Op, Slices, Work};
use crate::region::Region;
use crate::remote::{RemoteRegion, Target, Window};

/// Splits a lane into a handle and the task that drives it: spawn that, on any tokio runtime
/// with I/O and time enabled. The task ends when all handles are dropped, and the lane with it.
pub fn drive(lane: Box<dyn Lane>) -> (AsyncLane, impl Future<Output = ()> + Send) {
    // Callers wait here when the lane is full. Receives have a channel of their own, so that neither waits
    // for the other.
    let (requests_to, requests) = mpsc::channel(lane.caps().depth);
    let (receives_to, receive_requests) = mpsc::channel(lane.caps().depth);
    let driver = Driver {
        lane,
        requests,
        receive_requests,
        waiting: HashMap::new(),
        ops: VecDeque::new(),
        receives: VecDeque::new(),
        next: 0,
    };
    (AsyncLane { requests_to, receives_to }, driver.run())
}

/// An awaitable lane. Dropping an operation's future does not cancel the operation: the lane owns its memory
/// until it is finished.
#[derive(Debug, Clone)]
pub struct AsyncLane {
    requests_to: mpsc::Sender<Request>,
    receives_to: mpsc::Sender<Request>,
}

#[derive(Debug)]
enum Request {
    Run(Work, oneshot::Sender<Completion>),
    Grant(Region, oneshot::Sender<Result<RemoteRegion, Error>>),
    Import(RemoteRegion, oneshot::Sender<Result<Window, Error>>),
}

impl AsyncLane {
    /// Runs one operation; returns its memory. `None`: the task has ended, and the operation is lost.
    pub async fn run(&self, work: Work) -> Option<Completion> {
        let (answer, answered) = oneshot::channel();
        let to = match work {
            Work::Receive { .. } => &self.receives_to,
            _ => &self.requests_to,
        };
        to.send(Request::Run(work, answer)).await.ok()?;
        answered.await.ok()
    }

    async fn outcome(&self, work: Work) -> Result<Done, Failure> {
        self.run(work).await.map_or(Err(Failure::Flushed), |completion| completion.outcome)
    }

    /// Writes into the peer's memory.
    pub async fn write(&self, from: impl Into<Slices>, to: Target) -> Result<(), Failure> {
        self.outcome(Work::Write { from: from.into(), to, imm: None }).await.map(drop)
    }

    /// Writes into the peer's memory, and completes one of its receives with immediate data.
    pub async fn write_imm(
        &self,
        from: impl Into<Slices>,
        to: Target,
        imm: u32,
    ) -> Result<(), Failure> {
        self.outcome(Work::Write { from: from.into(), to, imm: Some(imm) }).await.map(drop)
    }

    /// Reads the peer's memory.
    pub async fn read(&self, into: impl Into<Slices>, from: Target) -> Result<(), Failure> {
        self.outcome(Work::Read { into: into.into(), from }).await.map(drop)
    }

    /// Sends a message.
    pub async fn send(&self, from: impl Into<Slices>) -> Result<(), Failure> {
        self.outcome(Work::Send { from: from.into(), imm: None }).await.map(drop)
    }

    /// Receives a message or immediate data: the number of bytes, and the immediate data.
    pub async fn receive(&self, into: impl Into<Slices>) -> Result<(usize, Option<u32>), Failure> {
        match self.outcome(Work::Receive { into: into.into() }).await? {
            Done::Received { length, imm } => Ok((length, imm)),
            Done::Placed | Done::Old(_) => Err(Failure::Local),
        }
    }

    /// As [`Lane::grant`].
    pub async fn grant(&self, region: &Region) -> Result<RemoteRegion, Error> {
        let (answer, answered) = oneshot::channel();
        self.send_request(Request::Grant(region.clone(), answer), answered).await
    }

    /// As [`Lane::import`].
    pub async fn import(&self, remote: &RemoteRegion) -> Result<Window, Error> {
        let (answer, answered) = oneshot::channel();
        self.send_request(Request::Import(*remote, answer), answered).await
    }

    async fn send_request<T>(
        &self,
        request: Request,
        answered: oneshot::Receiver<Result<T, Error>>,
    ) -> Result<T, Error> {
        let gone = || {
            let fix = "spawn the task that `drive` returned, and keep its runtime running";
            Error::new(
                ErrorKind::Gone,
                "send a request to the lane",
                "its driver task has ended",
                fix,
            )
        };
        self.requests_to.send(request).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

struct Driver {
    lane: Box<dyn Lane>,
    requests: mpsc::Receiver<Request>,
    receive_requests: mpsc::Receiver<Request>,
    /// The waiting callers, by operation.
    waiting: HashMap<u64, oneshot::Sender<Completion>>,
    /// Operations that the lane was too full for; receives are separate, so that neither waits for the other.
    ops: VecDeque<Op>,
    receives: VecDeque<Op>,
    next: u64,
}

impl Driver {
    async fn run(mut self) {
        let Ok(fd) = self.lane.fd().try_clone_to_owned() else { return };
        // SAFETY: an `OwnedFd` is open as long as it lives, and is always the same descriptor.
        let fd = unsafe { AsyncFd::register(fd) };
        // Without I/O in the runtime nothing can be awaited: every caller gets the error that the task has ended.
        let Ok(fd) = fd else { return };
        let mut done = Vec::new();
        loop {
            let mut posted = self.post();
            self.deliver(&mut done);
            self.take_requests();
            // All handles are dropped.
            if self.requests.is_closed() {
                return;
            }
            posted += self.post();
            if posted > 0 || !self.lane.arm() || is_readable(&fd) {
                // Lets other tasks run, perhaps those that were just completed.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                request = self.requests.recv(), if self.ops.len() < self.depth() => match request {
                    Some(request) => self.take(request),
                    None => return,
                },
                request = self.receive_requests.recv(), if self.receives.len() < self.depth() => {
                    match request {
                        Some(request) => self.take(request),
                        None => return,
                    }
                }
                // The descriptor was not readable just now, so this is a new event, or a stale one.
                ready = fd.readable() => match ready {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return,
                },
                // Our descriptor does not report free space in a queue that is shared with other lanes.
                () = tokio::time::sleep(RECEIVE_RETRY_PAUSE), if !self.receives.is_empty() => {}
            }
        }
    }

    fn post(&mut self) -> usize {
        self.lane.post(&mut self.receives) + self.lane.post(&mut self.ops)
    }

    /// Takes requests, at most the lane's depth of each kind.
    fn take_requests(&mut self) {
        while self.ops.len() < self.depth()
            && let Ok(request) = self.requests.try_recv()
        {
            self.take(request);
        }
        while self.receives.len() < self.depth()
            && let Ok(request) = self.receive_requests.try_recv()
        {
            self.take(request);
        }
    }

    fn depth(&self) -> usize {
        self.lane.caps().depth
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Run(work, answer) => {
                self.next += 1;
                self.waiting.insert(self.next, answer);
                let queue = match work {
                    Work::Receive { .. } => &mut self.receives,
                    _ => &mut self.ops,
                };
                queue.push_back(Op { op_id: self.next, work });
            }
            // The caller may have dropped its future.
            Request::Grant(region, answer) => drop(answer.send(self.lane.grant(&region))),
            Request::Import(remote, answer) => drop(answer.send(self.lane.import(&remote))),
        }
    }

    fn deliver(&mut self, done: &mut Vec<Completion>) {
        self.lane.poll(done);
        for completion in done.drain(..) {
            if let Some(answer) = self.waiting.remove(&completion.op_id) {
                let _ = answer.send(completion);
            }
        }
    }
}

/// The pause before receives that did not fit are posted again.
const RECEIVE_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// The current state: the runtime reports only changes.
fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}
