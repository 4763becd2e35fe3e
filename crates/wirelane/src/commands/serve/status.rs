//! What is known of this server: for `/api/v1/transport/status` (a look at the machine, at most once a second,
//! the store and the links), for `/readyz` and for metrics.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Explanation, Listener};
use kv_server::metrics::{self, LinkEvents};
use kv_server::{Engine, Sessions, WorkerPoolHandle, grpc};
use kv_store::WhenFull;
use metric::Prefix;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::listener::ListenerReport;
use super::offers::{Offer, Offers};
use crate::commands::version::VERSION;
use crate::links::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport};
use crate::settings::Global;
use crate::settings::Settings;

pub(super) struct Status {
    pub(super) parts: Parts,
    /// Where peers call, once it is open.
    listener: OnceLock<Arc<Listener>>,
    /// Who serves links, once they work.
    handle: OnceLock<WorkerPoolHandle>,
    draining: AtomicBool,
    /// The last look. Locked while somebody looks, so that a device which does not answer costs
    /// one thread and not one for every caller.
    last: Arc<Mutex<Option<Look>>>,
}

/// What a server consists of.
pub(super) struct Parts {
    pub(super) global: Global,
    pub(super) settings: Settings,
    pub(super) when_full: WhenFull,
    pub(super) max_clients: u32,
    pub(super) prefix: Prefix,
    pub(super) engine: Arc<Engine>,
    pub(super) endpoint: Endpoint,
    pub(super) grpc: Arc<grpc::Counts>,
    pub(super) grpc_sessions: Arc<Sessions>,
    pub(super) offers: Offers,
    pub(super) events: Arc<LinkEvents>,
}

/// What was seen of the machine, and when.
type Look = (Instant, Arc<Rdma>);

impl Status {
    pub(super) fn new(parts: Parts) -> Self {
        Status {
            parts,
            listener: OnceLock::new(),
            handle: OnceLock::new(),
            draining: AtomicBool::new(false),
            last: Arc::default(),
        }
    }

    /// Peers can call from now on.
    pub(super) fn opened(&self, listener: Arc<Listener>) {
        // There is one listener.
        let _ = self.listener.set(listener);
    }

    /// Links are served from now on.
    pub(super) fn works(&self, handle: WorkerPoolHandle) {
        // There is one worker pool.
        let _ = self.handle.set(handle);
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.parts.engine
    }

    pub(super) fn handle(&self) -> Option<&WorkerPoolHandle> {
        self.handle.get()
    }

    /// The end has begun.
    pub(super) fn drains(&self) {
        self.draining.store(true, Relaxed);
        if let Some(listener) = self.listener.get() {
            listener.close("this server is shutting down: call another one, or later");
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Why clients cannot call, yet or any more; `None`: they can.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        if self.is_draining() {
            return Some("it is shutting down; what is in flight is finished");
        }
        match (self.listener.get(), self.handle.get()) {
            (None, _) => Some("an RDMA device does not answer; look at the kernel's log"),
            (Some(_), None) => Some("the workers are starting"),
            (Some(_), Some(_)) => None,
        }
    }

    /// Asks the machine now. Opens every device, so it blocks.
    pub(super) fn look(&self) -> Arc<Rdma> {
        let rdma = Arc::new(Rdma::look_with(&self.parts.global, &self.parts.settings));
        self.parts.offers.note(&rdma);
        self.parts.offers.note_providers(self.parts.endpoint.providers());
        rdma
    }

    /// What this server offers.
    pub(super) fn offers(&self) -> &Offers {
        &self.parts.offers
    }

    /// The answer as JSON text; `None` when a device keeps us waiting too long, the listener too.
    pub(super) async fn json(self: Arc<Self>) -> Option<String> {
        let listener = self.listener.get()?.clone();
        let rdma = self.clone().lately().await?;
        Some(self.render(&rdma, &listener))
    }

    /// One scrape of Prometheus.
    pub(super) fn metrics(&self) -> String {
        let parts = &self.parts;
        let seen = parts.offers.seen();
        let devices = seen.iter().flat_map(|rdma| rdma.devices.iter());
        let server = metrics::Server {
            version: VERSION,
            engine: &parts.engine,
            grpc: &parts.grpc,
            grpc_sessions: &parts.grpc_sessions,
            workers: self.handle.get(),
            endpoint: &parts.endpoint,
            listener: self.listener.get().map(Arc::as_ref),
            events: &parts.events,
            devices: devices.map(|device| device.name.clone()).collect(),
            max_clients: parts.max_clients,
            is_draining: self.is_draining(),
        };
        metrics::render(&parts.prefix, &server)
    }

    async fn lately(self: Arc<Self>) -> Option<Arc<Rdma>> {
        let mut last = timeout(PATIENCE, self.last.clone().lock_owned()).await.ok()?;
        if let Some((at, rdma)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(rdma.clone());
        }
        let look = tokio::task::spawn_blocking(move || {
            let rdma = self.look();
            *last = Some((Instant::now(), rdma.clone()));
            rdma
        });
        timeout(PATIENCE, look).await.ok()?.ok()
    }

    fn render(&self, rdma: &Rdma, listener: &Listener) -> String {
        let Parts { settings, endpoint, offers, .. } = &self.parts;
        let report = Report {
            version: VERSION,
            rdma: rdma.report(),
            choice: rdma.choice(settings).into(),
            devices: rdma.device_reports(),
            transports: offers.list(),
            store: self.store(),
            listener: ListenerReport::new(listener),
            links: endpoint.links(),
        };
        let text = serde_json::to_string_pretty(&report).expect("a report is plain data");
        format!("{text}\n")
    }

    fn store(&self) -> StoreReport {
        let Parts { engine, grpc, when_full, .. } = &self.parts;
        let usage = engine.store.usage();
        StoreReport {
            memory_bytes: engine.pool().len(),
            page_bytes: engine.pool().page_size(),
            max_value_bytes: engine.max_value(),
            when_full: match when_full {
                WhenFull::Evict => "evict",
                WhenFull::Refuse => "refuse",
            },
            data_dir: engine
                .durability()
                .map(|durability| durability.disk.path().display().to_string()),
            disk_bytes: engine.durability().map(|durability| durability.disk.bytes()),
            epoch: engine.epoch(),
            keys: usage.keys,
            value_bytes: usage.value_bytes,
            used_bytes: usage.used_bytes,
            free_bytes: usage.free_bytes,
            reserved_bytes: usage.reserved_bytes,
            pinned_bytes: usage.pinned_bytes,
            clients: self.handle.get().map_or(0, WorkerPoolHandle::connections),
            workers: self.handle.get().map_or(0, WorkerPoolHandle::workers),
            grpc_connections: grpc.connections(),
        }
    }
}

#[derive(Serialize)]
struct Report<'r> {
    version: &'r str,
    rdma: RdmaReport<'r>,
    choice: ChoiceReport,
    devices: Vec<DeviceReport<'r>>,
    transports: Vec<Offer>,
    store: StoreReport,
    listener: ListenerReport,
    links: Vec<Explanation>,
}

/// What the store was given, and what it holds.
#[derive(Serialize)]
struct StoreReport {
    memory_bytes: usize,
    page_bytes: usize,
    max_value_bytes: u64,
    when_full: &'static str,
    /// `null`: nothing is kept.
    data_dir: Option<String>,
    disk_bytes: Option<u64>,
    epoch: u64,
    /// In memory; on the disk may be more.
    keys: u64,
    value_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    reserved_bytes: u64,
    pinned_bytes: u64,
    /// By links.
    clients: usize,
    workers: usize,
    grpc_connections: usize,
}

const FRESH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
