//! The send side of a lane: operations in flight, in the order in which they were posted.
//!
//! A transfer is over when the provider says so; what the peer receives, writes, reads or changes for us,
//! when the peer says so.

mod submit;

pub(super) use submit::SHORT;

use std::collections::VecDeque;
use std::time::Instant;

use rdma_sys::Errno;

use super::endpoint::{Direction, Endpoint};
use super::fetches::Fetch;
use super::frame::{Frame, Progress};
use super::inbox::scatter;
use super::outgoing::{Outgoing, Use};
use super::rendezvous::RendezvousBuffers;
use crate::cut::{Cut, Most};
use crate::memory::Memory;
use crate::op::{Done, Failure, Op, Work};
use crate::over::Over;
use crate::region::Slice;
use crate::remote::{Reach, Target};
use crate::slab::Slab;
use crate::stats::SAMPLE;

pub(super) struct Sends {
    shape: Shape,
    out: Outgoing,
    rendezvous: RendezvousBuffers,
    flying: Slab<Flying>,
    /// Not wholly with the provider yet, the oldest first.
    waiting: VecDeque<u32>,
    /// Placed writes, whose immediate data is to be sent.
    placed: VecDeque<u32>,
    /// Announced to the peer, and to be received by it, in the order of their numbers.
    announced: VecDeque<(u64, u32)>,
    /// Asked of the peer.
    asked: Vec<Question>,
    next_message: u64,
    next_question: u64,
    /// Frames sent that take a buffer, and how many buffers the peer has freed.
    sent: u64,
    freed: u64,
    /// How many of these frames have come to the peer.
    arrived: u64,
    taken: u64,
}

/// What limits a lane's frames and transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The number of the device.
    pub(super) domain: u32,
    /// The longest transfer at a time, and how many bytes a frame carries.
    pub(super) transfer: u32,
    pub(super) payload: u32,
    /// How many pieces either may have, header and all.
    pub(super) pieces: usize,
    /// How many buffers the peer has.
    pub(super) buffers: u64,
    /// Whether the peer is asked to write and to read, since the provider would not protect it; then
    /// all frames are copied, and not only short ones.
    pub(super) asks: bool,
}

/// An operation in flight.
struct Flying {
    op: Op,
    cut: Cut,
    /// How many parts are with the provider, and how many questions with the peer.
    parts: u32,
    questions: u32,
    /// Once all its parts went there: how many frames had been sent by then.
    handed: Option<u64>,
    /// Whether the peer has yet to receive it, and as which message.
    awaits: bool,
    message: Option<u64>,
    /// Whether a write's bytes are there, and its number is all that is left.
    placed: bool,
    begun: Option<Instant>,
}

/// Something that the peer has yet to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    /// Stands still while the peer does.
    pub(super) mark: u64,
    /// The operation that waits for it.
    pub(super) at: Option<u32>,
}

/// What the peer was asked for: whose, and where in that operation the answer goes.
#[derive(Debug, Clone, Copy)]
struct Question {
    id: u64,
    /// How many frames had been sent with it.
    frame: u64,
    at: u32,
    offset: usize,
    length: usize,
}

/// How the provider took something.
#[derive(PartialEq, Eq)]
enum Handed {
    Whole,
    Part,
    /// It is full, or the peer is.
    Blocked,
}

