//! Requests that write: values, whole or in pieces, and deletions.

use std::time::Instant;

use fabric::Window;
use kv_proto::Condition;
use kv_proto::wire::{Answer, Source, Status};
use kv_store::{Key, Reservation};

use super::answer_handle::AnswerHandle;
use super::batch_limits::MOVED;
use super::disk_requests::Submission;
use super::fetches::{Plan, Purpose, Terms};
use super::handles::Staging;
use super::serving::Serving;
use crate::engine::Staged;
use crate::engine::journal::WriteKind;
use crate::engine::outcome::no_room;
use crate::engine::quota::Claim;
use crate::engine::session::Turn;

impl Serving<'_> {
    pub(super) fn put(
        &mut self,
        length: u64,
        source: Source<'_>,
        terms: Terms,
    ) -> Result<Answer, &'static str> {
        if let Some(answer) = self.begun(terms.sequence) {
            return Ok(answer);
        }
        let (room, claim) = match self.reserve(length, &source) {
            Ok(reserved) => reserved,
            Err(answer) => {
                self.client.session.undone(terms.sequence);
                return Ok(answer);
            }
        };
        match source {
            Source::Inline(bytes) => {
                self.context.engine.fill(&room, 0, bytes);
                self.context.tally.bytes_in += length;
            }
            Source::Region { region, at } if length > 0 => {
                return self.put_apart((region, at), room, claim, terms);
            }
            Source::Region { .. } => {}
        }
        if self.is_durable() {
            let staged = Staged::new(self.context.engine.clone(), room, claim);
            return Ok(self.commit_staged(staged, terms));
        }
        // As `commit_staged` does, without a count of the engine's users.
        let answer = self.context.engine.commit(&terms.key, room, terms.ttl, terms.condition);
        self.client.session.done(terms.sequence, answer);
        Ok(answer)
    }

    /// Room for a value, and a part of the quota for bytes that do not become a key's at once: those that must be fetched,
    /// or made durable. The error is the answer that explains why not.
    fn reserve(
        &mut self,
        length: u64,
        source: &Source<'_>,
    ) -> Result<(Reservation, Option<Claim>), Answer> {
        if let Some(answer) = self.too_long(length) {
            return Err(answer);
        }
        let busy = Answer::new(Status::Busy);
        let claim = match source {
            Source::Inline(_) if !self.is_durable() => None,
            Source::Region { .. } if !self.draft.limits.fetch(length) => return Err(busy),
            _ => Some(self.client.share.claim(length).ok_or(busy)?),
        };
        let room = self.context.engine.reserve(length).map_err(|why| no_room(&why))?;
        Ok((room, claim))
    }

    /// A value that lies in a region of the client's, to be fetched from there.
    fn put_apart(
        &mut self,
        (region, at): (u32, u64),
        room: Reservation,
        claim: Option<Claim>,
        terms: Terms,
    ) -> Result<Answer, &'static str> {
        let length = room.length();
        let staged = Staged::new(self.context.engine.clone(), room, claim);
        let Some(from) = self.client.reach(region, at, length).cloned() else {
            self.client.session.undone(terms.sequence);
            return Ok(Answer::new(Status::NoRegion));
        };
        self.plan(from, at, length, Purpose::Value(staged, terms))
    }

    pub(super) fn delete(&mut self, key: Key<'_>, condition: Condition, sequence: u64) -> Answer {
        if let Some(answer) = self.begun(sequence) {
            return answer;
        }
        if self.is_durable() {
            return self.submit(sequence, key.as_bytes().into(), WriteKind::Delete, condition);
        }
        let answer = self.context.engine.delete(key, condition, self.now);
        self.client.session.done(sequence, answer);
        answer
    }

    /// A write to be made durable; its answer comes later.
    fn submit(
        &mut self,
        sequence: u64,
        key: Box<[u8]>,
        what: WriteKind,
        condition: Condition,
    ) -> Answer {
        let index = self.draft.answers.len();
        self.later.submissions.push(Submission { index, key, what, condition, sequence });
        Answer::new(Status::InFlight)
    }

    /// Bytes to be fetched; the answer comes later.
    fn plan(
        &mut self,
        from: Window,
        at: u64,
        length: u64,
        purpose: Purpose,
    ) -> Result<Answer, &'static str> {
        self.later.plans.push(Plan { index: self.draft.answers.len(), from, at, purpose });
        if length > MOVED {
            return Err("it puts more at once than it may");
        }
        Ok(Answer::new(Status::InFlight))
    }

    /// The answer to a value that would never fit, however long its client waits.
    fn too_long(&self, length: u64) -> Option<Answer> {
        let most = self.context.engine.max_value();
        (length > most).then(|| Answer { length: most, ..Answer::new(Status::TooLong) })
    }

    pub(super) fn begin(&mut self, length: u64) -> Answer {
        if self.client.handles.is_full() {
            return Answer::new(Status::TooManyHandles);
        }
        if let Some(answer) = self.too_long(length) {
            return answer;
        }
        let Some(claim) = self.client.share.claim(length) else {
            return Answer::new(Status::Busy);
        };
        let room = match self.context.engine.reserve(length) {
            Ok(room) => room,
            Err(why) => return no_room(&why),
        };
        let staging = Staging::new(Staged::new(self.context.engine.clone(), room, Some(claim)));
        match self.client.handles.stage(staging, Instant::now()) {
            Some(handle) => {
                let mut answer = Answer { length, ..Answer::new(Status::Ok) };
                AnswerHandle::Staged(handle).put(&mut answer);
                answer
            }
            None => Answer::new(Status::TooManyHandles),
        }
    }

    pub(super) fn piece(
        &mut self,
        handle: u64,
        offset: u64,
        length: u64,
        source: Source<'_>,
    ) -> Result<Answer, &'static str> {
        let Some(staging) = self.client.handles.staging(handle, Instant::now()) else {
            return Ok(Answer::new(Status::NoHandle));
        };
        if staging.is_scattered() {
            return Err("a value comes in more parts that do not touch than it may");
        }
        let total = staging.staged.room().length();
        if offset.checked_add(length).is_none_or(|end| end > total) {
            return Err("a piece does not fit into its value");
        }
        match source {
            Source::Inline(bytes) => {
                self.context.engine.fill(staging.staged.room(), offset, bytes);
                self.context.tally.bytes_in += length;
                staging.cover(offset, length);
            }
            Source::Region { .. } if length == 0 => {}
            Source::Region { region, at } => {
                let Some(from) = self.client.reach(region, at, length).cloned() else {
                    return Ok(Answer::new(Status::NoRegion));
                };
                let purpose = Purpose::Piece { staging, offset, length };
                return self.plan(from, at, length, purpose);
            }
        }
        Ok(Answer { length, ..Answer::new(Status::Ok) })
    }

    pub(super) fn commit(&mut self, handle: u64, terms: Terms) -> Answer {
        let sequence = terms.sequence;
        if let Some(answer) = self.begun(sequence) {
            return answer;
        }
        let status = match self.client.handles.take_complete(handle) {
            Some(Ok(staged)) => return self.commit_staged(staged, terms),
            Some(Err(())) => Status::Incomplete,
            None => Status::NoHandle,
        };
        // Nothing happened: it may be tried again.
        self.client.session.undone(sequence);
        Answer::new(status)
    }

    /// A value that came in pieces becomes its key's, or is made durable first.
    fn commit_staged(&mut self, staged: Staged, terms: Terms) -> Answer {
        let Terms { key, ttl, condition, sequence } = terms;
        if self.is_durable() {
            return self.submit(sequence, key, WriteKind::Put { staged, ttl }, condition);
        }
        let answer = self.context.engine.commit(&key, staged.take(), ttl, condition);
        self.client.session.done(sequence, answer);
        answer
    }

    /// Why a write is not done now, if it is not.
    fn begun(&mut self, sequence: u64) -> Option<Answer> {
        match self.client.session.turn(sequence) {
            Turn::Now => None,
            Turn::Again(answer) => Some(answer),
            Turn::InBatch => Some(Answer::new(Status::InFlight)),
            Turn::Forgotten => Some(Answer::new(Status::Forgotten)),
        }
    }
}
