//! The processing of a batch, from its message to the reply.

use fabric::{Completion, Lane};
use kv_proto::wire::{Answer, Batch, BatchHead, Message, Status};

use super::batch_answers::BatchAnswers;
use super::client::{Client, contains};
use super::disk_requests::{LoadingBatch, Notification, Submission};
use super::draining::is_continuation;
use super::preloaded::Preloaded;
use super::put_fetches::{AnswerIndex, NextStep};
use super::serving::{PendingWork, Serving};
use super::{Connection, MAX_BATCHES};
use crate::workers::context::WorkerContext;

impl Connection {
    /// Answers a batch, immediately or when its values are loaded.
    pub(super) fn answer(
        &mut self,
        message: &[u8],
        batch: Batch<'_>,
        slot_sequence: Option<u64>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if context.engine.has_disk() {
            self.preload(message, batch, slot_sequence, context)
        } else {
            self.serve(batch, slot_sequence, None, context)
        }
    }

    /// Serves a batch of a store with a disk; values that it reads and that are not in memory are loaded first.
    fn preload(
        &mut self,
        message: &[u8],
        batch: Batch<'_>,
        slot_sequence: Option<u64>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        let Some(client) = self.peer.client() else { return Ok(()) };
        let reader = context.cached_reader.as_mut();
        let (preloaded, cold) = Preloaded::collect(&context.engine, reader, client, batch.clone())?;
        if cold.is_empty() {
            return self.serve(batch, slot_sequence, Some(preloaded), context);
        }
        let Some(persistence) = context.engine.persistence() else { return Ok(()) };
        let loading = LoadingBatch::new(message, slot_sequence, preloaded);
        let notifier = || context.notifier(self.row);
        context.disk_requests += self.pending.disk.load(loading, cold, persistence, notifier)?;
        Ok(())
    }

    /// Serves a batch; `preloaded` is what it reads, if the store has a disk.
    fn serve(
        &mut self,
        batch: Batch<'_>,
        slot_sequence: Option<u64>,
        mut preloaded: Option<Preloaded>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if !self.renew_permissions() {
            return Ok(());
        }
        let Some(client) = self.peer.client() else { return Ok(()) };
        self.check_head(client, &batch.head)?;
        if context.draining && !is_continuation(&batch, &client.session) {
            self.refuse(batch.head, slot_sequence, context);
            return Ok(());
        }
        let in_place = batch.head.in_place
            && slot_sequence.is_some()
            && client.may_read_pool()
            && self.may_read_in_place(context);
        let Some(client) = self.peer.client_mut() else { return Ok(()) };
        let mut batch_answers = context.batch_answers();
        batch_answers.begin(batch.head, slot_sequence, in_place);
        let (mut pending, now) = (PendingWork::default(), context.engine.now());
        let mut serving = Serving {
            client,
            context,
            batch_answers: &mut batch_answers,
            pending: &mut pending,
            preloaded: preloaded.as_mut(),
            now,
        };
        if let Err(why) = serving.serve_all(batch) {
            context.recycle(batch_answers);
            pending.abandon(&client.session);
            return Err(why);
        }
        match pending.len() {
            0 => self.reply(batch_answers, context),
            missing => self.wait(batch_answers, missing, pending, context),
        }
        Ok(())
    }

