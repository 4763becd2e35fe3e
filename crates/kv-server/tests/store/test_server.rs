//! A store with a listener, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use access::Access;
use fabric::Pages;
use fabric::link::{self, Endpoint, Transport};
use kv_client::Client;
use kv_server::{Engine, Settings, WorkerPool};
use kv_store::WhenFull;

pub(crate) struct TestServer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    /// The limit of draining, in milliseconds, and the number of links that were cut after it.
    drain_limit: Arc<AtomicU64>,
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
        idle_timeout: Duration::from_secs(60),
        data_dir: None,
    }
}

/// Links over one transport only.
pub(crate) fn over(transport: Transport) -> link::EndpointSettings {
    link::EndpointSettings { transports: vec![transport], ..link::EndpointSettings::default() }
}

impl TestServer {
    pub(crate) fn open(settings: &Settings, links: link::EndpointSettings) -> Self {
        TestServer::open_for(settings, links, Access::allow_all())
    }

    /// With access control.
    pub(crate) fn open_for(
        settings: &Settings,
        links: link::EndpointSettings,
        access: Arc<Access>,
    ) -> Self {
        TestServer::with(Engine::with_access(settings, access).unwrap(), links)
    }

    pub(crate) fn with(engine: Arc<Engine>, links: link::EndpointSettings) -> Self {
        let endpoint = Endpoint::new(links).unwrap();
        let workers = WorkerPool::start(&engine, &endpoint, 2).unwrap();
        let listener = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let (drain_limit, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let (drain, left) = (drain_limit.clone(), cut.clone());
        let access = engine.access().clone();
        let listener = std::thread::spawn(move || {
            let mut generation = access.generation();
            while !stopped.load(Ordering::SeqCst) {
                if let Some(Ok(link)) = listener.accept(Duration::from_millis(20)) {
                    workers.serve(link);
                }
                let now = access.generation();
                if std::mem::replace(&mut generation, now) != now {
                    workers.recheck_permissions();
                }
                counted.store(workers.handle().connections(), Ordering::SeqCst);
            }
            listener.close("the test has ended");
            let limit = Duration::from_millis(drain.load(Ordering::SeqCst));
            left.store(workers.drain(limit), Ordering::SeqCst);
            assert!(workers.stop(Duration::from_secs(20)), "the workers did not end");
        });
        TestServer {
            engine,
            address,
            stop,
            connections,
            drain_limit,
            cut,
            listener: Some(listener),
        }
    }

    /// The number of links served, updated every 20 ms.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Starts to drain it.
    pub(crate) fn drain(&self, limit: Duration) {
        self.drain_limit.store(limit.as_millis() as u64, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Waits until it has ended; returns the number of links that were cut.
    pub(crate) fn ended(&mut self) -> usize {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
        self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn client(&self, links: link::EndpointSettings) -> Client {
        let mut settings = kv_client::Settings::new(self.address);
        settings.link = links;
        Client::connect(settings).unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ended();
        self.engine.close();
    }
}

/// Waits until a condition is met.
pub(crate) fn until(what: &str, mut is_met: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is_met() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A number from the environment, or the default.
pub(crate) fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// The duration of a test: `WIRELANE_TEST_SECONDS`, or the default.
pub(crate) fn seconds(default: usize) -> Duration {
    Duration::from_secs(number("WIRELANE_TEST_SECONDS", default) as u64)
}
