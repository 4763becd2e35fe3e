//! Endpoints that are not used any more, and not closed yet.
//!
//! Between two endpoints of one process the `shm` provider (1.17) uses the peer's memory as it is, and goes on
//! doing so after the peer was closed. So the ends of such a lane are closed together: the first that dies
//! lies here, with all that its endpoint uses, until the other is dead. Nothing of the peer's lands in it
//! meanwhile, since a message over `shm` is moved by its receiver, and this one does not move any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::contexts::Contexts;
use super::endpoint::Endpoint;
use crate::registration::ofi::Mr;

/// Which lane an end belongs to: both ends' addresses, the lesser first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DeferredClose([Vec<u8>; 2]);

/// An endpoint, and what it uses; dropped in this order.
pub(super) struct Remains {
    pub(super) _endpoint: Endpoint,
    pub(super) _used: [(Arc<Mr>, Arc<Contexts>); 2],
}

impl DeferredClose {
    pub(super) fn of(ours: &[u8], theirs: &[u8]) -> Self {
        let mut both = [ours.to_vec(), theirs.to_vec()];
        both.sort();
        DeferredClose(both)
    }

    /// Closes an end, together with the other if that is dead already; else later.
    pub(super) fn take(&self, remains: Remains) {
        static DEFERRED_CLOSES: Mutex<Option<HashMap<DeferredClose, Remains>>> = Mutex::new(None);
        let mut deferred_closes = DEFERRED_CLOSES.lock().unwrap_or_else(PoisonError::into_inner);
        let deferred_closes = deferred_closes.get_or_insert_default();
        match deferred_closes.remove(self) {
            Some(other) => drop((other, remains)),
            None => drop(deferred_closes.insert(self.clone(), remains)),
        }
    }
}