    /// Checks the destination of a batch's answers, and the number of batches in flight.
    #[inline]
    fn check_head(&self, client: &Client, head: &BatchHead) -> Result<(), &'static str> {
        if !contains(client.client_buffer(), head.at, head.capacity) {
            return Err("the answers of a batch do not fit into the client buffer");
        }
        if self.pending.batches() + self.replies.deferred() > usize::from(MAX_BATCHES) * 2 {
            return Err("too many batches in flight");
        }
        Ok(())
    }

    /// Refuses a batch, because the store is shutting down: none of its requests was or will be executed.
    fn refuse(&mut self, head: BatchHead, slot_sequence: Option<u64>, context: &mut WorkerContext) {
        let mut batch_answers = context.batch_answers();
        batch_answers.begin(head, slot_sequence, false);
        batch_answers.answers.resize(head.count.into(), Answer::new(Status::Closing));
        crate::engine::add(&context.engine.counts.refused, 1);
        self.reply(batch_answers, context);
    }

    /// Starts the work that the answers of a batch wait for.
    fn wait(
        &mut self,
        batch_answers: Box<BatchAnswers>,
        missing: usize,
        pending: PendingWork,
        context: &mut WorkerContext,
    ) {
        let row = self.pending.insert(batch_answers, missing);
        let max_slices = self.link.caps().max_slices;
        for plan in pending.plans {
            self.pending.put_fetches.begin(row, plan, max_slices, &mut self.ops, context);
        }
        for submission in pending.submissions {
            self.submit(row, submission, context);
        }
    }

    fn submit(&mut self, batch: u32, submission: Submission, context: &mut WorkerContext) {
        let (Some(session), Some(persistence)) =
            (self.peer.session(), context.engine.persistence())
        else {
            return;
        };
        let (session, notifier) = (session.clone(), context.notifier(self.row));
        self.pending.disk.submit(batch, submission, session, persistence, notifier);
        context.disk_requests += 1;
    }

    /// Handles the completion of a read of bytes that a client puts.
    pub(super) fn put_fetch_completed(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        let completed = self.pending.put_fetches.completed(row, completion, context);
        let (Some(completed), Some(session)) = (completed, self.peer.session()) else { return };
        let target = completed.target;
        match completed.finish(session, context) {
            NextStep::Answer(answer) => self.answered(target, answer, context),
            NextStep::Submit(submission) => self.submit(target.batch, submission, context),
        }
    }

    /// Handles a notification from the disk.
    pub(crate) fn handle_notification(
        &mut self,
        notification: Notification,
        context: &mut WorkerContext,
    ) {
        self.pending.disk.notified();
        context.disk_requests -= 1;
        match notification {
            Notification::Written { batch, index, answer } => {
                self.answered(AnswerIndex { batch, index }, answer, context);
            }
            Notification::Loaded { batch, index, loaded } => {
                if let Some(batch) = self.pending.disk.loaded(batch, index, loaded) {
                    self.serve_loaded(batch, context);
                }
            }
        }
    }

    /// Serves a batch after all of its loads.
    fn serve_loaded(&mut self, loaded: LoadingBatch, context: &mut WorkerContext) {
        let LoadingBatch { message, slot_sequence, preloaded, .. } = loaded;
        // It was parsed as a batch before.
        if let Ok(Message::Batch(batch)) = Message::parse(&message) {
            let served = self.serve(batch, slot_sequence, Some(preloaded), context);
            self.close_on_error(served, context);
        }
    }

    /// Sets an answer that a batch waits for; sends them all with the last one.
    fn answered(&mut self, target: AnswerIndex, answer: Answer, context: &mut WorkerContext) {
        if let Some(batch_answers) = self.pending.answer(target, answer) {
            self.reply(batch_answers, context);
        }
    }

    /// Sends the answers of a batch, or defers them if too many replies are in flight.
    fn reply(&mut self, batch_answers: Box<BatchAnswers>, context: &mut WorkerContext) {
        if self.replies.must_wait() && self.peer.client().is_some() {
            self.replies.defer(batch_answers);
        } else {
            self.send_reply(batch_answers, context);
        }
    }

    /// Sends the answers of a batch.
    pub(super) fn send_reply(
        &mut self,
        mut batch_answers: Box<BatchAnswers>,
        context: &mut WorkerContext,
    ) {
        let Some(client) = self.peer.client() else {
            context.recycle(batch_answers);
            return;
        };
        context.tally.batches += 1;
        context.tally.requests += batch_answers.answers.len() as u64;
        let flag = batch_answers.completion_flag();
        let bytes = context.encode(&batch_answers.answers, &batch_answers.copied);
        // Over shared memory, answers that are copied anyway are copied once more, directly, and nothing is in flight.
        if let (true, Some(flag)) = (batch_answers.is_copied(), flag)
            && self.link.write_mapped(
                client.client_buffer(),
                batch_answers.head.at,
                bytes,
                (flag.at, flag.slot_sequence),
            )
        {
            self.in_place_reads.add(flag.slot_sequence, &mut batch_answers, context);
            self.poller.flag_set();
            context.recycle_sent(batch_answers);
            return;
        }
        let Some(buffer) = context.fill_send_buffer() else {
            context.recycle(batch_answers);
            self.close("out of memory for an answer");
            return;
        };
        if let Some(flag) = flag {
            self.in_place_reads.add(flag.slot_sequence, &mut batch_answers, context);
        }
        let max_slices = self.link.caps().max_slices;
        let client_buffer = client.client_buffer();
        self.replies.write(
            batch_answers,
            buffer,
            client_buffer,
            max_slices,
            &mut self.ops,
            context,
        );
    }

    /// Handles the completion of a write of an answer.
    pub(super) fn replied(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        let outcome = completion.outcome;
        let client_buffer = self.peer.client().map(Client::client_buffer);
        if self.replies.completed(row, completion, client_buffer, &mut self.ops, context) {
            self.poller.flag_set();
        }
        if let Err(failure) = outcome
            && self.link.ended().is_none()
        {
            tracing::debug!(peer = %self.peer.address(), %failure, "cannot write an answer");
            self.close("cannot write to the client's memory");
        }
    }

    /// Whether more values may be read in place. Releases finished reads if there are many.
    #[inline]
    pub(super) fn may_read_in_place(&mut self, context: &mut WorkerContext) -> bool {
        if self.in_place_reads.are_many() {
            self.release_reads(context);
        }
        !self.in_place_reads.is_full()
    }

    /// Unpins what the client has finished reading.
    pub(super) fn release_reads(&mut self, context: &mut WorkerContext) {
        if let Some(client) = self.peer.client() {
            self.in_place_reads.release_consumed(&mut self.link, client.client_buffer(), context);
        }
    }
}
