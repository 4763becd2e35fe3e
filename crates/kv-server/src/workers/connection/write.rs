//! Requests that write: values, complete or in chunks, and deletions.

use std::time::Instant;

use fabric::Window;
use kv_proto::Condition;
use kv_proto::wire::{Answer, Source, Status};
use kv_store::{Key, Reservation};

use super::answer_handle::AnswerHandle;
use super::batch_limits::MAX_TRANSFER_BYTES;
use super::disk_requests::Submission;
use super::handles::StagedValue;
use super::put_fetches::{CommitParams, PutFetchPlan, PutFetchPurpose};
use super::serving::Serving;
use crate::engine::ReservedValue;
use crate::engine::outcome::reserve_refused;
use crate::engine::persistence::WriteKind;
use crate::engine::quota::Claim;
use crate::engine::session::WriteStart;

impl Serving<'_> {
    pub(super) fn put(
        &mut self,
        length: u64,
        source: Source<'_>,
        params: CommitParams,
    ) -> Result<Answer, &'static str> {
        if let Some(answer) = self.start_write(params.sequence) {
            return Ok(answer);
        }
        let (reservation, claim) = match self.reserve(length, &source) {
            Ok(reserved) => reserved,
            Err(answer) => {
                self.client.session.cancel_write(params.sequence);
                return Ok(answer);
            }
        };
        match source {
            Source::Inline(bytes) => {
                self.context.engine.fill(&reservation, 0, bytes);
                self.context.tally.bytes_in += length;
            }
            Source::Region { region, at } if length > 0 => {
                return self.put_from_region((region, at), reservation, claim, params);
            }
            Source::Region { .. } => {}
        }
        if self.has_disk() {
            let reserved = ReservedValue::new(self.context.engine.clone(), reservation, claim);
            return Ok(self.commit_reserved(reserved, params));
        }
        // Like `commit_reserved`, without cloning the `Arc` of the engine.
        let answer =
            self.context.engine.commit(&params.key, reservation, params.ttl, params.condition);
        self.client.session.finish_write(params.sequence, answer);
        Ok(answer)
    }

    /// Memory for a value, and quota if it is not committed immediately: if its bytes must be read from
    /// the client's memory or made durable. The error is the answer to the request.
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
            Source::Inline(_) if !self.has_disk() => None,
            Source::Region { .. } if !self.batch_answers.limits.claim_put_fetch(length) => {
                return Err(busy);
            }
            _ => Some(self.client.share.claim(length).ok_or(busy)?),
        };
        let reservation =
            self.context.engine.reserve(length).map_err(|why| reserve_refused(&why))?;
        Ok((reservation, claim))
    }

    /// Puts a value from a region of the client: its bytes are read from there.
    fn put_from_region(
        &mut self,
        (region, at): (u32, u64),
        reservation: Reservation,
        claim: Option<Claim>,
        params: CommitParams,
    ) -> Result<Answer, &'static str> {
        let length = reservation.length();
        let reserved = ReservedValue::new(self.context.engine.clone(), reservation, claim);
        let Some(from) = self.client.window_for(region, at, length).cloned() else {
            self.client.session.cancel_write(params.sequence);
            return Ok(Answer::new(Status::NoRegion));
        };
        self.plan(from, at, length, PutFetchPurpose::Value(reserved, params))
    }

    pub(super) fn delete(&mut self, key: Key<'_>, condition: Condition, sequence: u64) -> Answer {
        if let Some(answer) = self.start_write(sequence) {
            return answer;
        }
        if self.has_disk() {
            return self.submit(sequence, key.as_bytes().into(), WriteKind::Delete, condition);
        }
        let answer = self.context.engine.delete(key, condition, self.now);
        self.client.session.finish_write(sequence, answer);
        answer
    }

    /// Submits a write to the disk; its answer comes later.
    fn submit(
        &mut self,
        sequence: u64,
        key: Box<[u8]>,
        kind: WriteKind,
        condition: Condition,
    ) -> Answer {
        let index = self.batch_answers.answers.len();
        self.pending.submissions.push(Submission { index, key, kind, condition, sequence });
        Answer::new(Status::InFlight)
    }

    /// Plans a read of put data; the answer comes later.
    fn plan(
        &mut self,
        from: Window,
        at: u64,
        length: u64,
        purpose: PutFetchPurpose,
    ) -> Result<Answer, &'static str> {
        self.pending.plans.push(PutFetchPlan {
            index: self.batch_answers.answers.len(),
            from,
            at,
            purpose,
        });
        if length > MAX_TRANSFER_BYTES {
            return Err("a put exceeds the transfer limit of a batch");
        }
        Ok(Answer::new(Status::InFlight))
    }

    /// The answer to a value that is longer than the store accepts.
    fn too_long(&self, length: u64) -> Option<Answer> {
        let max = self.context.engine.max_value();
        (length > max).then(|| Answer { length: max, ..Answer::new(Status::TooLong) })
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
        let reservation = match self.context.engine.reserve(length) {
            Ok(reservation) => reservation,
            Err(why) => return reserve_refused(&why),
        };
        let staged = StagedValue::new(ReservedValue::new(
            self.context.engine.clone(),
            reservation,
            Some(claim),
        ));
        match self.client.handles.stage(staged, Instant::now()) {
            Some(handle) => {
                let mut answer = Answer { length, ..Answer::new(Status::Ok) };
                AnswerHandle::Staged(handle).put(&mut answer);
                answer
            }
            None => Answer::new(Status::TooManyHandles),
        }
    }

    pub(super) fn chunk(
        &mut self,
        handle: u64,
        offset: u64,
        length: u64,
        source: Source<'_>,
    ) -> Result<Answer, &'static str> {
        let Some(staged) = self.client.handles.staged(handle, Instant::now()) else {
            return Ok(Answer::new(Status::NoHandle));
        };
        if staged.is_scattered() {
            return Err("a staged value has too many separate parts");
        }
        let total = staged.reserved.reservation().length();
        if offset.checked_add(length).is_none_or(|end| end > total) {
            return Err("a chunk is outside of its value");
        }
        match source {
            Source::Inline(bytes) => {
                self.context.engine.fill(staged.reserved.reservation(), offset, bytes);
                self.context.tally.bytes_in += length;
                staged.cover(offset, length);
            }
            Source::Region { .. } if length == 0 => {}
            Source::Region { region, at } => {
                let Some(from) = self.client.window_for(region, at, length).cloned() else {
                    return Ok(Answer::new(Status::NoRegion));
                };
                let purpose = PutFetchPurpose::Chunk { staged, offset, length };
                return self.plan(from, at, length, purpose);
            }
        }
        Ok(Answer { length, ..Answer::new(Status::Ok) })
    }

    pub(super) fn commit(&mut self, handle: u64, params: CommitParams) -> Answer {
        let sequence = params.sequence;
        if let Some(answer) = self.start_write(sequence) {
            return answer;
        }
        let status = match self.client.handles.take_complete(handle) {
            Some(Ok(reserved)) => return self.commit_reserved(reserved, params),
            Some(Err(())) => Status::Incomplete,
            None => Status::NoHandle,
        };
        // Nothing was changed: the client may retry.
        self.client.session.cancel_write(sequence);
        Answer::new(status)
    }

    /// Commits a value, or submits it to the disk first.
    fn commit_reserved(&mut self, reserved: ReservedValue, params: CommitParams) -> Answer {
        let CommitParams { key, ttl, condition, sequence } = params;
        if self.has_disk() {
            return self.submit(sequence, key, WriteKind::Put { reserved, ttl }, condition);
        }
        let answer = self.context.engine.commit(&key, reserved.take(), ttl, condition);
        self.client.session.finish_write(sequence, answer);
        answer
    }

    /// Starts a write; returns the answer if it is not to be executed.
    fn start_write(&mut self, sequence: u64) -> Option<Answer> {
        match self.client.session.start_write(sequence) {
            WriteStart::New => None,
            WriteStart::Done(answer) => Some(answer),
            WriteStart::InFlight => Some(Answer::new(Status::InFlight)),
            WriteStart::Forgotten => Some(Answer::new(Status::Forgotten)),
        }
    }
}
