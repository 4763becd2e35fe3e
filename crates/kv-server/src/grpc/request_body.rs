//! The body of a request, with a timeout and a limit of its messages.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use kv_proto::limits::MAX_MESSAGE_BYTES;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::status;

/// The body of a request. It must arrive completely within the timeout, or ends with an error; the timeout does not include
/// the handler.
pub(super) struct RequestBody {
    body: Incoming,
    limit: Option<(Pin<Box<Sleep>>, Duration)>,
    /// For calls of the store: what to use instead of a message that is too long.
    instead: Option<&'static str>,
    prefix: Prefix,
}

impl RequestBody {
    /// `None`: the handler limits the time between messages itself.
    pub(super) fn new(body: Incoming, limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| (Box::pin(sleep(limit)), limit));
        RequestBody { body, limit, instead: None, prefix: Prefix::default() }
    }

    /// Refuses messages that are too long with the fix for this call, which tonic does not know.
    pub(super) fn of_call(mut self, path: &str) -> Self {
        self.instead = Some(match path.rsplit('/').next() {
            Some("Put") => "Write",
            Some("MultiPut") => "several calls, or Write",
            Some("Write") => "shorter chunks",
            _ => "a shorter request",
        });
        self
    }

    fn check(&mut self, frame: &Frame<Bytes>) -> Result<(), Status> {
        let (Some(instead), Some(bytes)) = (self.instead, frame.data_ref()) else { return Ok(()) };
        match self.prefix.oversized(bytes) {
            Some(length) => Err(status::too_much_for_one_message(length as u64, instead)),
            None => Ok(()),
        }
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
            let checked = |frame: Frame<Bytes>| this.check(&frame).map(|()| frame);
            return Poll::Ready(frame.map(|frame| {
                frame.map_err(|error| Status::from_error(error.into())).and_then(checked)
            }));
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

/// The prefix of the next message: a byte of flags, and the length in four bytes.
#[derive(Default)]
struct Prefix {
    bytes: [u8; PREFIX_BYTES],
    received: usize,
    /// Bytes of the current message that have not arrived.
    missing: usize,
}

impl Prefix {
    /// Takes the next bytes of the body; the length of the first message that is too long.
    fn oversized(&mut self, mut bytes: &[u8]) -> Option<usize> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.missing > 0 {
                let length = self.missing.min(bytes.len());
                self.missing -= length;
                bytes = &bytes[length..];
                continue;
            }
            self.bytes[self.received] = *first;
            self.received = (self.received + 1) % PREFIX_BYTES;
            bytes = rest;
            if self.received == 0 {
                let [_, length @ ..] = self.bytes;
                self.missing = u32::from_be_bytes(length) as usize;
                if self.missing > MAX_MESSAGE_BYTES {
                    return Some(self.missing);
                }
            }
        }
        None
    }
}

const PREFIX_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let prefix = (length as u32).to_be_bytes();
        [&[0], &prefix[..], &vec![0xff; length.min(100)]].concat()
    }

    #[test]
    fn an_oversized_message_is_found_wherever_the_body_is_cut() {
        let long = MAX_MESSAGE_BYTES + 1;
        let body = [message(0), message(7), message(100), message(long)].concat();
        for chunk in 1..body.len() {
            let mut prefix = Prefix::default();
            let found: Vec<usize> =
                body.chunks(chunk).filter_map(|bytes| prefix.oversized(bytes)).collect();
            assert_eq!(found, [long], "in chunks of {chunk}");
        }
        let mut fits = Prefix::default();
        assert_eq!(fits.oversized(&message(MAX_MESSAGE_BYTES)), None);
    }
}
