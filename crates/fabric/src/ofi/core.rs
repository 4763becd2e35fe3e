//! What a lane does while its endpoint is open: reads what comes from the provider and the peer, and answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_sys::Errno;

use super::config::Config;
use super::contexts::Contexts;
use super::cq::Event;
use super::endpoint::Endpoint;
use super::failure::{of_frame, of_transfer};
use super::fetches::Fetch;
use super::frame::{Frame, HEADER, PART, Progress, opened};
use super::granted::Granted;
use super::inbox::{Inbox, Part, Place, TooLong, scatter};
use super::outgoing::Use;
use super::sends::Sends;
use super::slots::Slots;
use super::stall_timer::Watch;
use crate::op::{Completion, Done, Failure};
use crate::over::Over;
use crate::region::{Rights, Slice};
use crate::registration::ofi::Mr;
use crate::stats::Stats;

pub(super) struct Core {
    pub(super) sends: Sends,
    pub(super) slots: Slots,
    pub(super) inbox: Inbox,
    pub(super) stats: Arc<Stats>,
    /// Over, and not told yet.
    pub(super) ready: Vec<Completion>,
    /// What frames of the peer begin with.
    token: u64,
    /// What the peer was given keys of.
    pub(super) granted: Granted,
    /// Frames that took a buffer, and those buffers that are free again.
    arrived: u64,
    freed: u64,
    answers: VecDeque<Answer>,
    doubt: Option<Doubt>,
    transfers: Watch,
    /// Of the oldest message, and of the oldest question.
    words: [Watch; 2],
    timeout: Duration,
    events: Vec<Event>,
}

/// What the peer asked for, and bytes of a region's if it asked for these.
struct Answer {
    frame: Frame,
    bytes: Option<Slice>,
}

/// A transfer was cancelled, and the peer is asked whether it refused the key or something else happened.
struct Doubt {
    at: u32,
    key: u64,
    asked: bool,
    since: Instant,
}

/// Why the lane ends: by the fault of an operation of ours, of a message of the peer's, or of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) failure: Failure,
    pub(super) operation: Option<u32>,
    pub(super) message: Option<u64>,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        End { failure, operation: None, message: None }
    }
}

impl Core {
    pub(super) fn new(
        token: u64,
        sends: Sends,
        slots: Slots,
        inbox: Inbox,
        granted: Granted,
        config: &Config,
    ) -> Self {
        Core {
            token,
            sends,
            slots,
            inbox,
            stats: Arc::default(),
            ready: Vec::new(),
            granted,
            arrived: 0,
            freed: 0,
            answers: VecDeque::new(),
            doubt: None,
            transfers: Watch::new(config.timeout),
            words: [0; 2].map(|_| Watch::new(config.patience)),
            timeout: config.timeout,
            events: Vec::new(),
        }
    }

    /// Does whatever is due; says how much had happened.
    #[inline]
    pub(super) fn work(&mut self, endpoint: &Endpoint) -> Result<usize, End> {
        let count = self.look(endpoint)?;
        self.settle()?;
        // Not between what came and what is said to it: a few may be missing for a moment.
        if count == 0 || self.slots.are_late() {
            self.slots.post(endpoint).map_err(of_frame)?;
        }
        self.fetch(endpoint)?;
        self.push(endpoint)?;
        self.answer(endpoint)?;
        // Whoever received something is likely to send something, which reports how far we are, too.
        if count == 0 || self.is_late() {
            self.report_progress(endpoint)?;
        }
        Ok(count)
    }

    /// Does what was left for later: before the lane sleeps, and now and then while it is busy.
    pub(super) fn rest(&mut self, endpoint: &Endpoint) -> Result<(), End> {
        self.slots.post(endpoint).map_err(of_frame)?;
        self.report_progress(endpoint)
    }

    /// Gives the provider what waits.
    #[inline]
    pub(super) fn push(&mut self, endpoint: &Endpoint) -> Result<(), End> {
        if self.doubt.is_some() {
            return Ok(());
        }
        self.sends.set_progress(self.progress());
        let mut over = Over { stats: &self.stats, done: &mut self.ready };
        let pushed = self.sends.push(endpoint, &mut over);
        pushed.map_err(|errno| self.by_oldest(of_frame(errno)))
    }

