//! Calls as sequences of steps, for both clients: the first step, and the next one for each answer.

use kv_proto::wire::Answer;

use crate::error::Error;
use crate::handle::{Handle, HandleId};
use crate::outcome::ReceivedAnswer;
use crate::page::{Cursor, Page};
use crate::results::{self, Stored};
use crate::step::Step;
use crate::value::{Metadata, Value};

/// A call. Dropping it closes its handles at the store.
pub(crate) trait Call {
    type Output;
    /// Its name in errors.
    const NAME: &'static str;
    /// Whether it changes nothing, so that it is repeated when a connection was lost.
    const REPEATABLE: bool;

    /// Resets the call to its first step, for a new attempt.
    fn restart(&mut self) {}

    /// The next step.
    fn step(&self) -> Step;

    /// Takes the store's answer; `None`: there is another step.
    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Self::Output>, Error>;
}

/// Gets a whole value: by one request if it is as short as expected, otherwise its length first and then all of it.
#[derive(Debug)]
pub(crate) struct Get {
    /// The expected length, which the first request asks for.
    pub(crate) expect: usize,
    pub(crate) checksum: bool,
    /// The maximum length of a value.
    pub(crate) max: usize,
    /// The value's length, once it is known.
    pub(crate) length: Option<u64>,
    rest: Option<Handle>,
}

impl Get {
    pub(crate) fn new(expect: usize, checksum: bool, client_buffer: usize) -> Self {
        Get { expect, checksum, max: client_buffer / 2, length: None, rest: None }
    }

    fn take_first(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Option<Value>>, Error> {
        let (answer, value, handle) = received.into_parts();
        if results::found(&answer, operation)?.is_none() {
            return Ok(Some(None));
        }
        self.length = Some(answer.length);
        match handle {
            None => results::verify(&answer, value, self.checksum, operation).map(Some),
            Some(_) if answer.length > self.max as u64 => {
                Err(results::beyond_client_buffer(answer.length, operation))
            }
            handle => {
                self.rest = handle;
                Ok(None)
            }
        }
    }
}

impl Call for Get {
    type Output = Option<Value>;
    const NAME: &'static str = "get";
    const REPEATABLE: bool = true;

    fn restart(&mut self) {
        self.rest = None;
    }

    fn step(&self) -> Step {
        let checksum = self.checksum;
        match (&self.rest, self.length) {
            (Some(rest), Some(length)) => {
                Step::Read { handle: rest.id(), offset: 0, length, checksum }
            }
            _ => Step::Get { length: self.expect as u64, open_handle: true, checksum },
        }
    }

    #[inline]
    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Option<Value>>, Error> {
        let Some(rest) = self.rest.take() else { return self.take_first(received, operation) };
        drop(rest);
        let (answer, value, _) = received.into_parts();
        results::found(&answer, operation)?;
        let value = results::verify(&answer, value, self.checksum, operation)?;
        results::complete_value(value, self.length.unwrap_or(0), operation)
            .map(|value| Some(Some(value)))
    }
}

/// Stores a value by one request.
#[derive(Debug)]
pub(crate) struct Put;

impl Call for Put {
    type Output = Stored;
    const NAME: &'static str = "put";
    const REPEATABLE: bool = false;

    fn step(&self) -> Step {
        Step::Put
    }

    #[inline]
    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Stored>, Error> {
        results::stored(&received.answer, operation).map(Some)
    }
}

/// Stores a value by one request, from the caller's registered memory.
#[derive(Debug)]
pub(crate) struct PutFrom {
    pub(crate) region: u32,
    pub(crate) at: u64,
    pub(crate) length: u64,
}

impl Call for PutFrom {
    type Output = Stored;
    const NAME: &'static str = "put";
    const REPEATABLE: bool = false;

    fn step(&self) -> Step {
        let PutFrom { region, at, length } = *self;
        Step::PutFrom { region, at, length }
    }

    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Stored>, Error> {
        results::stored(&received.answer, operation).map(Some)
    }
}

/// Stages a value that is stored in chunks.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) length: u64,
}

impl Call for Begin {
    type Output = Handle;
    const NAME: &'static str = "put";
    /// A staged value is discarded when its connection is lost.
    const REPEATABLE: bool = true;

    fn step(&self) -> Step {
        Step::Begin { length: self.length }
    }

    fn take(
        &mut self,
        ReceivedAnswer { answer, handle, .. }: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Handle>, Error> {
        results::stored(&answer, operation)?;
        handle.map(Some).ok_or_else(|| results::mismatch(operation))
    }
}

/// Stores a staged value under the key. The store then closes the handle.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) handle: HandleId,
}

