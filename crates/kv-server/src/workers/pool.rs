//! The worker pool: assigns links to workers, and limits how many spin.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fabric::Error;
use fabric::link::{Endpoint, Link};

use crate::engine::Engine;
use crate::wakeup::Wakeup;
use crate::workers::connection::{InPlaceReads, Notification};
use crate::workers::context::WorkerContext;
use crate::workers::worker::Worker;

/// Threads that serve links.
pub struct WorkerPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A handle to the pool, for metrics.
#[derive(Clone)]
pub struct WorkerPoolHandle {
    shared: Weak<Shared>,
}

/// State shared by the workers and their pool.
pub(crate) struct Shared {
    workers: Vec<WorkerHandle>,
    /// The number of spinning workers, and its limit.
    spinning: AtomicUsize,
    max_spinning: usize,
    /// Requests in flight are finished, new ones refused.
    draining: AtomicBool,
    stopping: AtomicBool,
    /// Ended links, for the thread that destroys them.
    links_to_close: Mutex<Sender<EndedLink>>,
}

/// A link that has ended, and what its client may still read in place.
pub(super) type EndedLink = (Link, InPlaceReads);

/// One worker, as seen by other threads.
struct WorkerHandle {
    wakeup: Wakeup,
    /// Whether it was woken for new links or a change of the pool, and has not looked yet.
    is_woken: AtomicBool,
    incoming: Mutex<Vec<Link>>,
    /// Notifications for its connections, and whether there are any.
    notifications: Mutex<Vec<(u32, Notification)>>,
    has_notifications: AtomicBool,
    connections: AtomicUsize,
    spins: AtomicBool,
    /// The permissions of its connections must be checked again.
    recheck_permissions: AtomicBool,
}

impl WorkerPool {
    /// Starts the workers.
    pub fn start(engine: &Arc<Engine>, endpoint: &Endpoint, workers: usize) -> Result<Self, Error> {
        let (shared, to_close) = Shared::new(workers).map_err(|error| system(error.into()))?;
        let mut threads = Vec::new();
        let closer = std::thread::Builder::new().name("close-links".to_owned());
        threads.push(closer.spawn(move || close_links(&to_close)).map_err(system)?);
        for number in 0..shared.workers.len() {
            let context =
                WorkerContext::new(engine.clone(), endpoint.clone(), shared.clone(), number)?;
            let worker = Worker::new(shared.clone(), number, context);
            let worker = worker.map_err(|error| system(error.into()))?;
            let thread = std::thread::Builder::new().name(format!("wirelane-kv-{number}"));
            threads.push(thread.spawn(move || worker.run()).map_err(system)?);
        }
        Ok(WorkerPool { shared, threads })
    }

    /// Assigns a link to the worker with the fewest.
    pub fn serve(&self, link: Link) {
        let workers = self.shared.workers.iter();
        let Some(worker) = workers.min_by_key(|worker| worker.connections.load(Ordering::Relaxed))
        else {
            return;
        };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        lock(&worker.incoming).push(link);
        worker.wake();
    }

    /// Checks every client's permissions again. A client whose permissions have changed is disconnected immediately, not with its next
    /// request: on this host it may have the pool mapped, and needs no request to read.
    pub fn recheck_permissions(&self) {
        for worker in &self.shared.workers {
            worker.recheck_permissions.store(true, Ordering::SeqCst);
            worker.wake();
        }
    }

    /// A handle for metrics; it counts nothing once the pool has ended.
    pub fn handle(&self) -> WorkerPoolHandle {
        // A weak reference: it does not keep the pool alive.
        WorkerPoolHandle { shared: Arc::downgrade(&self.shared) }
    }

