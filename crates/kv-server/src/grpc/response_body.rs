//! The bytes of an answer, given out in small parts so that it shows whether anybody takes them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use super::calls::Open;

pub(super) struct Paced {
    body: tonic::body::Body,
    /// What was made and not given yet.
    made: Bytes,
    open: Open,
}

impl Paced {
    pub(super) fn new(body: tonic::body::Body, open: Open) -> Self {
        Paced { body, made: Bytes::new(), open }
    }

    fn give(&mut self) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.open.gave();
        let part = self.made.split_to(self.made.len().min(PART));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if !this.made.is_empty() {
            return this.give();
        }
        this.open.is_wanted();
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(made) => {
                    this.made = made;
                    this.give()
                }
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
            },
            other => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.made.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Small enough that a slow reader comes back for the next within a minute.
const PART: usize = 64 << 10;