impl Call for Commit {
    type Output = Stored;
    const NAME: &'static str = "put";
    const REPEATABLE: bool = false;

    fn step(&self) -> Step {
        Step::Commit { handle: self.handle }
    }

    fn take(
        &mut self,
        ReceivedAnswer { answer, .. }: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Stored>, Error> {
        results::stored(&answer, operation).map(Some)
    }
}

/// Deletes a key; returns its version.
#[derive(Debug)]
pub(crate) struct Delete;

impl Call for Delete {
    type Output = Option<u64>;
    const NAME: &'static str = "delete";
    const REPEATABLE: bool = false;

    fn step(&self) -> Step {
        Step::Delete
    }

    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Option<u64>>, Error> {
        results::deleted(&received.answer, operation).map(Some)
    }
}

/// Reads length, version and expiry of a value.
#[derive(Debug)]
pub(crate) struct Stat;

impl Call for Stat {
    type Output = Option<Metadata>;
    const NAME: &'static str = "stat";
    const REPEATABLE: bool = true;

    fn step(&self) -> Step {
        Step::Stat
    }

    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Option<Metadata>>, Error> {
        results::found(&received.answer, operation).map(Some)
    }
}

/// Lists a page of keys.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) cursor: Cursor,
}

impl Call for List {
    type Output = Page;
    const NAME: &'static str = "list";
    const REPEATABLE: bool = true;

    fn step(&self) -> Step {
        Step::List { cursor: self.cursor }
    }

    fn take(
        &mut self,
        received: ReceivedAnswer,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Option<Page>, Error> {
        let (answer, value, _) = received.into_parts();
        results::page(&answer, value, operation).map(Some)
    }
}

/// The result of one of several gets that were sent together.
pub(crate) enum MultiGetItem {
    Done(Option<Value>),
    /// The value is longer than expected: get it alone.
    Truncated,
}

/// Converts the answer to one of several gets.
#[inline]
pub(crate) fn multi_get_item(
    answer: &Answer,
    value: Option<Value>,
    operation: impl FnOnce() -> String,
) -> Result<MultiGetItem, Error> {
    let found = results::found(answer, operation)?;
    let truncated = value.as_ref().is_some_and(|value| (value.len() as u64) < answer.length);
    Ok(if truncated { MultiGetItem::Truncated } else { MultiGetItem::Done(found.and(value)) })
}

#[cfg(test)]
mod tests {
    use kv_proto::wire::Status;

    use super::*;
    use crate::error::ErrorKind;
    use crate::handle::Handles;

    fn received(answer: Answer, handle: Option<Handle>) -> ReceivedAnswer {
        ReceivedAnswer { answer, bytes: None, handle }
    }

    fn long(length: u64, handles: &Handles) -> ReceivedAnswer {
        received(Answer { length, ..Answer::new(Status::Ok) }, handles.open(3))
    }

    fn operation() -> String {
        "get \"k\"".to_owned()
    }

    #[test]
    fn a_value_longer_than_expected_is_read_whole_and_its_handle_closed() {
        let (handles, mut get) = (Handles::default(), Get::new(100, false, 4096));
        assert!(matches!(get.step(), Step::Get { length: 100, open_handle: true, .. }));
        assert!(get.take(long(2000, &handles), operation).unwrap().is_none());
        assert!(matches!(get.step(), Step::Read { offset: 0, length: 2000, .. }));
        let read = get.take(received(Answer::new(Status::Ok), None), operation);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TooLong, "not in one answer");
        assert_eq!(handles.take_dropped().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_value_longer_than_half_of_the_client_buffer_is_refused() {
        let (handles, mut get) = (Handles::default(), Get::new(100, false, 4096));
        let refused = get.take(long(2049, &handles), operation).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLong);
        assert_eq!(handles.take_dropped().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_read_restarts_when_its_handle_is_closed() {
        let (handles, mut get) = (Handles::default(), Get::new(100, false, 4096));
        get.take(long(2000, &handles), operation).unwrap();
        let closed =
            get.take(received(Answer::new(Status::NoHandle), None), operation).unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Unavailable);
        get.restart();
        assert!(matches!(get.step(), Step::Get { .. }));
        let missing = get.take(received(Answer::new(Status::NotFound), None), operation).unwrap();
        assert!(matches!(missing, Some(None)));
    }

    #[test]
    fn a_begin_without_a_handle_is_a_protocol_error() {
        let begun = Begin { length: 5 }.take(received(Answer::new(Status::Ok), None), operation);
        assert_eq!(begun.unwrap_err().kind(), ErrorKind::ProtocolError);
    }
}
