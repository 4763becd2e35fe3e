//! What happened to a link: each switch with its reason.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// Something that happened to a link.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// When: seconds since the link began.
    pub at: f64,
    /// What.
    pub what: Happening,
    /// The rail, or the rails in use now.
    pub rail: String,
    /// Why.
    pub why: String,
}

/// What may happen to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// A rail was proven and may be used.
    RailUp,
    /// A rail that was up died.
    RailDown,
    /// A rail could not be set up.
    RailRefused,
    /// Operations go by other rails from now on.
    Switch,
    /// The link was lost, or ended because something is wrong.
    Ended,
    /// One of its owners closed the link.
    Closed,
}

impl Happening {
    /// All of them, in the order of their numbers.
    pub const ALL: [Happening; 6] = [
        Happening::RailUp,
        Happening::RailDown,
        Happening::RailRefused,
        Happening::Switch,
        Happening::Ended,
        Happening::Closed,
    ];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Happening::RailUp => "rail_up",
            Happening::RailDown => "rail_down",
            Happening::RailRefused => "rail_refused",
            Happening::Switch => "switch",
            Happening::Ended => "ended",
            Happening::Closed => "closed",
        }
    }
}

/// Called with each event as it happens.
pub(crate) type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// The last events, and how many of each kind there were.
#[derive(Default)]
pub(in crate::link) struct Journal {
    listener: Option<Listener>,
    last: VecDeque<Event>,
    counts: [u64; Happening::ALL.len()],
    /// Whether something happened since the last look.
    has_news: bool,
}

impl Journal {
    pub(in crate::link) fn set_listener(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// Whether something happened since [`Journal::take_news`].
    #[inline]
    pub(in crate::link) fn has_news(&self) -> bool {
        self.has_news
    }

    pub(in crate::link) fn take_news(&mut self) {
        self.has_news = false;
    }

    pub(in crate::link) fn note(&mut self, at: Duration, what: Happening, rail: String, why: &str) {
        let event = Event { at: at.as_secs_f64(), what, rail, why: why.to_owned() };
        self.counts[what as usize] += 1;
        self.has_news = true;
        if let Some(listener) = &self.listener {
            listener(&event);
        }
        // One that is refused again and again for the same reason is kept once.
        let repeated = self.last.back().is_some_and(|last| {
            what == Happening::RailRefused
                && (last.what, &last.rail, &last.why) == (what, &event.rail, &event.why)
        });
        if repeated {
            return;
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    pub(in crate::link) fn last(&self) -> impl Iterator<Item = &Event> {
        self.last.iter()
    }

    pub(in crate::link) fn count(&self, what: Happening) -> u64 {
        self.counts[what as usize]
    }
}

const KEPT: usize = 64;
