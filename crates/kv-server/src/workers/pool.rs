//! The crew: workers, who gets which link, and who may spin.

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
use crate::workers::connection::{Loans, News};
use crate::workers::context::Tools;
use crate::workers::worker::Worker;

/// Threads that serve links.
pub struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Who is at work.
#[derive(Clone)]
pub struct Roster {
    shared: Weak<Shared>,
}

/// What the workers and whoever hires them have in common.
pub(crate) struct Shared {
    posts: Vec<Post>,
    /// How many spin now, and how many may.
    spinning: AtomicUsize,
    max_spinning: usize,
    /// What is in flight is finished, and nothing is begun.
    closing: AtomicBool,
    stopping: AtomicBool,
    graves: Mutex<Sender<(Link, Loans)>>,
}

/// One worker, as others see it.
struct Post {
    wakeup: Wakeup,
    coming: Mutex<Vec<Link>>,
    /// What came back for its guests, and whether something did.
    news: Mutex<Vec<(u32, News)>>,
    has_news: AtomicBool,
    guests: AtomicUsize,
    spins: AtomicBool,
    /// Who may do what has changed.
    reviews: AtomicBool,
}

impl Crew {
    /// Starts so many workers.
    pub fn start(engine: &Arc<Engine>, endpoint: &Endpoint, workers: usize) -> Result<Self, Error> {
        let system = |error: std::io::Error| {
            let fix = "raise the limits of open files and of processes: `ulimit -n`, `ulimit -u`";
            Error::new(fabric::Kind::System, "start the store's workers", error, fix)
        };
        let posts = (0..workers.max(1)).map(|_| Post::new()).collect::<Result<Vec<_>, _>>();
        let posts = posts.map_err(|error| system(error.into()))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (graves, buried) = channel();
        let shared = Arc::new(Shared {
            posts,
            spinning: AtomicUsize::new(0),
            // Clients on this machine spin too.
            max_spinning: (cores / 2).max(1),
            closing: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            graves: Mutex::new(graves),
        });
        let mut threads = Vec::new();
        let undertaker = std::thread::Builder::new().name("wirelane-ended".to_owned());
        threads.push(undertaker.spawn(move || bury(&buried)).map_err(system)?);
        for number in 0..shared.posts.len() {
            let tools = Tools::new(engine.clone(), endpoint.clone(), shared.clone(), number)?;
            let worker = Worker::new(shared.clone(), number, tools);
            let worker = worker.map_err(|error| system(error.into()))?;
            let thread = std::thread::Builder::new().name(format!("wirelane-kv-{number}"));
            threads.push(thread.spawn(move || worker.run()).map_err(system)?);
        }
        Ok(Crew { shared, threads })
    }

    /// Gives a link to the worker that has the fewest.
    pub fn serve(&self, link: Link) {
        let posts = self.shared.posts.iter();
        let Some(post) = posts.min_by_key(|post| post.guests.load(Ordering::Relaxed)) else {
            return;
        };
        post.guests.fetch_add(1, Ordering::Relaxed);
        lock(&post.coming).push(link);
        post.ring();
    }

    /// Looks at every client's pass: who may do something else now is sent away at once, and not with the next request,
    /// since on this host it may have the pool mapped, and need not ask.
    pub fn review(&self) {
        for post in &self.shared.posts {
            post.reviews.store(true, Ordering::SeqCst);
            post.ring();
        }
    }

    /// Who is there, for those who count; a crew that has ended has nobody.
    pub fn roster(&self) -> Roster {
        // Not as one of the crew, which ends when the last is gone.
        Roster { shared: Arc::downgrade(&self.shared) }
    }

    /// Begins nothing more, finishes what is in flight, and says goodbye to each client when it has been quiet for a
    /// moment: who asks meanwhile is told that nothing was done. Waits up to a limit; says how many are left.
    pub fn drain(&self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        self.shared.closing.store(true, Ordering::SeqCst);
        self.shared.posts.iter().for_each(Post::ring);
        loop {
            let left = self.roster().guests();
            if left == 0 || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Says goodbye to everybody and waits for the workers, up to a limit. `false`: some are still at it.
    pub fn stop(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.posts.iter().for_each(Post::ring);
        let Crew { shared, threads } = self;
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

impl Roster {
    /// How many links are served.
    pub fn guests(&self) -> usize {
        let guests = |shared: Arc<Shared>| {
            shared.posts.iter().map(|post| post.guests.load(Ordering::Relaxed)).sum()
        };
        self.shared.upgrade().map_or(0, guests)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.upgrade().map_or(0, |shared| shared.posts.len())
    }
}

/// Takes links apart.
fn bury(links: &Receiver<(Link, Loans)>) {
    while let Ok((link, loans)) = links.recv() {
        drop(link);
        // Only now nobody reads them any more.
        drop(loans);
    }
}

impl Post {
    fn new() -> rustix::io::Result<Self> {
        Ok(Post {
            wakeup: Wakeup::new()?,
            coming: Mutex::default(),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            guests: AtomicUsize::new(0),
            spins: AtomicBool::new(false),
            reviews: AtomicBool::new(false),
        })
    }

    fn ring(&self) {
        self.wakeup.wake();
    }
}

impl Shared {
    pub(crate) fn bell(&self, number: usize) -> BorrowedFd<'_> {
        self.posts[number].wakeup.fd()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Links for this worker.
    pub(crate) fn take(&self, number: usize) -> Vec<Link> {
        let post = &self.posts[number];
        post.wakeup.clear();
        std::mem::take(&mut *lock(&post.coming))
    }

    /// Whether this worker is to look at its guests' passes; once.
    pub(crate) fn takes_review(&self, number: usize) -> bool {
        self.posts[number].reviews.swap(false, Ordering::SeqCst)
    }

    /// Something came back for a guest; says whether the worker must be rung for: once until it is heard.
    pub(crate) fn tell(&self, number: usize, guest: u32, news: News) -> bool {
        let post = &self.posts[number];
        lock(&post.news).push((guest, news));
        !post.has_news.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn wakeup(&self, number: usize) -> Wakeup {
        self.posts[number].wakeup.clone()
    }

    /// What came back, if anything did.
    #[inline]
    pub(crate) fn take_news(&self, number: usize) -> Vec<(u32, News)> {
        let post = &self.posts[number];
        if !post.has_news.load(Ordering::Relaxed) {
            return Vec::new();
        }
        post.has_news.store(false, Ordering::SeqCst);
        std::mem::take(&mut *lock(&post.news))
    }

    pub(crate) fn left(&self, number: usize) {
        self.posts[number].guests.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn bury(&self, link: (Link, Loans)) {
        // Without the undertaker it is taken apart here.
        let _ = lock(&self.graves).send(link);
    }

    /// Whether this worker may spin: so many at once that there are CPUs for them.
    pub(crate) fn may_spin(&self, number: usize) -> bool {
        let spins = &self.posts[number].spins;
        if spins.load(Ordering::Relaxed) {
            return true;
        }
        let most = self.max_spinning;
        let more = |now: usize| (now < most).then_some(now + 1);
        let may = self.spinning.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        spins.store(may, Ordering::Relaxed);
        may
    }

    /// It does not spin any more.
    pub(crate) fn spins(&self, number: usize, spins: bool) {
        if self.posts[number].spins.swap(spins, Ordering::Relaxed) && !spins {
            self.spinning.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
