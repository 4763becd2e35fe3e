//! The send side of a lane: operations under way, in the order in which they were posted.
//!
//! A transfer is over when the provider says so; what the peer receives or executes, when the peer says so.
//!
//! Unsafe here: a provider is given memory of the operation it works for, which stays in `flying`, and headers
//! and contexts that `Sends` holds. They go when the provider is done, or after the lane closed the endpoint.
#![allow(unsafe_code, reason = "posts operations")]

use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use rdma_sys::Errno;

use super::contexts::Contexts;
use super::device::Device;
use super::endpoint::{Direction, Endpoint, Remote};
use super::frame::{Change, Frame};
use super::gather::Gather;
use super::mr::{Mr, desc};
use crate::cut::{Cut, Most};
use crate::error::Error;
use crate::memory::{Memory, Pages};
use crate::op::{Done, Failure, Op, Work};
use crate::over::Over;
use crate::region::Rights;
use crate::remote::{Reach, Target};
use crate::slab::Slab;
use crate::stats::SAMPLE;

pub(super) struct Sends {
    shape: Shape,
    flying: Slab<Flying>,
    /// Not wholly with the provider yet, the oldest first.
    waiting: VecDeque<u32>,
    /// Placed writes, whose numbers are to be told.
    placed: VecDeque<u32>,
    /// Told to the peer, and to be received by it, in the order of their numbers.
    told: VecDeque<(u64, u32)>,
    /// Asked of the peer.
    asked: Vec<(u64, u32)>,
    /// Headers of frames, one for each context.
    headers: Mr,
    contexts: Contexts,
    /// What each context is used for.
    uses: Vec<Use>,
    free: Vec<u32>,
    next_message: u64,
    next_question: u64,
    /// Frames sent that take a buffer, and how many buffers the peer has freed.
    sent: u64,
    freed: u64,
    /// How many of these frames have come to the peer.
    arrived: u64,
    /// Counts what the provider and the peer said: while these stand still, nothing goes on.
    pub(super) moves: u64,
    pub(super) words: u64,
    /// The provider takes no more at the moment.
    pub(super) blocked: bool,
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
    /// How many pieces either may have.
    pub(super) pieces: usize,
    /// How many buffers the peer has.
    pub(super) buffers: u64,
    /// How many operations of ours the provider takes.
    pub(super) window: usize,
}

