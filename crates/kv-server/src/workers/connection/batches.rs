//! Batches on their path through a connection, from the message to the reply.

use fabric::{Completion, Lane};
use kv_proto::wire::{Answer, Batch, BatchHead, Message, Status};

use super::client::{Client, reaches};
use super::closing::goes_on;
use super::disk_requests::{LoadingBatch, Notification, Submission};
use super::draft::Draft;
use super::fetches::{AnswerIndex, Conclusion};
use super::preloaded::Preloaded;
use super::serving::{Later, Serving};
use super::{BATCHES, Connection};
use crate::workers::context::WorkerContext;

impl Connection {
    /// Answers a batch: at once, or when everything for it is there.
    pub(super) fn answer(
        &mut self,
        message: &[u8],
        batch: Batch<'_>,
        completion_flag: Option<u64>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if context.engine.is_durable() {
            self.preload(message, batch, completion_flag, context)
        } else {
            self.serve(batch, completion_flag, None, context)
        }
    }

    /// Serves a batch of a store with a disk, or first loads what it reads and memory does not have.
    fn preload(
        &mut self,
        message: &[u8],
        batch: Batch<'_>,
        completion_flag: Option<u64>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        let Some(client) = self.peer.client() else { return Ok(()) };
        let (preloaded, cold) = Preloaded::gather(&context.engine, client, batch.clone())?;
        if cold.is_empty() {
            return self.serve(batch, completion_flag, Some(preloaded), context);
        }
        let Some(journal) = context.engine.journal() else { return Ok(()) };
        let loading = LoadingBatch::new(message, completion_flag, preloaded);
        let notifier = || context.notifier(self.row);
        context.disk_requests += self.pending.disk.load(loading, cold, journal, notifier)?;
        Ok(())
    }

    /// Serves a batch; `preloaded` is what it reads, where the store has a disk.
    fn serve(
        &mut self,
        batch: Batch<'_>,
        completion_flag: Option<u64>,
        mut preloaded: Option<Preloaded>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if !self.renew_rights() {
            return Ok(());
        }
        let Some(client) = self.peer.client() else { return Ok(()) };
        self.check_head(client, &batch.head)?;
        if context.closing && !goes_on(&batch, &client.session) {
            self.reject(batch.head, completion_flag, context);
            return Ok(());
        }
        let in_place = batch.head.in_place
            && completion_flag.is_some()
            && client.may_read_pool()
            && self.may_read_in_place(context);
        let Some(client) = self.peer.client_mut() else { return Ok(()) };
        let mut draft = context.draft();
        draft.begin(batch.head, completion_flag, in_place);
        let (mut later, now) = (Later::default(), context.engine.now());
        let mut serving = Serving {
            client,
            context,
            draft: &mut draft,
            later: &mut later,
            preloaded: preloaded.as_mut(),
            now,
        };
        if let Err(why) = serving.serve_all(batch) {
            context.recycle(draft);
            later.abandon(&client.session);
            return Err(why);
        }
        match later.len() {
            0 => _ = self.reply(draft, context),
            missing => self.wait(draft, missing, later, context),
        }
        Ok(())
    }

