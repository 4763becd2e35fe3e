//! Giving the provider what waits: transfers and frames.

use rdma_sys::Errno;

use super::{Flying, Handed, QUESTIONS, Question, Sends, Shape, key};
use crate::cut::{Cut, Most, Part};
use crate::ofi::endpoint::{Direction, Endpoint, Remote};
use crate::ofi::frame::{Change, Frame, PART};
use crate::ofi::gather::Gather;
use crate::ofi::outgoing::Use;
use crate::ofi::rendezvous::Laid;
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
        if total > LONG && !self.shape.asks && self.rendezvous.is_there() {
            return self.hand_lying(at, (id, total, imm), endpoint);
        }
        let frame = |part: &Part| Frame::Message { id, total, offset: part.offset as u64, imm };
        let (sent, cut, part) = if self.shape.asks || total <= SHORT as u64 {
            let (cut, part) = self.copy(flying);
            let copied = cut.done() - part.offset;
            (self.out.send(frame(&part), copied, Use::Frame(at), endpoint)?, cut, part)
        } else {
            let (cut, part, pieces) = self.gather(flying)?;
            (self.out.send_pieces(frame(&part), pieces, Use::Frame(at), endpoint)?, cut, part)
        };
        if !sent {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.number(at, id);
        Ok(self.handed(at, cut, part.last))
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
        let Some((place, from)) = self.rendezvous.free(bytes) else { return Ok(Handed::Blocked) };
        let last = self.rendezvous.copy(place, laid, &mut cut, flying.op.work.local());
        let frame = Frame::Lying { id, total, offset: laid.offset, imm, from };
        if !self.out.send(frame, 0, Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.rendezvous.lay(place, bytes, laid);
        self.number(at, id);
        Ok(self.handed(at, cut, last))
    }

    /// An operation is the peer's message numbered so, from its first frame on.
    #[inline]
    fn number(&mut self, at: u32, id: u64) {
        if id == self.next_message {
            self.next_message += 1;
            self.announced.push_back((id, at));
        }
        if let Some(flying) = self.flying.get_mut(at) {
            flying.message = Some(id);
        }
    }

    /// Copies the next bytes of an operation behind the next frame.
    #[inline]
    fn copy(&self, flying: &Flying) -> (Cut, Part) {
        let (mut cut, mut copied) = (flying.cut, 0);
        let most = Most { pieces: usize::MAX, ..self.most() };
        let part = cut.next(flying.op.work.local(), most, |slice, from, length| {
            self.out.copy(copied, slice, from, length as usize);
            copied += length as usize;
        });
        (cut, part)
    }

    /// The next bytes of an operation that go with a frame, as they lie.
    #[inline]
    fn gather(&self, flying: &Flying) -> Result<(Cut, Part, Gather), Errno> {
        let (mut cut, mut pieces, mut whole) = (flying.cut, Gather::new(), true);
        let part = cut.next(flying.op.work.local(), self.most(), |slice, from, length| {
            whole &= pieces.add(slice, from, length as usize, self.shape.domain);
        });
        if whole { Ok((cut, part, pieces)) } else { Err(DETACHED) }
    }

    /// What goes with a frame at most, in pieces that are not copied.
    #[inline]
    fn most(&self) -> Most {
        Most { bytes: self.shape.payload, pieces: self.shape.pieces - 1 }
    }

    fn hand_number(&mut self, at: u32, endpoint: &Endpoint) -> Result<Handed, Errno> {
        if self.out.is_full() || !self.has_credit() {
            return Ok(Handed::Blocked);
        }
        let Some(flying) = self.flying.get(at) else { return Ok(Handed::Whole) };
        let Work::Write { imm: Some(imm), .. } = flying.op.work else { return Ok(Handed::Whole) };
        let (id, length, cut) = (self.next_message, flying.op.work.total() as u64, flying.cut);
        let frame = Frame::Immediate { id, length, imm };
        if !self.out.send(frame, 0, Use::Frame(at), endpoint)? {
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
        let (cut, part) = match flying.op.work {
            Work::Write { .. } => self.copy(flying),
            _ => {
                let mut cut = flying.cut;
                let part = cut.next(flying.op.work.local(), self.most(), |_, _, _| {});
                (cut, part)
            }
        };
        let length = cut.done() - part.offset;
        let (id, offset_there) = (self.next_question, offset.wrapping_add(part.offset as u64));
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
            _ => (Frame::Put { id, key, offset: offset_there }, length),
        };
        if !self.out.send(frame, copied, Use::Frame(at), endpoint)? {
            return Ok(Handed::Blocked);
        }
        self.sent += 1;
        self.next_question += 1;
        self.asked.push(Question { id, frame: self.sent, at, offset: part.offset, length });
        if let Some(flying) = self.flying.get_mut(at) {
            flying.questions += 1;
        }
        Ok(self.handed(at, cut, part.last))
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

/// Messages of no more bytes are copied behind their frame: one piece costs less than two.
pub(in crate::ofi) const SHORT: usize = 256;
/// Longer messages lie with their sender until they are read.
const LONG: u64 = 32 << 10;
/// A region was detached while an operation with it waited.
const DETACHED: Errno = Errno(libc::EFAULT);
