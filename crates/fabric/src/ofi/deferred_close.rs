//! Endpoints that are no longer used, but not closed yet.
//!
//! Between two endpoints of one process the `shm` provider (1.17) accesses the peer's memory directly, also
//! after the peer was closed. So the ends of such a lane are closed together: the first that ends
//! is kept here, with all resources of its endpoint, until the other ends too. It receives nothing
//! meanwhile, since over `shm` the receiver copies a message, and this one no longer polls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::contexts::Contexts;
use super::endpoint::Endpoint;
use crate::registration::ofi::Mr;

/// Identifies a lane by both ends' addresses, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DeferredClose([Vec<u8>; 2]);

/// An endpoint and the resources it uses, which are kept if it cannot be closed.
pub(super) struct EndpointResources {
    pub(super) endpoint: Endpoint,
    pub(super) used: [(Arc<Mr>, Arc<Contexts>); 2],
}

impl Drop for EndpointResources {
    fn drop(&mut self) {
        if !self.endpoint.close() {
            // The endpoint itself is counted when it is dropped.
            std::mem::forget(self.used.clone());
        }
    }
}

impl DeferredClose {
    pub(super) fn of(ours: &[u8], theirs: &[u8]) -> Self {
        let mut both = [ours.to_vec(), theirs.to_vec()];
        both.sort();
        DeferredClose(both)
    }

    /// Closes an end together with the other, if that has ended already; else later.
    pub(super) fn close(&self, remains: EndpointResources) {
        static DEFERRED_CLOSES: Mutex<Option<HashMap<DeferredClose, EndpointResources>>> =
            Mutex::new(None);
        let mut deferred_closes = DEFERRED_CLOSES.lock().unwrap_or_else(PoisonError::into_inner);
        let deferred_closes = deferred_closes.get_or_insert_default();
        match deferred_closes.remove(self) {
            Some(other) => drop((other, remains)),
            None => drop(deferred_closes.insert(self.clone(), remains)),
        }
    }
}