/// An operation under way.
struct Flying {
    op: Op,
    cut: Cut,
    /// How many parts are with the provider.
    parts: u32,
    /// Whether all its parts went there.
    handed: bool,
    /// Whether the peer has yet to say that it is done.
    awaits: bool,
    /// Whether a write's bytes are there, and its number is all that is left.
    placed: bool,
    begun: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    Transfer(u32),
    Frame(u32),
    /// Words of the lane itself.
    Own,
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
    pub(super) fn new(device: &Arc<Device>, shape: Shape) -> Result<Self, Error> {
        let memory = Memory::allocate(shape.window * Frame::ENCODED, Pages::Plain)?;
        Ok(Sends {
            headers: Mr::new(device.clone(), &memory, Rights::NONE)?,
            contexts: Contexts::new(shape.window),
            uses: vec![Use::Free; shape.window],
            free: (0..shape.window as u32).rev().collect(),
            shape,
            flying: Slab::new(),
            waiting: VecDeque::new(),
            placed: VecDeque::new(),
            told: VecDeque::new(),
            asked: Vec::new(),
            next_message: 0,
            next_question: 0,
            sent: 0,
            freed: 0,
            arrived: 0,
            moves: 0,
            words: 0,
            blocked: false,
            taken: 0,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.flying.len()
    }

    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// How far the provider is, while it has something to do.
    pub(super) fn transfers_mark(&self) -> Option<u64> {
        let busy = self.free.len() < self.uses.len() || (self.blocked && self.has_credit());
        busy.then_some(self.moves)
    }

    /// How far the peer is, while it has something to say.
    pub(super) fn words_mark(&self) -> Option<u64> {
        let busy = !self.told.is_empty() || !self.asked.is_empty() || !self.has_credit();
        busy.then_some(self.words)
    }

    /// Whether everything that was sent has come to the peer's buffers.
    pub(super) fn all_arrived(&self) -> bool {
        self.arrived == self.sent
    }

    /// What the peer has yet to say something about, the oldest first, or else whatever is the oldest.
    pub(super) fn oldest(&self) -> Option<u32> {
        let told = self.told.front().map(|(_, at)| *at);
        let transfer = self.uses.iter().find_map(|used| match used {
            Use::Transfer(at) | Use::Frame(at) => Some(*at),
            Use::Free | Use::Own => None,
        });
        let asked = self.asked.first().map(|(_, at)| *at);
        told.or(asked).or(transfer).or_else(|| self.waiting.front().copied())
    }

    /// Takes an operation; it goes with the next [`Sends::push`].
    #[inline]
    pub(super) fn begin(&mut self, op: Op) {
        let begun = self.taken.is_multiple_of(SAMPLE).then(Instant::now);
        self.taken += 1;
        let awaits = !matches!(op.work, Work::Write { imm: None, .. } | Work::Read { .. });
        let (cut, parts) = (Cut::default(), 0);
        let flying = Flying { op, cut, parts, handed: false, awaits, placed: false, begun };
        let at = self.flying.insert(flying);
        self.waiting.push_back(at);
    }

    /// Gives the provider what it takes, in order; numbers of placed writes first.
    #[inline]
    pub(super) fn push(&mut self, endpoint: &Endpoint, over: &mut Over<'_>) -> Result<(), Errno> {
        self.blocked = false;
        while let Some(at) = self.placed.front().copied() {
            match self.hand_number(at, endpoint)? {
                Handed::Blocked => return Ok(()),
                Handed::Whole | Handed::Part => self.placed.pop_front(),
            };
        }
        while let Some(at) = self.waiting.front().copied() {
            match self.hand(at, endpoint)? {
                Handed::Blocked => return Ok(()),
                Handed::Part => {}
                Handed::Whole => {
                    self.waiting.pop_front();
                    self.finish(at, over);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn hand(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if self.free.len() <= RESERVED {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        match flying.op.work {
            Work::Write { .. } => self.hand_transfer(at, Direction::Write, endpoint),
            Work::Read { .. } => self.hand_transfer(at, Direction::Read, endpoint),
            Work::Send { .. } | Work::Receive { .. } => self.hand_message(at, endpoint),
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => self.hand_change(at, endpoint),
        }
    }

    #[inline]
    fn hand_transfer(
        &mut self,
        at: u32,
        direction: Direction,
        endpoint: &Endpoint,
    ) -> Result<Handed, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(Handed::Blocked) };
        let Some(flying) = self.flying.get_mut(at) else { return Ok(Handed::Whole) };
        let (mut cut, mut gather, domain) = (flying.cut, Gather::new(), self.shape.domain);
        let most = Most { bytes: self.shape.transfer, pieces: self.shape.pieces };
        let part = cut.next(flying.op.work.local(), most, |slice, from, length| {
            let place = slice.address().wrapping_add(from);
            // Detached since it was posted: a provider that asks for a descriptor refuses.
            let desc = desc(slice.region(), domain).unwrap_or(null_mut());
            gather.add(place, length as usize, desc);
        });
        if part.pieces == 0 {
            flying.handed = true;
            return Ok(Handed::Whole);
        }
        let Some(remote) = flying.op.work.target().and_then(|to| remote(to, part.offset)) else {
            return Err(Errno(libc::EINVAL));
        };
        let note = self.contexts.at(context as usize);
        // SAFETY: the pieces belong to the operation, which stays in `flying`, and the context to `Sends`,
        // until the provider is done or the lane has closed the endpoint.
        let posted = unsafe { endpoint.transfer(&mut gather, remote, direction, note) };
        if !self.is_posted(posted, context, Use::Transfer(at))? {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get_mut(at) else { return Ok(Handed::Whole) };
        (flying.cut, flying.handed, flying.parts) = (cut, part.last, flying.parts + 1);
        Ok(if part.last { Handed::Whole } else { Handed::Part })
    }

    #[inline]
    fn hand_message(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if !self.has_credit() {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let (mut cut, mut gather, domain) = (flying.cut, Gather::new(), self.shape.domain);
        let (is_first, id) = match self.told.back() {
            Some((id, last)) if *last == at => (false, *id),
            _ => (true, self.next_message),
        };
        let most = Most { bytes: self.shape.payload, pieces: self.shape.pieces - 1 };
        // The header goes first, and is known last.
        let mut pieces = [(null_mut(), 0, null_mut()); Gather::MOST];
        let mut count = 0;
        let part = cut.next(flying.op.work.local(), most, |slice, from, length| {
            let desc = desc(slice.region(), domain).unwrap_or(null_mut());
            pieces[count] = (slice.address().wrapping_add(from), length as usize, desc);
            count += 1;
        });
        let imm = match flying.op.work {
            Work::Send { imm, .. } => imm,
            _ => None,
        };
        let total = flying.op.work.total() as u64;
        let frame = Frame::Message { id, total, offset: part.offset as u64, imm };
        let Some(context) = self.header(frame, &mut gather) else { return Ok(Handed::Blocked) };
        for (place, length, desc) in &pieces[..count] {
            gather.add(*place, *length, *desc);
        }
        if !self.send(&mut gather, context, Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        if is_first {
            self.next_message += 1;
            self.told.push_back((id, at));
        }
        let Some(flying) = self.flying.get_mut(at) else { return Ok(Handed::Whole) };
        (flying.cut, flying.handed, flying.parts) = (cut, part.last, flying.parts + 1);
        Ok(if part.last { Handed::Whole } else { Handed::Part })
    }

    fn hand_number(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if self.free.len() <= RESERVED {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let Work::Write { imm: Some(imm), .. } = flying.op.work else { return Ok(Handed::Whole) };
        let (id, length) = (self.next_message, flying.op.work.total() as u64);
        let handed = self.hand_frame(at, Frame::Number { id, length, imm }, endpoint)?;
        if handed == Handed::Whole {
            self.next_message += 1;
            self.told.push_back((id, at));
        }
        Ok(handed)
    }

    fn hand_change(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let change = match flying.op.work {
            Work::FetchAdd { add, .. } => Change::Add(add),
            Work::CompareSwap { expect, new, .. } => Change::Swap { expect, new },
            _ => return Ok(Handed::Whole),
        };
        let Some((key, offset)) = flying.op.work.target().and_then(key) else {
            return Err(Errno(libc::EINVAL));
        };
        let id = self.next_question;
        let handed = self.hand_frame(at, Frame::Change { id, key, offset, change }, endpoint)?;
        if handed == Handed::Whole {
            self.next_question += 1;
            self.asked.push((id, at));
        }
        Ok(handed)
    }

    /// Sends a frame that an operation consists of.
    fn hand_frame(&mut self, at: u32, frame: Frame, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if !self.has_credit() {
            return Ok(Handed::Blocked);
        }
        let mut gather = Gather::new();
        let Some(context) = self.header(frame, &mut gather) else { return Ok(Handed::Blocked) };
        if !self.send(&mut gather, context, Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        if let Some(flying) = self.flying.get_mut(at) {
            (flying.handed, flying.parts) = (true, flying.parts + 1);
        }
        Ok(Handed::Whole)
    }

    /// Says something that belongs to no operation and needs no buffer; `false`: not now. `Err`: never.
    pub(super) fn say(&mut self, frame: Frame, endpoint: &Endpoint) -> Result<bool, Errno> {
        let mut gather = Gather::new();
        let Some(context) = self.header(frame, &mut gather) else { return Ok(false) };
        self.send(&mut gather, context, Use::Own, endpoint)
    }

    /// Whether something was said that the provider still has.
    pub(super) fn is_saying(&self) -> bool {
        self.uses.contains(&Use::Own)
    }

    /// Writes a frame's header for the next free context.
    fn header(&mut self, frame: Frame, gather: &mut Gather) -> Option<u32> {
        let context = *self.free.last()?;
        let at = context as usize * Frame::ENCODED;
        self.headers.memory().write(at, &frame.to_bytes());
        let place = self.headers.memory().address().wrapping_add(at);
        gather.add(place, Frame::ENCODED, self.headers.desc());
        Some(context)
    }

    #[inline]
    fn send(
        &mut self,
        gather: &mut Gather,
        context: u32,
        used: Use,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let note = self.contexts.at(context as usize);
        // SAFETY: the header and the context belong to `Sends`, other pieces to an operation in `flying`: they
        // stay until the provider is done or the lane has closed the endpoint.
        let posted = unsafe { endpoint.send(gather, note) };
        self.is_posted(posted, context, used)
    }

    /// Notes what the provider took; `false`: it is full.
    #[inline]
    fn is_posted(
        &mut self,
        posted: Result<(), Errno>,
        context: u32,
        used: Use,
    ) -> Result<bool, Errno> {
        match posted {
            Ok(()) => {
                self.free.pop();
                self.uses[context as usize] = used;
                self.moves += 1;
                Ok(true)
            }
            Err(Errno(libc::EAGAIN)) => {
                self.blocked = true;
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Whether the peer has a buffer for another frame.
    #[inline]
    fn has_credit(&self) -> bool {
        self.sent - self.freed < self.shape.buffers
    }

    /// The provider is done with a context. Says which operation it was a transfer of, or `None`.
    #[inline]
    pub(super) fn complete(&mut self, context: usize) -> Option<Part> {
        let used = std::mem::replace(self.uses.get_mut(context)?, Use::Free);
        if used != Use::Free {
            self.free.push(context as u32);
            self.moves += 1;
        }
        match used {
            Use::Transfer(at) => Some(Part { at, is_transfer: true }),
            Use::Frame(at) => Some(Part { at, is_transfer: false }),
            Use::Free | Use::Own => None,
        }
    }

    /// A part of an operation is over, and well.
    #[inline]
    pub(super) fn succeed(&mut self, part: Part, over: &mut Over<'_>) {
        let Some(flying) = self.flying.get_mut(part.at) else { return };
        flying.parts -= 1;
        self.finish(part.at, over);
    }

    /// Gives an operation back if nothing is left to be done for it; if it is a number that is left, that follows.
    #[inline]
    fn finish(&mut self, at: u32, over: &mut Over<'_>) {
        let Some(flying) = self.flying.get_mut(at) else { return };
        if flying.parts > 0 || !flying.handed {
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

    /// The peer says how far it is.
    pub(super) fn hear(
        &mut self,
        arrived: u64,
        freed: u64,
        received: u64,
        over: &mut Over<'_>,
    ) -> Result<(), Failure> {
        let possible = freed <= arrived && arrived <= self.sent && received <= self.next_message;
        if !possible {
            return Err(Failure::Nonsense);
        }
        if freed > self.freed || received > self.told.front().map_or(u64::MAX, |told| told.0) {
            self.words += 1;
        }
        // An older word may come after a newer one.
        self.arrived = self.arrived.max(arrived);
        self.freed = self.freed.max(freed);
        while let Some((id, at)) = self.told.front().copied()
            && id < received
        {
            // The last part of it went there, or the peer could not have received it.
            let flying = self.flying.get_mut(at).filter(|flying| flying.handed);
            flying.ok_or(Failure::Nonsense)?.awaits = false;
            self.told.pop_front();
            self.finish(at, over);
        }
        Ok(())
    }

    /// The peer answers a question. The error is the operation that it refuses, or nonsense.
    pub(super) fn answer(
        &mut self,
        id: u64,
        old: Option<u64>,
        over: &mut Over<'_>,
    ) -> Result<(), Option<u32>> {
        let index = self.asked.iter().position(|asked| asked.0 == id).ok_or(None)?;
        let (_, at) = self.asked.swap_remove(index);
        self.words += 1;
        let old = old.ok_or(Some(at))?;
        let flying = self.flying.get_mut(at).ok_or(None)?;
        flying.awaits = false;
        if let Work::FetchAdd { old: place, .. } | Work::CompareSwap { old: place, .. } =
            &flying.op.work
        {
            place.region().memory().store(place.offset(), old);
        }
        self.finish(at, over);
        Ok(())
    }

    /// The operation that a message numbered so belongs to.
    pub(super) fn message(&self, id: u64) -> Option<u32> {
        self.told.iter().find(|told| told.0 == id).map(|told| told.1)
    }

    /// The key that an operation uses.
    pub(super) fn key(&self, at: u32) -> Option<u64> {
        self.flying.get(at)?.op.work.target().and_then(key).map(|(key, _)| key)
    }

    /// A transfer that is with the provider.
    pub(super) fn transfer(&self) -> Option<u32> {
        self.uses.iter().find_map(|used| match used {
            Use::Transfer(at) => Some(*at),
            _ => None,
        })
    }

    /// The endpoint is closed: everything comes back, one of them by its own fault.
    pub(super) fn abandon(&mut self, fault: Option<(u32, Failure)>, over: &mut Over<'_>) {
        if let Some((at, failure)) = fault
            && let Some(flying) = self.flying.remove(at)
        {
            over.add(flying.op, Err(failure));
        }
        for flying in self.flying.take_all() {
            over.add(flying.op, Err(Failure::Flushed));
        }
        (self.waiting.clear(), self.placed.clear(), self.told.clear(), self.asked.clear());
        self.uses.fill(Use::Free);
        self.free = (0..self.uses.len() as u32).collect();
    }
}

/// Contexts that operations leave for the lane's own words.
const RESERVED: usize = 2;

/// A part of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) at: u32,
    pub(super) is_transfer: bool,
}

/// Where a part of a transfer goes.
#[inline]
fn remote(target: &Target, offset: usize) -> Option<Remote> {
    match target.window.reach() {
        Reach::Ofi { address, key } => {
            let address = address.wrapping_add(target.offset).wrapping_add(offset as u64);
            Some(Remote { address, key: *key })
        }
        _ => None,
    }
}

/// The key and the offset in the peer's region.
fn key(target: &Target) -> Option<(u64, u64)> {
    match target.window.reach() {
        Reach::Ofi { key, .. } => Some((*key, target.offset)),
        _ => None,
    }
}
