//! The state of this server: for `/api/v1/transport/status` (RDMA devices, queried at most once a second,
//! the store and the links), for `/readyz` and for metrics.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, LinkStatus, Listener};
use kv_server::metrics::{self, LinkEvents};
use kv_server::{Engine, Sessions, WorkerPoolHandle, grpc};
use kv_store::WhenFull;
use metric::Prefix;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::listener::ListenerReport;
use super::offered_transports::{OfferedTransport, OfferedTransports};
use crate::commands::version::VERSION;
use crate::links::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport};
use crate::settings::Global;
use crate::settings::Settings;

pub(super) struct Status {
    pub(super) parts: Parts,
    /// The listener for links, once it is open.
    listener: OnceLock<Arc<Listener>>,
    /// The workers, once they run.
    handle: OnceLock<WorkerPoolHandle>,
    draining: AtomicBool,
    /// The last result. Locked during a query, so that a device which does not answer blocks
    /// one thread and not one for each request.
    last: Arc<Mutex<Option<QueriedRdma>>>,
}

/// The parts of a server.
pub(super) struct Parts {
    pub(super) global: Global,
    pub(super) settings: Settings,
    pub(super) when_full: WhenFull,
    pub(super) max_clients: u32,
    pub(super) prefix: Prefix,
    pub(super) engine: Arc<Engine>,
    pub(super) endpoint: Endpoint,
    pub(super) grpc: Arc<grpc::GrpcCounts>,
    pub(super) grpc_sessions: Arc<Sessions>,
    pub(super) offered_transports: OfferedTransports,
    pub(super) events: Arc<LinkEvents>,
}

/// The RDMA devices, and when they were queried.
type QueriedRdma = (Instant, Arc<Rdma>);

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

    /// Peers can connect from now on.
    pub(super) fn set_listener(&self, listener: Arc<Listener>) {
        // There is one listener.
        let _ = self.listener.set(listener);
    }

    /// Links are served from now on.
    pub(super) fn set_workers(&self, handle: WorkerPoolHandle) {
        // There is one worker pool.
        let _ = self.handle.set(handle);
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.parts.engine
    }

    pub(super) fn handle(&self) -> Option<&WorkerPoolHandle> {
        self.handle.get()
    }

    /// Starts the shutdown: closes the listener.
    pub(super) fn start_draining(&self) {
        self.draining.store(true, Relaxed);
        if let Some(listener) = self.listener.get() {
            listener.close("this server is shutting down: connect to another one, or later");
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Why the server is not ready; `None` if it is.
    pub(super) fn not_ready_reason(&self) -> Option<&'static str> {
        if self.is_draining() {
            return Some("shutting down; requests in flight are being finished");
        }
        if self.engine().disk_status().is_some_and(|disk| disk.counts.is_removed()) {
            return Some("the files in --data-dir were removed, moved or replaced; see the log");
        }
        match (self.listener.get(), self.handle.get()) {
            (None, _) => Some("an RDMA device does not answer; see the kernel log"),
            (Some(_), None) => Some("the workers are starting"),
            (Some(_), Some(_)) => None,
        }
    }

    /// Queries the devices now. Opens every device, so it blocks.
    pub(super) fn query_rdma(&self) -> Arc<Rdma> {
        let rdma = Arc::new(Rdma::query_with(&self.parts.global, &self.parts.settings));
        self.parts.offered_transports.set_rdma(&rdma);
        self.parts.offered_transports.set_providers(self.parts.endpoint.providers());
        rdma
    }

    /// The transports that this server offers.
    pub(super) fn offered_transports(&self) -> &OfferedTransports {
        &self.parts.offered_transports
    }

    /// The status as JSON text; `None` if a device does not answer in time, or the listener is not open.
    pub(super) async fn json(self: Arc<Self>) -> Option<String> {
        let listener = self.listener.get()?.clone();
        let rdma = self.clone().recent_rdma().await?;
        Some(self.render(&rdma, &listener))
    }

    /// One scrape of Prometheus.
    pub(super) fn metrics(&self) -> String {
        let parts = &self.parts;
        let rdma = parts.offered_transports.rdma();
        let devices = rdma.iter().flat_map(|rdma| rdma.devices.iter());
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

    async fn recent_rdma(self: Arc<Self>) -> Option<Arc<Rdma>> {
        let mut last = timeout(QUERY_TIMEOUT, self.last.clone().lock_owned()).await.ok()?;
        if let Some((at, rdma)) = &*last
            && at.elapsed() < MAX_AGE
        {
            return Some(rdma.clone());
        }
        let query = tokio::task::spawn_blocking(move || {
            let rdma = self.query_rdma();
            *last = Some((Instant::now(), rdma.clone()));
            rdma
        });
        timeout(QUERY_TIMEOUT, query).await.ok()?.ok()
    }

    fn render(&self, rdma: &Rdma, listener: &Listener) -> String {
        let Parts { settings, endpoint, offered_transports, .. } = &self.parts;
        let report = Report {
            version: VERSION,
            rdma: rdma.report(),
            choice: rdma.choice(settings).into(),
            devices: rdma.device_reports(),
            transports: offered_transports.list(),
            store: self.store(),
            listener: ListenerReport::new(listener),
            links: endpoint.links(),
        };
        let text = serde_json::to_string_pretty(&report).expect("a report is plain data");
        format!("{text}\n")
    }

    fn store(&self) -> StoreReport {
        let Parts { engine, grpc, when_full, .. } = &self.parts;
        let usage = engine.index.usage();
        StoreReport {
            memory_bytes: engine.pool().len(),
            page_bytes: engine.pool().page_size(),
            max_value_bytes: engine.max_value(),
            when_full: match when_full {
                WhenFull::Evict => "evict",
                WhenFull::Refuse => "refuse",
            },
            data_dir: engine.disk_status().map(|status| status.disk.path().display().to_string()),
            store_id: engine
                .disk_status()
                .and_then(|status| status.disk.store_id().map(str::to_owned)),
            disk_bytes: engine.disk_status().map(|status| status.disk.bytes()),
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
    transports: Vec<OfferedTransport>,
    store: StoreReport,
    listener: ListenerReport,
    links: Vec<LinkStatus>,
}

/// Settings and usage of the store.
#[derive(Serialize)]
struct StoreReport {
    memory_bytes: usize,
    page_bytes: usize,
    max_value_bytes: u64,
    when_full: &'static str,
    /// `null`: not persistent.
    data_dir: Option<String>,
    /// The UUID of the store, which stays with its data directory.
    store_id: Option<String>,
    disk_bytes: Option<u64>,
    epoch: u64,
    /// In memory; there may be more on the disk.
    keys: u64,
    value_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    reserved_bytes: u64,
    pinned_bytes: u64,
    /// Over links.
    clients: usize,
    workers: usize,
    grpc_connections: usize,
}

const MAX_AGE: Duration = Duration::from_secs(1);
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
