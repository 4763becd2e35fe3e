//! A store with a listener, and clients that call it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use access::Access;
use fabric::Pages;
use fabric::link::{self, Class, Endpoint};
use kv_client::Client;
use kv_server::{Engine, Settings, WorkerPool};
use kv_store::WhenFull;

pub(crate) struct Place {
    pub(crate) engine: Arc<Engine>,
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    /// How long to drain, in milliseconds, and how many links were cut then.
    patience: Arc<AtomicU64>,
    cut: Arc<AtomicUsize>,
    listener: Option<JoinHandle<()>>,
}

pub(crate) fn settings(memory: usize) -> Settings {
    Settings {
        memory,
        pages: Pages::Plain,
        when_full: WhenFull::Evict,
        max_value: None,
        max_in_flight: None,
        idle: Duration::from_secs(60),
        data_dir: None,
    }
}

/// Links by one class of lanes only.
pub(crate) fn by(class: Class) -> link::Settings {
    link::Settings { classes: vec![class], ..link::Settings::default() }
}

impl Place {
    pub(crate) fn open(settings: &Settings, links: link::Settings) -> Self {
        Place::open_for(settings, links, Access::open())
    }

    /// Open to some.
    pub(crate) fn open_for(
        settings: &Settings,
        links: link::Settings,
        access: Arc<Access>,
    ) -> Self {
        Place::with(Engine::with_access(settings, access).unwrap(), links)
    }

    pub(crate) fn with(engine: Arc<Engine>, links: link::Settings) -> Self {
        let endpoint = Endpoint::new(links).unwrap();
        let workers = WorkerPool::start(&engine, &endpoint, 2).unwrap();
        let listener = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let (patience, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let (drain, left) = (patience.clone(), cut.clone());
        let access = engine.access().clone();
        let listener = std::thread::spawn(move || {
            let mut rules = access.generation();
            while !stopped.load(Ordering::SeqCst) {
                if let Some(Ok(link)) = listener.accept(Duration::from_millis(20)) {
                    workers.serve(link);
                }
                let now = access.generation();
                if std::mem::replace(&mut rules, now) != now {
                    workers.review();
                }
                counted.store(workers.handle().connections(), Ordering::SeqCst);
            }
            listener.close("the test is over");
            let limit = Duration::from_millis(drain.load(Ordering::SeqCst));
            left.store(workers.drain(limit), Ordering::SeqCst);
            assert!(workers.stop(Duration::from_secs(20)), "the workers end");
        });
        Place { engine, address, stop, connections, patience, cut, listener: Some(listener) }
    }

    /// How many links are served, or were a moment ago.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Begins to end it, in order.
    pub(crate) fn drain(&self, limit: Duration) {
        self.patience.store(limit.as_millis() as u64, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Waits until it has ended; says how many links were cut.
    pub(crate) fn ended(&mut self) -> usize {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
        self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn client(&self, links: link::Settings) -> Client {
        let mut settings = kv_client::Settings::new(self.address);
        settings.link = links;
        Client::connect(settings).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ended();
        self.engine.close();
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A number from the environment, for who wants more than usual.
pub(crate) fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().map_or(usual, |text| text.parse().expect("a number"))
}

/// How long to go on: `WIRELANE_TEST_SECONDS`.
pub(crate) fn seconds(usual: usize) -> Duration {
    Duration::from_secs(number("WIRELANE_TEST_SECONDS", usual) as u64)
}
