//! Events of a link: each switch of rails with its reason.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// An event of a link.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Seconds since the link was created.
    pub at: f64,
    /// The kind of event.
    pub what: EventKind,
    /// The rail, or for a switch the rails now in use.
    pub rail: String,
    /// The reason.
    pub why: String,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A rail passed its probe and can be used.
    RailUp,
    /// A rail that was up died.
    RailDown,
    /// A rail could not be set up.
    RailSetupFailed,
    /// Operations use other rails from now on.
    Switch,
    /// The link was lost, or ended because of an error.
    Ended,
    /// One of its owners closed the link.
    Closed,
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [EventKind; 6] = [
        EventKind::RailUp,
        EventKind::RailDown,
        EventKind::RailSetupFailed,
        EventKind::Switch,
        EventKind::Ended,
        EventKind::Closed,
    ];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::RailUp => "rail_up",
            EventKind::RailDown => "rail_down",
            EventKind::RailSetupFailed => "rail_setup_failed",
            EventKind::Switch => "switch",
            EventKind::Ended => "ended",
            EventKind::Closed => "closed",
        }
    }
}

/// Called with each event.
pub(crate) type Handler = Arc<dyn Fn(&Event) + Send + Sync>;

/// The last events, and the number of events of each kind.
#[derive(Default)]
pub(in crate::link) struct EventLog {
    handler: Option<Handler>,
    /// Events that are recorded later, unless the link is closed before: see [`EventLog::hold`].
    held: Vec<Event>,
    held_since: Option<Duration>,
    last: VecDeque<Event>,
    counts: [u64; EventKind::ALL.len()],
    /// Whether there are events since [`EventLog::mark_published`].
    has_new_events: bool,
}

impl EventLog {
    pub(in crate::link) fn set_handler(&mut self, handler: Handler) {
        self.handler = Some(handler);
    }

    /// Whether there are events since [`EventLog::mark_published`].
    #[inline]
    pub(in crate::link) fn has_new_events(&self) -> bool {
        self.has_new_events
    }

    pub(in crate::link) fn mark_published(&mut self) {
        self.has_new_events = false;
    }

    pub(in crate::link) fn record(
        &mut self,
        at: Duration,
        what: EventKind,
        rail: String,
        why: &str,
    ) {
        match what {
            // The link was closed by one end: rails that went down just before are taken as a part of that.
            EventKind::Closed => self.take_held().clear(),
            _ => self.record_held(),
        }
        self.add(Event { at: at.as_secs_f64(), what, rail, why: why.to_owned() });
    }

    /// As [`EventLog::record`], for a rail whose peer is gone. A peer that closes the link sends its goodbye over the control
    /// connection, which may arrive after the end of the lane: then the rail did not fail, and the event is dropped.
    pub(in crate::link) fn hold(&mut self, at: Duration, what: EventKind, rail: String, why: &str) {
        self.held_since.get_or_insert(at);
        self.held.push(Event { at: at.as_secs_f64(), what, rail, why: why.to_owned() });
    }

    /// When held events are recorded.
    pub(in crate::link) fn held_until(&self) -> Option<Duration> {
        self.held_since.map(|since| since + GOODBYE_TIMEOUT)
    }

    /// Records held events: the peer has not left.
    pub(in crate::link) fn record_held(&mut self) {
        self.take_held().into_iter().for_each(|event| self.add(event));
    }

    fn take_held(&mut self) -> Vec<Event> {
        self.held_since = None;
        std::mem::take(&mut self.held)
    }

    fn add(&mut self, event: Event) {
        let what = event.what;
        self.counts[what as usize] += 1;
        self.has_new_events = true;
        if let Some(handler) = &self.handler {
            handler(&event);
        }
        // A rail that is refused repeatedly for the same reason is stored once.
        let repeated = self.last.back().is_some_and(|last| {
            what == EventKind::RailSetupFailed
                && (last.what, &last.rail, &last.why) == (what, &event.rail, &event.why)
        });
        if repeated {
            return;
        }
        if self.last.len() == MAX_EVENTS {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    pub(in crate::link) fn last(&self) -> impl Iterator<Item = &Event> {
        self.last.iter()
    }

    pub(in crate::link) fn count(&self, what: EventKind) -> u64 {
        self.counts[what as usize]
    }
}

const MAX_EVENTS: usize = 64;
/// How long the goodbye of a peer may arrive after the end of its lanes.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);
