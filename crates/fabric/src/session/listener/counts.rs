//! Counters of a listener.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::session::listener_handshake::HandshakeRefusal;
use crate::session::refusal::Reason;

/// Counters of a listener since it was opened.
#[derive(Debug)]
pub struct ListenerCounts {
    pub(super) accepted: AtomicU64,
    pub(super) lanes: AtomicU64,
    pub(super) others: AtomicU64,
    pub(super) starved: AtomicU64,
    pub(super) half_open: AtomicUsize,
    refused: [AtomicU64; Reason::ALL.len()],
    refused_hellos: Mutex<BTreeMap<&'static str, u64>>,
    alive: Arc<AtomicUsize>,
}

impl ListenerCounts {
    pub(super) fn new(alive: Arc<AtomicUsize>) -> Self {
        ListenerCounts {
            accepted: AtomicU64::new(0),
            lanes: AtomicU64::new(0),
            others: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            half_open: AtomicUsize::new(0),
            refused: Default::default(),
            refused_hellos: Mutex::default(),
            alive,
        }
    }

    /// Sessions that were opened.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections handed over as streams of lanes.
    pub fn lanes(&self) -> u64 {
        self.lanes.load(Ordering::Relaxed)
    }

    /// Connections handed over because they use another protocol.
    pub fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// How often accepting was paused because this process had no free descriptor.
    pub fn starved(&self) -> u64 {
        self.starved.load(Ordering::Relaxed)
    }

    /// Unfinished handshakes.
    pub fn half_open(&self) -> usize {
        self.half_open.load(Ordering::Relaxed)
    }

    /// Open sessions.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// Initiators refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    /// Initiators whose hello was refused, by the codes of [`HelloCheck`](super::HelloCheck).
    pub fn refused_hellos(&self) -> Vec<(&'static str, u64)> {
        let refused_hellos = self.refused_hellos.lock().unwrap_or_else(PoisonError::into_inner);
        refused_hellos.iter().map(|(code, count)| (*code, *count)).collect()
    }

    pub(super) fn refuse(&self, reason: Reason) {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse_as(&self, refusal: &HandshakeRefusal) {
        self.refuse(refusal.reason);
        if let Some(code) = refusal.code {
            let mut refused_hellos =
                self.refused_hellos.lock().unwrap_or_else(PoisonError::into_inner);
            *refused_hellos.entry(code).or_default() += 1;
        }
    }
}
