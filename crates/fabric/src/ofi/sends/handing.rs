//! Giving the provider what waits: transfers and frames.

use rdma_sys::Errno;

use super::{Flying, Handed, QUESTIONS, Question, Sends, Shape, key};
use crate::cut::{Cut, Most};
use crate::ofi::endpoint::{Direction, Endpoint, Remote};
use crate::ofi::frame::{Change, Frame, PART};
use crate::ofi::gather::Gather;
use crate::ofi::outgoing::Use;
use crate::ofi::shelf::Laid;
use crate::op::Work;
use crate::over::Over;
use crate::remote::{Reach, Target};

impl Sends {
    /// Gives the provider what it takes, in order; numbers of placed writes first.
    #[inline]
    pub(in crate::ofi) fn push(
        &mut self,
        endpoint: &Endpoint,
        over: &mut Over<'_>,
    ) -> Result<(), Errno> {
        self.out.unblock();
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
        if self.out.is_full() {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        match (&flying.op.work, self.shape.asks) {
            (Work::Write { .. }, false) => self.hand_transfer(at, Direction::Write, endpoint),
            (Work::Read { .. }, false) => self.hand_transfer(at, Direction::Read, endpoint),
            (Work::Send { .. } | Work::Receive { .. }, _) => self.hand_message(at, endpoint),
            _ => self.hand_question(at, endpoint),
        }
    }

    #[inline]
    fn hand_transfer(
        &mut self,
        at: u32,
        direction: Direction,
        endpoint: &Endpoint,
    ) -> Result<Handed, Errno> {
        let Some(flying) = self.flying.get_mut(at) else { return Ok(Handed::Whole) };
        let (mut cut, mut pieces, mut whole) = (flying.cut, Gather::new(), true);
        let Shape { domain, transfer, .. } = self.shape;
        let most = Most { bytes: transfer, pieces: self.shape.pieces - 1 };
        let part = cut.next(flying.op.work.local(), most, |slice, from, length| {
            whole &= pieces.add(slice, from, length as usize, domain);
        });
        if !whole {
            return Err(DETACHED);
        }
        if part.pieces == 0 {
            flying.handed = Some(self.sent);
            return Ok(Handed::Whole);
        }
        let Some(remote) = flying.op.work.target().and_then(|to| remote(to, part.offset)) else {
            return Err(Errno(libc::EINVAL));
        };
        let used = |reads| Use::Transfer { at, reads };
        if !self.out.transfer(pieces, remote, direction, used, endpoint)? {
            return Ok(Handed::Blocked);
        }
        Ok(self.handed(at, cut, part.last))
    }

    #[inline]
    fn hand_message(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if !self.has_credit() {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let id = flying.message.unwrap_or(self.next_message);
        let imm = match flying.op.work {
            Work::Send { imm, .. } => imm,
            _ => None,
        };
        let total = flying.op.work.total() as u64;
        if total > LONG && !self.shape.asks && self.shelf.is_there() {
            return self.hand_lying(at, (id, total, imm), endpoint);
        }
        let load = self.load(flying, self.shape.asks)?;
        let frame = Frame::Message { id, total, offset: load.offset as u64, imm };
        if !self.out.send(frame, load.copied, load.pieces, Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.number(at, id);
        Ok(self.handed(at, load.cut, load.last))
    }

    /// Lays the next part of a long message where the peer can read it, and says so.
    fn hand_lying(
        &mut self,
        at: u32,
        (id, total, imm): (u64, u64, Option<u32>),
        endpoint: &Endpoint,
    ) -> Result<Handed, Errno> {
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let mut cut = flying.cut;
        let laid = Laid { message: id, offset: cut.done() as u64 };
        let bytes = (total - laid.offset).min(PART as u64) as usize;
        let Some((place, from)) = self.shelf.free(bytes) else { return Ok(Handed::Blocked) };
        let last = self.shelf.copy(place, laid, &mut cut, flying.op.work.local());
        let frame = Frame::Lying { id, total, offset: laid.offset, imm, from };
        if !self.out.send(frame, 0, Gather::new(), Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.shelf.lay(place, bytes, laid);
        self.number(at, id);
        Ok(self.handed(at, cut, last))
    }

    /// An operation is the peer's message numbered so, from its first frame on.
    #[inline]
    fn number(&mut self, at: u32, id: u64) {
        if id == self.next_message {
            self.next_message += 1;
            self.told.push_back((id, at));
        }
        if let Some(flying) = self.flying.get_mut(at) {
            flying.message = Some(id);
        }
    }

    /// The next bytes of an operation that go with a frame: as they lie, or copied.
    #[inline]
    fn load(&self, flying: &Flying, copies: bool) -> Result<Load, Errno> {
        let (mut cut, mut pieces, mut copied) = (flying.cut, Gather::new(), 0);
        let mut whole = true;
        let Shape { domain, payload, .. } = self.shape;
        let most = Most { bytes: payload, pieces: self.shape.pieces - 1 };
        let part = cut.next(flying.op.work.local(), most, |slice, from, length| {
            let length = length as usize;
            if copies {
                self.out.copy(copied, slice, from, length);
                copied += length;
            } else {
                whole &= pieces.add(slice, from, length, domain);
            }
        });
        let load = Load { cut, pieces, copied, offset: part.offset, last: part.last };
        if whole { Ok(load) } else { Err(DETACHED) }
    }

    fn hand_number(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if self.out.is_full() || !self.has_credit() {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let Work::Write { imm: Some(imm), .. } = flying.op.work else { return Ok(Handed::Whole) };
        let (id, length, cut) = (self.next_message, flying.op.work.total() as u64, flying.cut);
        let frame = Frame::Number { id, length, imm };
        if !self.out.send(frame, 0, Gather::new(), Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.number(at, id);
        Ok(self.handed(at, cut, true))
    }

    /// Asks the peer to do something itself: to change a number, or to write or read a part.
    fn hand_question(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if !self.has_credit() || self.asked.len() >= QUESTIONS {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let Some((key, offset)) = flying.op.work.target().and_then(key) else {
            return Err(Errno(libc::EINVAL));
        };
        let load = self.load(flying, matches!(flying.op.work, Work::Write { .. }))?;
        let length = load.cut.done() - load.offset;
        let (id, offset_there) = (self.next_question, offset.wrapping_add(load.offset as u64));
        let (frame, copied) = match flying.op.work {
            Work::FetchAdd { add, .. } => {
                (Frame::Change { id, key, offset, change: Change::Add(add) }, 0)
            }
            Work::CompareSwap { expect, new, .. } => {
                (Frame::Change { id, key, offset, change: Change::Swap { expect, new } }, 0)
            }
            Work::Read { .. } => {
                (Frame::Get { id, key, offset: offset_there, length: length as u64 }, 0)
            }
            _ => (Frame::Put { id, key, offset: offset_there }, load.copied),
        };
        if !self.out.send(frame, copied, Gather::new(), Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.next_question += 1;
        self.asked.push(Question { id, frame: self.sent, at, offset: load.offset, length });
        if let Some(flying) = self.flying.get_mut(at) {
            flying.questions += 1;
        }
        Ok(self.handed(at, load.cut, load.last))
    }

    /// Notes that a part of an operation went to the provider.
    #[inline]
    fn handed(&mut self, at: u32, cut: Cut, last: bool) -> Handed {
        if let Some(flying) = self.flying.get_mut(at) {
            (flying.cut, flying.parts) = (cut, flying.parts + 1);
            flying.handed = last.then_some(self.sent);
        }
        if last { Handed::Whole } else { Handed::Part }
    }
}

/// Bytes that go with a frame, and how far the operation is cut then.
struct Load {
    cut: Cut,
    pieces: Gather,
    copied: usize,
    offset: usize,
    last: bool,
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

/// Longer messages lie with their sender until they are read.
const LONG: u64 = 32 << 10;
/// A region was detached while an operation with it waited.
const DETACHED: Errno = Errno(libc::EFAULT);
