//! Read handles and staged values that are open at the store, and closed when they are dropped.

use std::sync::Arc;

use kv_proto::wire::Request;
use tokio::sync::Notify;

use crate::drop_queue::DropQueue;

/// A read handle or a staged value, open at the store. Dropping it closes it with the next batch.
#[derive(Debug)]
pub(crate) struct Handle {
    id: HandleId,
    /// `None` once the store has closed it.
    dropped_handles: Option<Arc<DroppedHandles>>,
}

/// The handle's number, and the connection on which it is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandleId {
    number: u64,
    /// The connection on which it is valid.
    connection: u64,
}

/// Creates the handles of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handles {
    dropped_handles: Arc<DroppedHandles>,
    connection: u64,
}

/// Handles that were dropped, until the store is asked to close them.
#[derive(Debug, Default)]
struct DroppedHandles {
    queue: DropQueue<HandleId>,
    /// Wakes the task that closes them, if there is one.
    wake: Notify,
}

impl HandleId {
    /// Its number in requests on a connection. On another connection the same number may be another handle.
    pub(crate) fn on(self, connection: u64) -> u64 {
        if self.connection == connection { self.number } else { Request::NO_HANDLE }
    }
}

impl Handle {
    pub(crate) fn id(&self) -> HandleId {
        self.id
    }

    /// The store has closed it.
    pub(crate) fn closed_by_store(mut self) {
        self.dropped_handles = None;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(dropped_handles) = self.dropped_handles.take() {
            dropped_handles.queue.push(self.id);
            dropped_handles.wake.notify_one();
        }
    }
}

impl Handles {
    /// Begins the next connection.
    pub(crate) fn renew(&mut self) {
        self.connection += 1;
    }

    pub(crate) fn connection_number(&self) -> u64 {
        self.connection
    }

    /// A handle in an answer, if there is one.
    #[inline]
    pub(crate) fn open(&self, number: u64) -> Option<Handle> {
        let id = HandleId { number, connection: self.connection };
        (number != 0).then(|| Handle { id, dropped_handles: Some(self.dropped_handles.clone()) })
    }

    /// Whether any handle must be closed.
    #[inline]
    pub(crate) fn any_dropped(&self) -> bool {
        self.dropped_handles.queue.any()
    }

    /// Numbers of dropped handles, to be closed on this connection. Handles of earlier connections are closed already.
    #[inline]
    pub(crate) fn take_dropped(&self) -> impl Iterator<Item = u64> + use<> {
        let (dropped, connection) = (self.dropped_handles.queue.take(), self.connection);
        let ours = dropped.into_iter().filter(move |id| id.connection == connection);
        ours.map(|id| id.number)
    }

    /// This handle could not be closed now: it is closed later.
    pub(crate) fn put_back(&self, number: u64) {
        drop(self.open(number));
    }

    /// Completes when a handle was dropped.
    pub(crate) async fn dropped(&self) {
        self.dropped_handles.wake.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_handle_is_closed_once_and_on_its_own_connection_only() {
        let mut handles = Handles::default();
        assert!(handles.open(0).is_none(), "an answer without a handle");
        drop(handles.open(5));
        handles.open(6).unwrap().closed_by_store();
        assert_eq!(handles.take_dropped().collect::<Vec<_>>(), [5]);
        assert_eq!(handles.take_dropped().count(), 0);
        let old = handles.open(7).unwrap();
        assert_eq!(old.id().on(handles.connection_number()), 7);
        handles.renew();
        assert_eq!(old.id().on(handles.connection_number()), Request::NO_HANDLE);
        drop(old);
        assert_eq!(handles.take_dropped().count(), 0, "7 may be another one by now");
    }
}
