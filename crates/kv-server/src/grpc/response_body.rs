//! The body of an answer, in small parts, so that a stalled reader is detected.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use super::calls::OpenCall;

pub(super) struct ResponseBody {
    body: tonic::body::Body,
    /// Data that is not sent yet.
    data: Bytes,
    open: OpenCall,
}

impl ResponseBody {
    pub(super) fn new(body: tonic::body::Body, open: OpenCall) -> Self {
        ResponseBody { body, data: Bytes::new(), open }
    }

    fn send_part(&mut self) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.open.data_sent();
        let part = self.data.split_to(self.data.len().min(PART_BYTES));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if !this.data.is_empty() {
            return this.send_part();
        }
        this.open.reader_waits();
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    this.data = data;
                    this.send_part()
                }
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
            },
            other => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Small enough that a slow reader requests the next within a minute.
const PART_BYTES: usize = 64 << 10;
