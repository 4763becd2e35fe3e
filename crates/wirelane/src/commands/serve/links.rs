//! Accepts links at the listener, and passes them to the workers of the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Access;
use access::Phase;
use fabric::link::{Endpoint, Listener, Report};
use kv_server::WorkerPool;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::pending_listener::PendingListener;
use super::status::Status;
use crate::output::{self, Failure};

/// The task that serves links.
pub(super) struct Task {
    /// Number of threads.
    pub(super) workers: usize,
    /// Time for requests in flight to finish at shutdown.
    pub(super) drain_timeout: Duration,
    pub(super) status: Arc<Status>,
}

impl Task {
    /// Serves links once the listener is open, and prints the state of libfabric and RDMA then.
    pub(super) async fn run(
        self,
        opening: PendingListener,
        mut phase: watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        let was_open = opening.listener().is_some();
        let Some(listener) = opening.finish(&mut phase).await? else { return Ok(()) };
        if !was_open {
            // The banner could not say the port, if any free one was requested.
            output::note(&format!("links {}  open now", listener.address()));
        }
        let Task { workers, drain_timeout, status } = self;
        let reported = status.clone();
        spawn_blocking(move || report_rdma(&reported));
        let (engine, endpoint) = (status.engine().clone(), status.parts.endpoint.clone());
        let workers = spawn_blocking(move || WorkerPool::start(&engine, &endpoint, workers));
        let workers = workers.await.expect("starting workers does not panic")?;
        register(status.parts.endpoint.clone()).await;
        status.set_workers(workers.handle());
        let access = status.engine().access().clone();
        let _ =
            spawn_blocking(move || serve(&listener, workers, &access, drain_timeout, &phase)).await;
        Ok(())
    }
}

/// The last lines of the banner: the state of the devices.
fn report_rdma(status: &Status) {
    let rdma = status.query_rdma();
    if let Some(libfabric) = status.offered_transports().libfabric() {
        output::note(&format!("ofi   {libfabric}"));
    }
    output::note(&format!("RDMA  {}", rdma.sentence()));
}

/// Registers the pool with every device before the first client connects, which would have to wait for it: too long
/// for a large pool.
async fn register(endpoint: Endpoint) {
    let devices = spawn_blocking(move || endpoint.open_devices());
    match timeout(REGISTER_TIMEOUT, devices).await {
        Ok(Ok(errors)) => errors.iter().for_each(|error| tracing::warn!(%error, "RDMA device")),
        _ => {
            tracing::warn!("an RDMA device does not answer; the first RDMA client may have to wait")
        }
    }
}

/// Accepts links until shutdown, then lets requests in flight finish and closes the links. Accepting
/// blocks, so it needs its own thread.
fn serve(
    listener: &Listener,
    workers: WorkerPool,
    access: &Access,
    drain_timeout: Duration,
    phase: &watch::Receiver<Phase>,
) {
    // Reports of ended links stay in the status for a while.
    let mut reports: VecDeque<Arc<Report>> = VecDeque::new();
    let mut generation = access.generation();
    while *phase.borrow() == Phase::Serving {
        match listener.accept(ACCEPT_TIMEOUT) {
            Some(Ok(link)) => {
                tracing::debug!(peer = %link.report().status().peer, "peer connected");
                reports.push_back(link.report().clone());
                workers.serve(link);
            }
            Some(Err(error)) => tracing::warn!(%error, "cannot accept a link"),
            None => {}
        }
        drop_old(&mut reports);
        let now = access.generation();
        if std::mem::replace(&mut generation, now) != now {
            workers.recheck_permissions();
        }
    }
    // Links accepted just before the listener was closed.
    while listener.accept(Duration::ZERO).is_some() {}
    let started = Instant::now();
    match workers.drain(drain_timeout) {
        0 => tracing::info!(took = ?started.elapsed(), "all links ended"),
        left => {
            tracing::warn!(left, limit = ?drain_timeout, "links closed with requests in flight; raise --drain")
        }
    }
    workers.stop(STOP_TIMEOUT);
}

/// Drops the oldest reports of ended links.
fn drop_old(reports: &mut VecDeque<Arc<Report>>) {
    let ended = |report: &Arc<Report>| report.has_ended();
    let mut surplus =
        reports.iter().filter(|report| ended(report)).count().saturating_sub(MAX_ENDED_REPORTS);
    reports.retain(|report| {
        let drops = surplus > 0 && ended(report);
        surplus -= usize::from(drops);
        !drops
    });
}

/// How soon the accepting thread notices the shutdown.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_ENDED_REPORTS: usize = 8;
/// How long links may take to close.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long registering the pool may take before clients are served without it.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(120);