    /// Checks that there is a place for a batch's answers, and that it is not one batch too many.
    #[inline]
    fn check_head(&self, client: &Client, head: &BatchHead) -> Result<(), &'static str> {
        if !reaches(client.receive_buffer(), head.at, head.capacity) {
            return Err("its answers have no place in its receive buffer");
        }
        if self.pending.batches() + self.replies.deferred() > usize::from(BATCHES) * 2 {
            return Err("it has more batches in flight than it may");
        }
        Ok(())
    }

    /// Answers that nothing of a batch was done, nor will be: the store is shutting down.
    fn reject(
        &mut self,
        head: BatchHead,
        completion_flag: Option<u64>,
        context: &mut WorkerContext,
    ) {
        let mut draft = context.draft();
        draft.begin(head, completion_flag, false);
        draft.answers.resize(head.count.into(), Answer::new(Status::Closing));
        crate::engine::add(&context.engine.counts.turned_away, 1);
        self.reply(draft, context);
    }

    /// Begins what the answers of a batch wait for.
    fn wait(&mut self, draft: Draft, missing: usize, later: Later, context: &mut WorkerContext) {
        let row = self.pending.insert(draft, missing);
        let most = self.link.caps().max_pieces;
        for plan in later.plans {
            self.pending.fetches.begin(row, plan, most, &mut self.ops, context);
        }
        for submission in later.submissions {
            self.submit(row, submission, context);
        }
    }

    fn submit(&mut self, batch: u32, submission: Submission, context: &mut WorkerContext) {
        let (Some(session), Some(journal)) = (self.peer.session(), context.engine.journal()) else {
            return;
        };
        let (session, notifier) = (session.clone(), context.notifier(self.row));
        self.pending.disk.submit(batch, submission, session, journal, notifier);
        context.disk_requests += 1;
    }

    /// A read of bytes that a client puts is over.
    pub(super) fn fetched(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        let fetched = self.pending.fetches.completed(row, completion, context);
        let (Some(fetched), Some(session)) = (fetched, self.peer.session()) else { return };
        let target = fetched.target;
        match fetched.conclude(session, context) {
            Conclusion::Answer(answer) => self.answered(target, answer, context),
            Conclusion::Submit(submission) => self.submit(target.batch, submission, context),
        }
    }

    /// The disk has done something that was asked of it.
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

    /// Serves a batch for which everything was loaded.
    fn serve_loaded(&mut self, loaded: LoadingBatch, context: &mut WorkerContext) {
        let LoadingBatch { message, completion_flag, preloaded, .. } = loaded;
        // It was a batch when it was first parsed.
        if let Ok(Message::Batch(batch)) = Message::parse(&message) {
            let served = self.serve(batch, completion_flag, Some(preloaded), context);
            self.dismiss_if(served, context);
        }
    }

    /// One of the answers that a batch waited for; with the last they are sent.
    fn answered(&mut self, target: AnswerIndex, answer: Answer, context: &mut WorkerContext) {
        if let Some(draft) = self.pending.answer(target, answer) {
            self.reply(draft, context);
        }
    }

    /// Sends the answers of a batch; `false` if so many are in flight that these must wait.
    pub(super) fn reply(&mut self, mut draft: Draft, context: &mut WorkerContext) -> bool {
        let Some(client) = self.peer.client() else {
            context.recycle(draft);
            return true;
        };
        if self.replies.is_full() {
            self.replies.defer(draft);
            return false;
        }
        context.tally.batches += 1;
        context.tally.requests += draft.answers.len() as u64;
        let flag = draft.completion_flag();
        let bytes = context.render(&draft.answers, &draft.copied);
        // On shared memory what is copied anyway costs one more copy, and needs nothing to be kept.
        if let (true, Some(flag)) = (draft.is_copied(), flag)
            && self.link.poke(
                client.receive_buffer(),
                draft.head.at,
                bytes,
                (flag.at, flag.sequence),
            )
        {
            self.pinned_reads.hold(flag.sequence, &mut draft, context);
            self.watch.flag_set();
            context.settle(draft);
            return true;
        }
        let Some(slot) = context.fill_slot() else {
            context.recycle(draft);
            self.dismiss("there is no memory for an answer");
            return true;
        };
        if let Some(flag) = flag {
            self.pinned_reads.hold(flag.sequence, &mut draft, context);
        }
        let most = self.link.caps().max_pieces;
        self.replies.write(draft, slot, client.receive_buffer(), most, &mut self.ops, context);
        true
    }

    /// A write of an answer is over.
    pub(super) fn replied(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        let outcome = completion.outcome;
        let receive_buffer = self.peer.client().map(Client::receive_buffer);
        if self.replies.completed(row, completion, receive_buffer, &mut self.ops, context) {
            self.watch.flag_set();
        }
        if let Err(failure) = outcome
            && self.link.ended().is_none()
        {
            tracing::debug!(peer = %self.peer.address(), %failure, "an answer could not be written");
            self.dismiss("its memory cannot be written");
        }
    }
    /// Whether values may be read in place. Now and then this looks which were.
    #[inline]
    pub(super) fn may_read_in_place(&mut self, context: &mut WorkerContext) -> bool {
        if self.pinned_reads.are_many() {
            self.release_reads(context);
        }
        !self.pinned_reads.is_full()
    }

    /// Unpins what the client has finished reading.
    pub(super) fn release_reads(&mut self, context: &mut WorkerContext) {
        if let Some(client) = self.peer.client() {
            let (buffer, area) = (client.receive_buffer(), self.receives.area());
            self.pinned_reads.release_taken(&mut self.link, buffer, area, context);
        }
    }
}
