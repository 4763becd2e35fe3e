//! Events of links: logged, and counted beyond the life of a link.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fabric::link::{EndpointSettings, Event, EventKind};

/// The number of events of all links, by kind.
#[derive(Debug, Default)]
pub struct LinkEvents {
    counts: [AtomicU64; EventKind::ALL.len()],
}

impl LinkEvents {
    /// Counts and logs the events of links with these settings.
    pub fn of(links: &mut EndpointSettings) -> Arc<Self> {
        let events = Arc::new(LinkEvents::default());
        let counted = events.clone();
        links.on_event = Some(Arc::new(move |peer, event| {
            counted.counts[event.what as usize].fetch_add(1, Relaxed);
            log(peer, event);
        }));
        events
    }

    /// The number of events, by kind.
    pub fn counts(&self) -> impl Iterator<Item = (EventKind, u64)> {
        let count = |what: EventKind| (what, self.counts[what as usize].load(Relaxed));
        EventKind::ALL.into_iter().map(count)
    }
}

/// Logs an event of a link.
fn log(peer: SocketAddr, event: &Event) {
    let Event { rail, why, .. } = event;
    match event.what {
        EventKind::RailUp => tracing::info!(%peer, %rail, %why, "rail up"),
        EventKind::Switch => tracing::info!(%peer, %rail, %why, "link switched"),
        EventKind::RailSetupFailed => tracing::debug!(%peer, %rail, %why, "rail setup failed"),
        EventKind::RailDown => tracing::warn!(%peer, %rail, %why, "rail down"),
        EventKind::Closed => tracing::info!(%peer, %why, "link closed"),
        EventKind::Ended => tracing::warn!(%peer, %why, "link ended"),
    }
}