impl Sends {
    pub(super) fn new(shape: Shape, out: Outgoing, rendezvous: RendezvousBuffers) -> Self {
        Sends {
            shape,
            out,
            rendezvous,
            flying: Slab::new(),
            waiting: VecDeque::new(),
            placed: VecDeque::new(),
            announced: VecDeque::new(),
            asked: Vec::new(),
            next_message: 0,
            next_question: 0,
            sent: 0,
            freed: 0,
            arrived: 0,
            taken: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.flying.len()
    }

    pub(super) fn out(&self) -> &Outgoing {
        &self.out
    }

    /// How far the provider is, while it has something to do.
    pub(super) fn transfers_mark(&self) -> Option<u64> {
        let busy = !self.out.is_empty() || self.out.is_blocked();
        busy.then_some(self.out.moves())
    }

    /// How far the peer is with the oldest message, or at least with its buffers, and with the oldest question. What it
    /// does for later ones says nothing: of frames that went by a connection that broke since, nobody tells.
    pub(super) fn awaited(&self) -> [Option<Awaited>; 2] {
        let message = self.announced.front().map(|(id, at)| {
            let last = self.flying.get(*at).and_then(|flying| flying.handed).unwrap_or(u64::MAX);
            Awaited { mark: id + self.freed.min(last), at: Some(*at) }
        });
        let buffers = (!self.has_credit()).then_some(Awaited { mark: !self.freed, at: None });
        let question = self.asked.first().map(|asked| Awaited {
            mark: asked.id + self.freed.min(asked.frame),
            at: Some(asked.at),
        });
        [message.or(buffers), question]
    }

    /// Whether everything that was sent has come to the peer's buffers.
    pub(super) fn all_arrived(&self) -> bool {
        self.arrived == self.sent
    }

    /// What the peer has yet to say something about, the oldest first, or else whatever is the oldest.
    pub(super) fn oldest(&self) -> Option<u32> {
        let announced = self.announced.front().map(|(_, at)| *at);
        let asked = self.asked.first().map(|question| question.at);
        let with_provider = || {
            self.out.find(|used| match used {
                Use::Transfer { at, .. } | Use::Frame(at) => Some(*at),
                Use::Free | Use::Fetch { .. } | Use::Own => None,
            })
        };
        announced.or(asked).or_else(with_provider).or_else(|| self.waiting.front().copied())
    }

    /// Takes an operation; it goes with the next [`Sends::push`].
    #[inline]
    pub(super) fn begin(&mut self, op: Op) {
        let begun = self.taken.is_multiple_of(SAMPLE).then(Instant::now);
        self.taken += 1;
        let flying = Flying {
            awaits: op.work.takes_a_receive(),
            op,
            cut: Cut::default(),
            parts: 0,
            questions: 0,
            handed: None,
            message: None,
            placed: false,
            begun,
        };
        self.waiting.push_back(self.flying.insert(flying));
    }

    /// Sends something that belongs to no operation and needs no buffer; `false`: not now.
    pub(super) fn send_own(&mut self, frame: Frame, endpoint: &Endpoint) -> Result<bool, Errno> {
        self.out.send(frame, 0, Use::Own, endpoint)
    }

    /// As [`Sends::send_own`], with bytes behind it, which fit.
    pub(super) fn send_own_with(
        &mut self,
        frame: Frame,
        bytes: &Slice,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        self.out.copy(0, bytes, 0, bytes.len());
        self.out.send(frame, bytes.len(), Use::Own, endpoint)
    }

    /// How many bytes a frame carries, and whether peers may ask for them.
    pub(super) fn answers_with(&self) -> Option<u64> {
        self.shape.asks.then_some(self.shape.payload.into())
    }

    /// Whether the peer has a buffer for another frame.
    #[inline]
    fn has_credit(&self) -> bool {
        self.sent - self.freed < self.shape.buffers
    }

    /// The provider is done with a context; says whom it worked for.
    #[inline]
    pub(super) fn complete(&mut self, context: usize) -> Use {
        self.out.complete(context)
    }

    /// A part of an operation is over, and well.
    #[inline]
    pub(super) fn succeed(&mut self, at: u32, over: &mut Over<'_>) {
        let Some(flying) = self.flying.get_mut(at) else { return };
        flying.parts -= 1;
        self.finish(at, over);
    }

    /// Gives an operation back if nothing is left to be done for it; if immediate data is left, that follows.
    #[inline]
    fn finish(&mut self, at: u32, over: &mut Over<'_>) {
        let Some(flying) = self.flying.get_mut(at) else { return };
        if flying.parts > 0 || flying.questions > 0 || flying.handed.is_none() {
            return;
        }
        if flying.awaits {
            if matches!(flying.op.work, Work::Write { .. }) && !flying.placed {
                flying.placed = true;
                self.placed.push_back(at);
            }
            return;
        }
        let Some(Flying { op, begun, .. }) = self.flying.remove(at) else { return };
        if let Some(begun) = begun {
            over.stats.time(begun.elapsed());
        }
        let done = match &op.work {
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => {
                Done::Old(old.region().memory().load(old.offset()))
            }
            _ => Done::Placed,
        };
        over.add(op, Ok(done));
    }

    /// Frames from now on report this to the peer.
    #[inline]
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.out.set_progress(progress);
    }

    /// The peer reports how far it is.
    #[inline]
    pub(super) fn peer_progress(
        &mut self,
        progress: Progress,
        over: &mut Over<'_>,
    ) -> Result<(), Failure> {
        let Progress { arrived, freed, received } = progress;
        let possible = freed <= arrived && arrived <= self.sent && received <= self.next_message;
        if !possible {
            return Err(Failure::ProtocolError);
        }
        // An older word may come after a newer one.
        self.arrived = self.arrived.max(arrived);
        self.freed = self.freed.max(freed);
        while let Some((id, at)) = self.announced.front().copied()
            && id < received
        {
            // The last part of it went there, or the peer could not have received it.
            let flying = self.flying.get_mut(at).filter(|flying| flying.handed.is_some());
            flying.ok_or(Failure::ProtocolError)?.awaits = false;
            self.announced.pop_front();
            self.rendezvous.clear(id);
            self.finish(at, over);
        }
        Ok(())
    }

