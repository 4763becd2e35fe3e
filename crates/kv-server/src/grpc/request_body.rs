//! The bytes of a request, which must arrive in time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::status;

/// A request's body. All of it must be there in time, or it ends with why not; what is done with it afterwards may take
/// as long as it takes.
pub(super) struct Arriving {
    body: Incoming,
    limit: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl Arriving {
    /// `None`: whoever reads it looks after its pieces.
    pub(super) fn new(body: Incoming, limit: Option<Duration>) -> Self {
        Arriving { body, limit: limit.map(|limit| (Box::pin(sleep(limit)), limit)) }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            return Poll::Ready(
                frame.map(|frame| frame.map_err(|error| Status::from_error(error.into()))),
            );
        }
        let Some((sleep, limit)) = &mut this.limit else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(status::too_slow(limit.as_secs()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
