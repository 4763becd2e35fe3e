//! Pending calls of a blocking client, and their ids.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::drop_queue::DropQueue;
use crate::request_id::RequestId;

/// A call that was begun and not finished. Its result is a `T`: a [`Value`](crate::Value) or
/// [`Stored`](crate::Stored).
///
/// Dropping it discards the result, and frees the part of the client buffer that is reserved for it once the store has
/// answered. The call itself is not cancelled: a write still happens.
#[derive(Debug)]
#[must_use = "a dropped call is still executed, but its result is lost"]
pub struct Pending<T> {
    /// Such a call is one request.
    request_id: RequestId,
    /// `None` once it is finished.
    client: Option<Arc<DropQueue<Dropped>>>,
    result: PhantomData<fn() -> T>,
}

/// Identifies a pending call of a [`Client`](crate::Client), see [`Client::ready`](crate::Client::ready). No later call
/// of the same client has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub(crate) RequestId);

/// What users of a client have dropped. The address of the queue also identifies the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// A pending call, by its request.
    Call(RequestId),
    /// A registered buffer, by its number.
    Buffer(u32),
}

impl<T> Pending<T> {
    #[inline]
    pub(crate) fn new(request_id: RequestId, client: &Arc<DropQueue<Dropped>>) -> Self {
        Pending { request_id, client: Some(client.clone()), result: PhantomData }
    }

    /// Identifies the call in [`Client::ready`](crate::Client::ready).
    #[inline]
    pub fn call_id(&self) -> CallId {
        CallId(self.request_id)
    }

    /// Its request, if the call was begun by this client.
    #[inline]
    pub(crate) fn finish(mut self, client: &Arc<DropQueue<Dropped>>) -> Option<RequestId> {
        self.client.take_if(|ours| Arc::ptr_eq(ours, client)).map(|_| self.request_id)
    }
}

impl<T> Drop for Pending<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            client.push(Dropped::Call(self.request_id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_call_is_reported_and_a_finished_one_is_not() {
        let (ours, others) = (Arc::default(), Arc::default());
        let pending = |row| Pending::<()>::new(RequestId::new(1, row), &ours);
        drop(pending(1));
        assert_eq!(pending(2).finish(&ours), Some(RequestId::new(1, 2)));
        assert_eq!(pending(3).finish(&others), None, "another client's");
        let dropped = [1, 3].map(|row| Dropped::Call(RequestId::new(1, row)));
        assert_eq!(ours.take(), dropped);
        assert!(others.take().is_empty());
    }
}
