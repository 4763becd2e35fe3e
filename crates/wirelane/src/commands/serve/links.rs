//! The links of peers: taken at the listener, and given to the store's workers.

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

use super::pending_listener::Opening;
use super::status::Status;
use crate::output::{self, Failure};

/// What it takes to serve links.
pub(super) struct Task {
    /// How many threads serve them.
    pub(super) workers: usize,
    /// How long what is in flight may take at the end.
    pub(super) limit: Duration,
    pub(super) status: Arc<Status>,
}

impl Task {
    /// Serves links once the listener is open, and says then how libfabric and RDMA are.
    pub(super) async fn run(
        self,
        opening: Opening,
        mut life: watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        let Some(listener) = opening.finish(&mut life).await? else { return Ok(()) };
        let Task { workers, limit, status } = self;
        let seen = status.clone();
        spawn_blocking(move || report_rdma(&seen));
        let (engine, endpoint) = (status.engine().clone(), status.parts.endpoint.clone());
        let workers = spawn_blocking(move || WorkerPool::start(&engine, &endpoint, workers));
        let workers = workers.await.expect("it does not panic")?;
        register(status.parts.endpoint.clone()).await;
        status.works(workers.handle());
        let access = status.engine().access().clone();
        let _ = spawn_blocking(move || serve(&listener, workers, &access, limit, &life)).await;
        Ok(())
    }
}

/// The last of the first lines: what the devices say.
fn report_rdma(status: &Status) {
    let rdma = status.look();
    if let Some(libfabric) = status.offers().libfabric() {
        output::note(&format!("ofi   {libfabric}"));
    }
    output::note(&format!("RDMA  {}", rdma.sentence()));
}

/// Registers the pool with every device before the first client comes: it would have to wait for it, and for a
/// large pool too long.
async fn register(endpoint: Endpoint) {
    let devices = spawn_blocking(move || endpoint.open_devices());
    match timeout(REGISTERING, devices).await {
        Ok(Ok(errors)) => errors.iter().for_each(|error| tracing::warn!(%error, "RDMA device")),
        _ => tracing::warn!(
            "an RDMA device does not answer; the first client by RDMA may have to wait"
        ),
    }
}

/// Takes links until the end begins, then lets what is in flight finish and each say goodbye. Waiting for callers
/// blocks, so it wants a thread of its own.
fn serve(
    listener: &Listener,
    workers: WorkerPool,
    access: &Access,
    limit: Duration,
    life: &watch::Receiver<Phase>,
) {
    // Those that ended stay in the status for a while.
    let mut reports: VecDeque<Arc<Report>> = VecDeque::new();
    let mut rules = access.generation();
    while *life.borrow() == Phase::Serving {
        match listener.accept(GLANCE) {
            Some(Ok(link)) => {
                tracing::debug!(peer = %link.report().explain().peer, "a peer has called");
                reports.push_back(link.report().clone());
                workers.serve(link);
            }
            Some(Err(error)) => tracing::warn!(%error, "cannot take a link"),
            None => {}
        }
        forget(&mut reports);
        let now = access.generation();
        if std::mem::replace(&mut rules, now) != now {
            workers.review();
        }
    }
    // Those that came in just before the listener was closed.
    while listener.accept(Duration::ZERO).is_some() {}
    let begun = Instant::now();
    match workers.drain(limit) {
        0 => tracing::info!(took = ?begun.elapsed(), "every link is over"),
        left => tracing::warn!(left, ?limit, "links closed with requests in flight; raise --drain"),
    }
    workers.stop(GOODBYE);
}

/// Forgets those that ended long ago.
fn forget(reports: &mut VecDeque<Arc<Report>>) {
    let ended = |report: &Arc<Report>| report.has_ended();
    let mut surplus =
        reports.iter().filter(|report| ended(report)).count().saturating_sub(ENDED_KEPT);
    reports.retain(|report| {
        let goes = surplus > 0 && ended(report);
        surplus -= usize::from(goes);
        !goes
    });
}

/// How soon the thread that waits for callers notices that it shall stop.
const GLANCE: Duration = Duration::from_millis(100);
const ENDED_KEPT: usize = 8;
/// How long links that are cut may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long registering the pool may take before clients are served without.
const REGISTERING: Duration = Duration::from_secs(120);
