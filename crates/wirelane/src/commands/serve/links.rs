//! The links of peers: taken at the listener, and given to the store's workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Access;
use access::Phase;
use fabric::link::{Listener, Report};
use kv_server::WorkerPool;
use tokio::sync::watch;

/// Takes links until the end begins, then lets what is in flight finish and each say goodbye. Waiting for callers
/// blocks, so it wants a thread of its own.
pub(super) fn serve(
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
        left => tracing::warn!(left, ?limit, "links are cut with something open: raise --drain"),
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