    /// The peer has read a part of a long message. That it received all of it may have come before.
    pub(super) fn taken(&mut self, id: u64, offset: u64) -> Result<(), Failure> {
        self.rendezvous.take(id, offset);
        if id < self.next_message { Ok(()) } else { Err(Failure::ProtocolError) }
    }

    /// Has the provider read a part of a message of the peer's into its receive; how many bytes of it now.
    #[inline]
    pub(super) fn fetch(
        &mut self,
        (at, fetch): (u32, &Fetch),
        into: &[Slice],
        endpoint: &Endpoint,
    ) -> Result<Option<usize>, Errno> {
        if self.out.is_full() {
            return Ok(None);
        }
        let most = Most { bytes: self.shape.transfer, pieces: self.shape.pieces - 1 };
        let next = fetch.next(into, most, self.shape.domain);
        let (pieces, from) = next.ok_or(Errno(libc::EFAULT))?;
        let (bytes, used) = (pieces.total(), |reads| Use::Fetch { at, reads });
        let begun = self.out.transfer(pieces, from, Direction::Read, used, endpoint)?;
        Ok(begun.then_some(bytes))
    }

    /// The peer answers a question with a number. The error is the operation that it refuses, or invalid data.
    pub(super) fn answer(
        &mut self,
        id: u64,
        old: Option<u64>,
        over: &mut Over<'_>,
    ) -> Result<(), Option<u32>> {
        let Question { at, .. } = self.take_question(id).ok_or(None)?;
        let old = old.ok_or(Some(at))?;
        let flying = self.flying.get_mut(at).ok_or(None)?;
        match &flying.op.work {
            Work::FetchAdd { old: place, .. } | Work::CompareSwap { old: place, .. } => {
                place.region().memory().store(place.offset(), old);
            }
            Work::Write { .. } => {}
            _ => return Err(None),
        }
        flying.questions -= 1;
        self.finish(at, over);
        Ok(())
    }

    /// The peer answers a question with bytes, so many from `at` on.
    pub(super) fn data(
        &mut self,
        id: u64,
        (memory, at): (&Memory, usize),
        length: u64,
        over: &mut Over<'_>,
    ) -> Result<(), Failure> {
        let question = self.take_question(id).ok_or(Failure::ProtocolError)?;
        let flying = self.flying.get_mut(question.at).ok_or(Failure::ProtocolError)?;
        let Work::Read { into, .. } = &flying.op.work else { return Err(Failure::ProtocolError) };
        if question.length as u64 != length {
            return Err(Failure::ProtocolError);
        }
        scatter(into.as_slice(), question.offset, question.length, memory, at);
        flying.questions -= 1;
        self.finish(question.at, over);
        Ok(())
    }

    fn take_question(&mut self, id: u64) -> Option<Question> {
        let index = self.asked.iter().position(|asked| asked.id == id)?;
        // In order, so that the oldest stays the first.
        Some(self.asked.remove(index))
    }

    /// The operation that a message numbered so belongs to.
    pub(super) fn message(&self, id: u64) -> Option<u32> {
        self.announced.iter().find(|announced| announced.0 == id).map(|announced| announced.1)
    }

    /// The key that an operation uses.
    pub(super) fn key(&self, at: u32) -> Option<u64> {
        self.flying.get(at)?.op.work.target().and_then(key).map(|(key, _)| key)
    }

    /// The endpoint is closed: everything comes back, one of them by its own fault; says whether there was one.
    pub(super) fn abandon(&mut self, fault: Option<(u32, Failure)>, over: &mut Over<'_>) -> bool {
        let failed = fault.and_then(|(at, failure)| Some((self.flying.remove(at)?, failure)));
        let found = failed.is_some();
        if let Some((flying, failure)) = failed {
            over.add(flying.op, Err(failure));
        }
        for flying in self.flying.take_all() {
            over.add(flying.op, Err(Failure::Flushed));
        }
        self.waiting.clear();
        self.placed.clear();
        self.announced.clear();
        self.asked.clear();
        self.out.abandon();
        found
    }
}

/// The key and the offset in the peer's region.
fn key(target: &Target) -> Option<(u64, u64)> {
    match target.window.reach() {
        Reach::Ofi { key, .. } => Some((*key, target.offset)),
        _ => None,
    }
}

/// How many questions may be open: answers find spare buffers here.
const QUESTIONS: usize = 12;
