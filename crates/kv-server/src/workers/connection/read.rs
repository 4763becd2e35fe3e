//! Requests that read: values, metadata, and listings.

use std::sync::Arc;
use std::time::Instant;

use kv_proto::wire::{Answer, Entry, Status};
use kv_store::{Cursor, Key, Metadata, Pinned};

use super::answer_handle::AnswerHandle;
use super::batch_answers::ValuePin;
use super::delivery::{PinUntil, ReadRange};
use super::serving::Serving;
use crate::engine::persistence::ReadResult;
use crate::engine::{Engine, PinnedValue};
use crate::workers::send_buffers::MAX_SEND_BUFFER_BYTES;

/// A pinned value.
enum Found {
    /// Found in memory.
    Pinned(Pinned),
    /// Found before the batch was served, in memory or on the disk; the pin may be shared.
    Shared(Arc<PinnedValue>),
}

impl Found {
    #[inline]
    fn value(&self) -> &Pinned {
        match self {
            Found::Pinned(pinned) => pinned,
            Found::Shared(value) => value.value(),
        }
    }

    fn into_shared(self, engine: &Arc<Engine>) -> Arc<PinnedValue> {
        match self {
            Found::Pinned(pinned) => Arc::new(PinnedValue::new(engine.clone(), pinned)),
            Found::Shared(value) => value,
        }
    }
}

impl Serving<'_> {
    #[inline]
    pub(super) fn get(&mut self, key: Key<'_>, mut range: ReadRange, open_handle: bool) -> Answer {
        let found = match self.context.engine.index.pin(key, self.now) {
            Some(pinned) => Found::Pinned(pinned),
            None => match self.loaded_value() {
                Ok(value) => {
                    range.in_place = false;
                    Found::Shared(value)
                }
                Err(status) => return Answer::new(status),
            },
        };
        let value = found.value();
        let (mut answer, length) = (self.describe(&value.metadata), value.metadata.length);
        let pin_until = self.add_value(value, &range, &mut answer);
        let more = range.offset.saturating_add(answer.written) < length;
        if open_handle && more && answer.status == Status::Ok {
            let value = found.into_shared(&self.context.engine);
            match self.client.handles.open_read(value.clone(), Instant::now()) {
                Some(handle) => AnswerHandle::Read(handle).put(&mut answer),
                None => answer.status = Status::TooManyHandles,
            }
            self.batch_answers.holds.push(ValuePin::Value(value));
            return answer;
        }
        match (found, pin_until) {
            (Found::Shared(value), _) => self.batch_answers.holds.push(ValuePin::Value(value)),
            (Found::Pinned(value), PinUntil::Copied) => self.context.engine.index.unpin(value.pin),
            (Found::Pinned(value), PinUntil::InPlace) => {
                self.batch_answers.in_place.pins.push(value.pin)
            }
            (Found::Pinned(value), PinUntil::Written) => {
                self.batch_answers.holds.push(ValuePin::Pin(value.pin))
            }
        }
        answer
    }

    /// The value that was loaded from the disk for this request.
    #[cold]
    fn loaded_value(&mut self) -> Result<Arc<PinnedValue>, Status> {
        match self.loaded() {
            Some(ReadResult::Value(Some(value))) => Ok(value),
            Some(ReadResult::Failed(status)) => Err(status),
            _ => Err(Status::NotFound),
        }
    }

    /// What was loaded for this request.
    fn loaded(&mut self) -> Option<ReadResult> {
        let index = self.batch_answers.answers.len();
        self.preloaded.as_mut().and_then(|preloaded| preloaded.take(index))
    }

    /// Reads the version of a value that a read handle keeps.
    pub(super) fn read(&mut self, handle: u64, range: &ReadRange) -> Answer {
        let Some(value) = self.client.handles.read(handle, Instant::now()) else {
            return Answer::new(Status::NoHandle);
        };
        let mut answer = self.describe(&value.value().metadata);
        AnswerHandle::Read(handle).put(&mut answer);
        self.add_value(value.value(), range, &mut answer);
        self.batch_answers.holds.push(ValuePin::Value(value));
        answer
    }

    pub(super) fn stat(&mut self, key: Key<'_>) -> Answer {
        let metadata = match self.context.engine.index.stat(key, self.now) {
            Some(metadata) => Some(metadata),
            None => match self.loaded() {
                Some(ReadResult::Metadata(metadata)) => metadata,
                Some(ReadResult::Failed(status)) => return Answer::new(status),
                _ => None,
            },
        };
        metadata.map_or(Answer::new(Status::NotFound), |metadata| self.describe(&metadata))
    }

    pub(super) fn list(&mut self, prefix: &[u8], cursor: u64, length: u64) -> Answer {
        let Some((keys, bytes)) = keys_wanted(length) else {
            return Answer { length: MIN_LISTING_BYTES as u64, ..Answer::new(Status::TooLong) };
        };
        let (keys, next) = match self.loaded() {
            Some(ReadResult::Keys(keys, next)) => (keys, next),
            Some(ReadResult::Failed(status)) => return Answer::new(status),
            _ => {
                let from = Cursor::from(cursor);
                // A prefix outside of its scope was refused before.
                let prefix = self.client.narrow(prefix);
                let page = self.context.engine.index.list(prefix, from, keys, bytes, self.now);
                (page.keys, page.next.map_or(0, u64::from))
            }
        };
        let start = self.batch_answers.copied.len();
        for (key, metadata) in &keys {
            let Answer { length, version, expires_in, .. } = self.describe(metadata);
            Entry { key, length, version, expires_in }.put(&mut self.batch_answers.copied);
        }
        let written = self.batch_answers.copied.len() - start;
        self.batch_answers.put_copied(written);
        let (written, length) = (written as u64, keys.len() as u64);
        let mut answer = Answer { written, length, ..Answer::new(Status::Ok) };
        AnswerHandle::NextPage(next).put(&mut answer);
        answer
    }

    /// The metadata of a value, as an answer.
    #[inline]
    fn describe(&self, metadata: &Metadata) -> Answer {
        let expires_in = metadata.expires.map(|at| at.0.saturating_sub(self.now.0));
        let Metadata { length, version, .. } = *metadata;
        Answer { length, version, expires_in, ..Answer::new(Status::Ok) }
    }
}

/// How many keys a listing of this length may have, and how many bytes of keys: half of it is for the keys, half
/// for their metadata.
pub(super) fn keys_wanted(length: u64) -> Option<(usize, usize)> {
    let bytes = (length as usize).min(MAX_SEND_BUFFER_BYTES / 4);
    (bytes >= MIN_LISTING_BYTES).then_some((bytes / 2 / Entry::OVERHEAD, bytes / 2))
}

/// A listing must have space for the longest key.
const MIN_LISTING_BYTES: usize = 2 * (Key::MAX_BYTES + Entry::OVERHEAD);
