//! The links of peers: taken at the door, and given to the store's workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fabric::link::{Listener, Report};
use kv_server::Crew;
use tokio::sync::watch;

/// Takes links until told to stop, then lets each say goodbye. Waiting for callers blocks, so it wants a
/// thread of its own.
pub(super) fn serve(door: &Listener, crew: Crew, stopping: &watch::Receiver<bool>) {
    // Those that ended stay in the status for a while.
    let mut reports: VecDeque<Arc<Report>> = VecDeque::new();
    while !*stopping.borrow() {
        match door.accept(GLANCE) {
            Some(Ok(link)) => {
                tracing::debug!(peer = %link.report().explain().peer, "a peer has called");
                reports.push_back(link.report().clone());
                crew.serve(link);
            }
            Some(Err(error)) => tracing::warn!(%error, "cannot take a link"),
            None => {}
        }
        forget(&mut reports);
    }
    crew.stop(GOODBYE);
}

/// Forgets those that ended long ago.
fn forget(reports: &mut VecDeque<Arc<Report>>) {
    let ended = |report: &Arc<Report>| report.explain().state == "ended";
    let mut surplus =
        reports.iter().filter(|report| ended(report)).count().saturating_sub(ENDED_KEPT);
    reports.retain(|report| {
        let goes = surplus > 0 && ended(report);
        surplus -= usize::from(goes);
        !goes
    });
}

/// How soon the thread that waits for callers notices that it shall stop.
const GLANCE: Duration = Duration::from_millis(500);
const ENDED_KEPT: usize = 8;
/// How long links may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(4);
