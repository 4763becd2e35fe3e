//! The outcome of a request: the store's answer, or why there is none.

use std::time::Duration;

use kv_proto::wire::Answer;

use crate::handle::Handle;
use crate::request_id::RequestId;
use crate::value::{Metadata, Received, Value};

/// An outcome that waits to be delivered.
pub(crate) struct RequestOutcome {
    pub(crate) request_id: RequestId,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// The store has answered.
    Answer(ReceivedAnswer),
    /// A write whose connection was lost.
    Unknown,
    /// A read whose connection was lost: it may be repeated.
    Lost,
    /// It was never sent, because the client buffer was full.
    Unsent,
}

/// A store's answer to one request.
pub(crate) struct ReceivedAnswer {
    pub(crate) answer: Answer,
    /// The bytes after it.
    pub(crate) bytes: Option<Received>,
    /// The handle that was opened at the store.
    pub(crate) handle: Option<Handle>,
}

impl ReceivedAnswer {
    /// The answer, the value that it came with, and the handle that it opened.
    #[inline]
    pub(crate) fn into_parts(self) -> (Answer, Option<Value>, Option<Handle>) {
        let ReceivedAnswer { answer, bytes, handle } = self;
        let value = bytes.map(|bytes| Value::new(bytes, metadata(&answer)));
        (answer, value, handle)
    }
}

/// The metadata of the value in an answer.
pub(crate) fn metadata(answer: &Answer) -> Metadata {
    Metadata {
        length: answer.length,
        version: answer.version,
        expires_in: answer.expires_in.map(Duration::from_millis),
    }
}