    /// Drains the pool: finishes requests in flight, refuses new ones, and closes each connection that has been quiet for a
    /// moment. Waits up to a limit; returns the number of connections left.
    pub fn drain(&self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.workers.iter().for_each(WorkerHandle::wake);
        loop {
            let left = self.handle().connections();
            if left == 0 || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes all connections and waits for the workers, up to a limit. `false`: some are still running.
    pub fn stop(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.workers.iter().for_each(WorkerHandle::wake);
        let WorkerPool { shared, threads } = self;
        drop(shared);
        while Instant::now() < deadline {
            if threads.iter().all(JoinHandle::is_finished) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl WorkerPoolHandle {
    /// The number of links served.
    pub fn connections(&self) -> usize {
        let connections = |shared: Arc<Shared>| {
            shared.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
        };
        self.shared.upgrade().map_or(0, connections)
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.shared.upgrade().map_or(0, |shared| shared.workers.len())
    }
}

/// Destroys links, which may take a moment.
fn close_links(links: &Receiver<EndedLink>) {
    while let Ok((link, in_place_reads)) = links.recv() {
        drop(link);
        // Only now the client cannot read them any more.
        drop(in_place_reads);
    }
}

impl WorkerHandle {
    fn new() -> rustix::io::Result<Self> {
        Ok(WorkerHandle {
            wakeup: Wakeup::new()?,
            is_woken: AtomicBool::new(false),
            incoming: Mutex::default(),
            notifications: Mutex::default(),
            has_notifications: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            spins: AtomicBool::new(false),
            recheck_permissions: AtomicBool::new(false),
        })
    }

    fn wake(&self) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.wakeup.wake();
    }
}

fn system(error: std::io::Error) -> Error {
    let fix = "raise the limits of open files and processes: `ulimit -n`, `ulimit -u`";
    Error::new(fabric::ErrorKind::System, "start the store's workers", error, fix)
}

impl Shared {
    /// The state of so many workers, at least one, and their ended links.
    pub(super) fn new(workers: usize) -> rustix::io::Result<(Arc<Self>, Receiver<EndedLink>)> {
        let workers: Result<Vec<_>, _> = (0..workers.max(1)).map(|_| WorkerHandle::new()).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (links_to_close, to_close) = channel();
        let shared = Shared {
            workers: workers?,
            spinning: AtomicUsize::new(0),
            // Clients on this machine spin too.
            max_spinning: (cores / 2).max(1),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            links_to_close: Mutex::new(links_to_close),
        };
        Ok((Arc::new(shared), to_close))
    }

    pub(crate) fn wakeup_fd(&self, number: usize) -> BorrowedFd<'_> {
        self.workers[number].wakeup.fd()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Whether this worker must look for new links and changes of the pool, even if it does not sleep.
    #[inline]
    pub(crate) fn is_woken(&self, number: usize) -> bool {
        self.workers[number].is_woken.load(Ordering::Relaxed)
    }

    /// New links for this worker.
    pub(crate) fn take(&self, number: usize) -> Vec<Link> {
        let worker = &self.workers[number];
        worker.is_woken.store(false, Ordering::SeqCst);
        worker.wakeup.clear();
        std::mem::take(&mut *lock(&worker.incoming))
    }

    /// Whether this worker must check its connections' permissions; resets the flag.
    pub(crate) fn take_recheck(&self, number: usize) -> bool {
        self.workers[number].recheck_permissions.swap(false, Ordering::SeqCst)
    }

    /// Queues a notification for a connection; returns whether the worker must be woken: only for the first one until it
    /// takes them.
    pub(crate) fn notify(
        &self,
        number: usize,
        connection: u32,
        notification: Notification,
    ) -> bool {
        let worker = &self.workers[number];
        lock(&worker.notifications).push((connection, notification));
        !worker.has_notifications.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn wakeup(&self, number: usize) -> Wakeup {
        self.workers[number].wakeup.clone()
    }

    /// Takes the queued notifications.
    #[inline]
    pub(crate) fn take_notifications(&self, number: usize) -> Vec<(u32, Notification)> {
        let worker = &self.workers[number];
        if !worker.has_notifications.load(Ordering::Relaxed) {
            return Vec::new();
        }
        worker.has_notifications.store(false, Ordering::SeqCst);
        std::mem::take(&mut *lock(&worker.notifications))
    }

    pub(crate) fn connection_ended(&self, number: usize) {
        self.workers[number].connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn close_later(&self, link: EndedLink) {
        // If its thread has ended, the link is destroyed here.
        let _ = lock(&self.links_to_close).send(link);
    }

    /// Whether this worker may spin: limited, so that each has a CPU.
    pub(crate) fn may_spin(&self, number: usize) -> bool {
        let spins = &self.workers[number].spins;
        if spins.load(Ordering::Relaxed) {
            return true;
        }
        let max = self.max_spinning;
        let increment = |now: usize| (now < max).then_some(now + 1);
        let may =
            self.spinning.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).is_ok();
        spins.store(may, Ordering::Relaxed);
        may
    }

    /// Records that this worker has stopped spinning.
    pub(crate) fn stop_spinning(&self, number: usize) {
        if self.workers[number].spins.swap(false, Ordering::Relaxed) {
            self.spinning.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