    #[inline]
    fn look(&mut self, endpoint: &Endpoint) -> Result<usize, End> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let read = endpoint.cq().read(&mut events);
        let taken = events.iter().try_for_each(|event| self.take_event(event));
        let count = events.len();
        self.events = events;
        taken?;
        read.map_err(of_frame)?;
        Ok(count)
    }

    #[inline]
    fn take_event(&mut self, event: &Event) -> Result<(), End> {
        if let Some(slot) = self.slots.contexts().index(event.context) {
            return self.receive(slot as u32, event);
        }
        match (self.sends.out().contexts().index(event.context), event.verdict) {
            (Some(context), verdict) => self.complete(context, verdict),
            // Nobody here posted it: a write of the peer's, or its failure, which the peer knows of.
            (None, _) => Ok(()),
        }
    }

    #[inline]
    fn complete(&mut self, context: usize, verdict: Result<(), Errno>) -> Result<(), End> {
        let used = self.sends.complete(context);
        match (verdict, used) {
            (Ok(()), Use::Transfer { at, .. } | Use::Frame(at)) => {
                let mut over = Over { stats: &self.stats, done: &mut self.ready };
                self.sends.succeed(at, &mut over);
                Ok(())
            }
            (Ok(()), Use::Fetch { at, .. }) => self.fetched(at),
            (Ok(()), Use::Free | Use::Own) => Ok(()),
            (Err(errno), _) => self.fail(used, errno),
        }
    }

    /// Reads what lies with the peer into its receives.
    #[inline]
    fn fetch(&mut self, endpoint: &Endpoint) -> Result<(), End> {
        while self.doubt.is_none()
            && let Some((at, fetch)) = self.inbox.fetches.front()
            && let Some(receive) = self.inbox.receive(fetch.message)
        {
            let read = self.sends.fetch((at, fetch), receive.work.local(), endpoint);
            match read.map_err(of_frame)? {
                Some(bytes) => self.inbox.fetches.advance(bytes),
                None => break,
            }
        }
        Ok(())
    }

    /// A read of that part is over. The one that ends last is told by its message's having been received.
    fn fetched(&mut self, at: u32) -> Result<(), End> {
        let Some(Fetch { message: id, offset, .. }) = self.inbox.fetches.complete(at) else {
            return Ok(());
        };
        self.freed += 1;
        if !self.inbox.fetched(id) {
            self.reply(Frame::Taken { id, offset: offset as u64 }, None)?;
        }
        Ok(())
    }

    /// The provider could not do something.
    #[cold]
    fn fail(&mut self, used: Use, errno: Errno) -> Result<(), End> {
        if let Some(doubt) = &mut self.doubt {
            // The question itself may have been lost with the rest.
            doubt.asked &= used != Use::Own;
            return Ok(());
        }
        let transfer = |used: &Use| match used {
            Use::Transfer { at, .. } => Some(*at),
            _ => None,
        };
        let failed = transfer(&used);
        let suspect = failed.or_else(|| self.sends.out().find(transfer));
        let suspect = suspect.and_then(|at| Some((at, self.sends.key(at)?)));
        match (failed, of_transfer(errno), suspect) {
            (Some(at), Some(failure), _) => Err(End { operation: Some(at), ..End::from(failure) }),
            (_, None, Some((at, key))) => {
                self.doubt = Some(Doubt { at, key, asked: false, since: Instant::now() });
                Ok(())
            }
            _ => Err(self.by_oldest(of_frame(errno))),
        }
    }

    fn receive(&mut self, slot: u32, event: &Event) -> Result<(), End> {
        if let Err(errno) = event.verdict {
            self.slots.free(slot);
            return match of_frame(errno) {
                // A connection that broke takes receives with it, on some providers.
                Failure::PeerGone => Ok(()),
                // Longer than any frame of the peer's: an unknown peer's.
                Failure::ProtocolError => Ok(()),
                failure => Err(failure.into()),
            };
        }
        let whole = event.length.checked_sub(HEADER);
        let frame = whole.and_then(|_| opened(self.token, &self.slots.header(slot)));
        let (Some(frame), Some(length)) = (frame, whole) else {
            self.slots.free(slot);
            return Ok(());
        };
        let ((progress, frame), length) = (frame?, length as u64);
        let mut over = Over { stats: &self.stats, done: &mut self.ready };
        self.sends.peer_progress(progress, &mut over)?;
        self.arrived += u64::from(frame.takes_a_buffer());
        // Who sends more than was promised would fill the provider's own queues next, which have no end.
        if self.arrived - self.freed > self.slots.promised() {
            return Err(Failure::ProtocolError.into());
        }
        if let Frame::Message { id, total, offset, imm } = frame {
            if total == length
                && offset == 0
                && let Some(receive) = self.inbox.take_next(id, total)
            {
                let (memory, at) = self.slots.payload(slot);
                scatter(receive.work.local(), 0, total as usize, memory, at);
                self.slots.free(slot);
                self.freed += 1;
                over.add(receive, Ok(Done::Received { length: total as usize, imm }));
                return Ok(());
            }
            let part = Part { place: Place::Slot(slot), offset, length };
            return Ok(self.inbox.message(id, total, imm, part)?);
        }
        let moved = self.move_bytes(frame, slot, length);
        self.slots.free(slot);
        // What lies with the peer counts as long as it does.
        let is_over = frame.takes_a_buffer() && !matches!(frame, Frame::Lying { .. });
        self.freed += u64::from(is_over);
        if moved? {
            return Ok(());
        }
        if length > 0 {
            return Err(Failure::ProtocolError.into());
        }
        self.obey(frame)
    }

    /// Takes the bytes of a frame that has some beside messages; `false`: it is none of these.
    fn move_bytes(&mut self, frame: Frame, slot: u32, length: u64) -> Result<bool, End> {
        let (memory, at) = self.slots.payload(slot);
        match frame {
            Frame::Put { id, key, offset } => {
                let place = self.granted.place(key, offset, length, WRITE);
                if let Some(place) = &place {
                    place.region().memory().copy(place.offset(), memory, at, place.len());
                }
                self.reply(Frame::Answer { id, old: place.map(|_| 0) }, None)?;
            }
            Frame::Data { id } => {
                let mut over = Over { stats: &self.stats, done: &mut self.ready };
                self.sends.data(id, (memory, at), length, &mut over)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn obey(&mut self, frame: Frame) -> Result<(), End> {
        let mut over = Over { stats: &self.stats, done: &mut self.ready };
        match frame {
            Frame::Message { .. } | Frame::Put { .. } | Frame::Data { .. } => {}
            Frame::Lying { id, total, offset, imm, from } => {
                let left = total.checked_sub(offset).filter(|left| *left > 0);
                let left = left.ok_or(Failure::ProtocolError)?;
                // A provider that lets peers reach anything is not used for it.
                if !offset.is_multiple_of(PART as u64) || self.sends.answers_with().is_some() {
                    return Err(Failure::ProtocolError.into());
                }
                let part =
                    Part { place: Place::There(from), offset, length: left.min(PART as u64) };
                self.inbox.message(id, total, imm, part)?;
            }
            Frame::Taken { id, offset } => self.sends.taken(id, offset)?,
            Frame::Immediate { id, length, imm } => match self.inbox.take_next(id, 0) {
                Some(receive) => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    over.add(receive, Ok(Done::Received { length, imm: Some(imm) }));
                }
                None => self.inbox.immediate(id, length, imm)?,
            },
            Frame::Change { id, key, offset, change } => {
                let old = self.granted.change(key, offset, change);
                self.reply(Frame::Answer { id, old }, None)?;
            }
            Frame::Get { id, key, offset, length } => {
                let most = self.sends.answers_with().ok_or(Failure::ProtocolError)?;
                let bytes =
                    self.granted.place(key, offset, length, READ).filter(|_| length <= most);
                match bytes {
                    Some(bytes) => self.reply(Frame::Data { id }, Some(bytes))?,
                    None => self.reply(Frame::Answer { id, old: None }, None)?,
                }
            }
            Frame::Doubt { id, key } => {
                let old = self.granted.holds(key).then_some(0);
                self.reply(Frame::Answer { id, old }, None)?;
            }
            Frame::Answer { id: DOUBT, old } => {
                if let Some(doubt) = &self.doubt {
                    let failure = if old.is_some() { Failure::PeerGone } else { Failure::Access };
                    return Err(End { operation: Some(doubt.at), ..End::from(failure) });
                }
            }
            Frame::Answer { id, old } => {
                self.sends.answer(id, old, &mut over).map_err(|refused| {
                    let failure = refused.map_or(Failure::ProtocolError, |_| Failure::Access);
                    End { operation: refused, ..End::from(failure) }
                })?;
            }
            Frame::State => {}
            Frame::Bye { failure, id } => return Err(self.bye(failure, id)),
        }
        Ok(())
    }

    /// The peer ends the lane; if by the fault of a message of ours, its operation is told.
    fn bye(&self, failure: Failure, id: Option<u64>) -> End {
        match id.and_then(|id| self.sends.message(id)) {
            Some(at) if failure == Failure::TooLong => {
                End { operation: Some(at), ..End::from(failure) }
            }
            _ => self.by_oldest(Failure::PeerGone),
        }
    }

    fn reply(&mut self, frame: Frame, bytes: Option<Slice>) -> Result<(), Failure> {
        if self.answers.len() >= MAX_ANSWERS {
            return Err(Failure::ProtocolError);
        }
        self.answers.push_back(Answer { frame, bytes });
        Ok(())
    }

    #[inline]
    pub(super) fn settle(&mut self) -> Result<(), End> {
        let mut over = Over { stats: &self.stats, done: &mut self.ready };
        let settled = self.inbox.settle(&mut self.slots, &mut self.freed, &mut over);
        settled.map_err(|TooLong { id }| End { message: Some(id), ..Failure::TooLong.into() })
    }

    /// Whether so many buffers are free again, or so many places in the peer's rendezvous buffers, that it may wait for them.
    #[inline]
    fn is_late(&self) -> bool {
        let reported = self.sends.out().reported();
        self.freed - reported.freed >= self.slots.promised() / 4
            || self.inbox.fetches.received() >= reported.received + 2
    }

    /// Reports to the peer how far we are, if it does not know.
    #[inline]
    fn report_progress(&mut self, endpoint: &Endpoint) -> Result<(), End> {
        let progress = self.progress();
        // One at a time: the next reports more.
        if progress == self.sends.out().reported() || self.sends.out().is_sending() {
            return Ok(());
        }
        self.sends.set_progress(progress);
        let sent = self.sends.send_own(Frame::State, endpoint).map(drop);
        self.check_sent(sent)
    }

    /// Sends the peer what it asked for.
    #[inline]
    fn answer(&mut self, endpoint: &Endpoint) -> Result<(), End> {
        if self.doubt.is_none() && self.answers.is_empty() {
            return Ok(());
        }
        self.sends.set_progress(self.progress());
        let answered = self.try_answer(endpoint);
        self.check_sent(answered)
    }

    fn check_sent(&self, sent: Result<(), Errno>) -> Result<(), End> {
        match sent {
            // What is lost now is asked for again.
            Err(_) if self.doubt.is_some() => Ok(()),
            other => other.map_err(|errno| self.by_oldest(of_frame(errno))),
        }
    }

    fn try_answer(&mut self, endpoint: &Endpoint) -> Result<(), Errno> {
        if let Some(doubt) = self.doubt.as_mut().filter(|doubt| !doubt.asked) {
            let question = Frame::Doubt { id: DOUBT, key: doubt.key };
            doubt.asked = self.sends.send_own(question, endpoint)?;
        }
        while let Some(answer) = self.answers.front()
            && send_answer(&mut self.sends, answer, endpoint)?
        {
            self.answers.pop_front();
        }
        Ok(())
    }

    #[inline]
    fn progress(&self) -> Progress {
        let received = self.inbox.received();
        Progress { arrived: self.arrived, freed: self.freed, received }
    }

    /// Whether something has stood still for too long.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), End> {
        if let Some(doubt) = &self.doubt {
            if now.saturating_duration_since(doubt.since) > self.timeout {
                return Err(End { operation: Some(doubt.at), ..Failure::PeerGone.into() });
            }
            return Ok(());
        }
        // What the provider does not even take yet counts, too.
        let fetches = || self.inbox.fetches.front().map(|_| self.sends.out().moves());
        if self.transfers.is_over(self.sends.transfers_mark().or_else(fetches), now) {
            return Err(self.by_oldest(Failure::PeerGone));
        }
        for (watch, awaited) in self.words.iter_mut().zip(self.sends.awaited()) {
            if watch.is_over(awaited.map(|awaited| awaited.mark), now) {
                let is_there = self.sends.all_arrived();
                let failure = if is_there { Failure::NotReady } else { Failure::PeerGone };
                let operation = awaited.and_then(|awaited| awaited.at).or(self.sends.oldest());
                return Err(End { operation, ..failure.into() });
            }
        }
        Ok(())
    }

    /// When to look, even if nothing comes.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        // Nothing else is looked at meanwhile, so that it would be due for ever.
        if self.doubt.is_some() {
            return Some(now + RETRY);
        }
        let waits = self.sends.out().is_blocked()
            || self.slots.are_short()
            || self.inbox.fetches.front().is_some()
            || self.progress() != self.sends.out().reported()
            || !self.answers.is_empty();
        let retry = waits.then(|| now + RETRY);
        let [message, question] = &self.words;
        let dues = [self.transfers.due(), message.due(), question.due(), retry];
        dues.into_iter().flatten().min()
    }

    pub(super) fn by_oldest(&self, failure: Failure) -> End {
        End { operation: self.sends.oldest(), ..failure.into() }
    }

    /// Tells the peer why the lane ends, if that can be told soon.
    #[cold]
    pub(super) fn farewell(&mut self, end: &End, endpoint: &Endpoint) {
        let bye = Frame::Bye { failure: end.failure, id: end.message };
        let begun = Instant::now();
        let (mut sent, mut events) = (false, Vec::new());
        while begun.elapsed() < FAREWELL && (!sent || self.sends.out().is_sending()) {
            if !sent {
                match self.sends.send_own(bye, endpoint) {
                    Ok(now) => sent = now,
                    Err(_) => return,
                }
            }
            events.clear();
            if endpoint.cq().read(&mut events).is_err() {
                return;
            }
            for event in &events {
                if let Some(context) = self.sends.out().contexts().index(event.context) {
                    self.sends.complete(context);
                }
            }
        }
    }

    /// What the endpoint uses as long as it is open.
    pub(super) fn used(&self) -> [(Arc<Mr>, Arc<Contexts>); 2] {
        [self.slots.used(), self.sends.out().used()]
    }

    /// The endpoint is closed: everything comes back.
    pub(super) fn abandon(&mut self, end: &End) {
        let mut over = Over { stats: &self.stats, done: &mut self.ready };
        let fault = end.operation.map(|at| (at, end.failure));
        let found = self.sends.abandon(fault, &mut over);
        self.granted.release();
        // One of them says what happened, if only a receive was in flight.
        let first = match end.failure {
            failure @ (Failure::PeerGone | Failure::Local) if !found => failure,
            _ => Failure::Flushed,
        };
        self.inbox.abandon(first, &mut over);
    }
}

fn send_answer(sends: &mut Sends, answer: &Answer, endpoint: &Endpoint) -> Result<bool, Errno> {
    match &answer.bytes {
        Some(bytes) => sends.send_own_with(answer.frame, bytes, endpoint),
        None => sends.send_own(answer.frame, endpoint),
    }
}

const READ: Rights = Rights { read: true, ..Rights::NONE };
const WRITE: Rights = Rights { write: true, ..Rights::NONE };

/// How a question about a key is numbered; operations count from 0.
const DOUBT: u64 = u64::MAX;
/// Honest peers ask no more at a time than they have buffers.
const MAX_ANSWERS: usize = 1024;
/// How soon what the provider did not take is tried again.
const RETRY: Duration = Duration::from_millis(1);
/// How long a lane that ends tries to report that. A peer that receives nothing finds out by its time-out.
const FAREWELL: Duration = Duration::from_millis(20);
