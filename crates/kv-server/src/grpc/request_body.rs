//! The body of a request, with a timeout.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::status;

/// The body of a request. It must arrive completely within the timeout, or ends with an error; the timeout does not include
/// the handler.
pub(super) struct RequestBody {
    body: Incoming,
    limit: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl RequestBody {
    /// `None`: the handler limits the time between messages itself.
    pub(super) fn new(body: Incoming, limit: Option<Duration>) -> Self {
        RequestBody { body, limit: limit.map(|limit| (Box::pin(sleep(limit)), limit)) }
    }
}

impl Body for RequestBody {
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
