//! Submits waiting operations to the provider, as transfers and frames.

use rdma_sys::Errno;

use super::{LaneLimits, MAX_REQUESTS, PeerRequest, Pending, Sends, Submission, key};
use crate::completion_sink::CompletionSink;
use crate::ofi::endpoint::{Direction, Endpoint, Remote};
use crate::ofi::frame::{AtomicOp, FRAGMENT_BYTES, Frame};
use crate::ofi::gather::Gather;
use crate::ofi::outgoing::ContextUse;
use crate::ofi::rendezvous::FragmentId;
use crate::op::Work;
use crate::remote::{AccessMethod, Target};
use crate::splitter::{Splitter, WorkRequestLimits, WorkRequestRange};

impl Sends {
    /// Submits as much as the provider accepts, in order; immediate data of placed writes first.
    #[inline]
    pub(in crate::ofi) fn push(
        &mut self,
        endpoint: &Endpoint,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), Errno> {
        self.out.unblock();
        while let Some(at) = self.placed.front().copied() {
            match self.submit_immediate(at, endpoint)? {
                Submission::Blocked => return Ok(()),
                Submission::Complete | Submission::Partial => self.placed.pop_front(),
            };
        }
        while let Some(at) = self.waiting.front().copied() {
            match self.submit(at, endpoint)? {
                Submission::Blocked => return Ok(()),
                Submission::Partial => {}
                Submission::Complete => {
                    self.waiting.pop_front();
                    self.finish(at, sink);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn submit(&mut self, at: u32, endpoint: &Endpoint) -> Result<Submission, Errno> {
        if self.out.is_full() {
            return Ok(Submission::Blocked);
        }
        let Some(pending) = self.pending.get(at) else { return Ok(Submission::Complete) };
        match (&pending.op.work, self.limits.emulates_rma) {
            (Work::Write { .. }, false) => self.submit_transfer(at, Direction::Write, endpoint),
            (Work::Read { .. }, false) => self.submit_transfer(at, Direction::Read, endpoint),
            (Work::Send { .. } | Work::Receive { .. }, _) => self.submit_message(at, endpoint),
            _ => self.submit_request(at, endpoint),
        }
    }

    #[inline]
    fn submit_transfer(
        &mut self,
        at: u32,
        direction: Direction,
        endpoint: &Endpoint,
    ) -> Result<Submission, Errno> {
        let Some(pending) = self.pending.get_mut(at) else { return Ok(Submission::Complete) };
        let (mut splitter, mut gather, mut all_registered) =
            (pending.splitter, Gather::new(), true);
        let LaneLimits { domain, transfer, .. } = self.limits;
        let most = WorkRequestLimits { bytes: transfer, sges: self.limits.iov_limit - 1 };
        let range = splitter.next(pending.op.work.local(), most, |slice, from, length| {
            all_registered &= gather.add(slice, from, length as usize, domain);
        });
        if !all_registered {
            return Err(DETACHED);
        }
        if range.sges == 0 {
            pending.submitted_at = Some(self.sent);
            return Ok(Submission::Complete);
        }
        let Some(remote) = pending.op.work.target().and_then(|to| remote(to, range.offset)) else {
            return Err(Errno(libc::EINVAL));
        };
        let used = |reads| ContextUse::Transfer { at, reads };
        if !self.out.transfer(gather, remote, direction, used, endpoint)? {
            return Ok(Submission::Blocked);
        }
        Ok(self.record_range(at, splitter, range.last))
    }

    #[inline]
    fn submit_message(&mut self, at: u32, endpoint: &Endpoint) -> Result<Submission, Errno> {
        if !self.has_credit() {
            return Ok(Submission::Blocked);
        }
        let Some(pending) = self.pending.get(at) else { return Ok(Submission::Complete) };
        let id = pending.message.unwrap_or(self.next_message);
        let imm = match pending.op.work {
            Work::Send { imm, .. } => imm,
            _ => None,
        };
        let total = pending.op.work.total() as u64;
        if total > MAX_EAGER_BYTES && !self.limits.emulates_rma && self.rendezvous.is_available() {
            return self.submit_rendezvous(at, (id, total, imm), endpoint);
        }
        let frame = |range: &WorkRequestRange| Frame::Message {
            id,
            total,
            offset: range.offset as u64,
            imm,
        };
        let (sent, splitter, range) = if self.limits.emulates_rma
            || total <= MAX_COPIED_BYTES as u64
        {
            let (splitter, range) = self.copy(pending);
            let copied = splitter.done() - range.offset;
            (
                self.out.send(frame(&range), copied, ContextUse::Frame(at), endpoint)?,
                splitter,
                range,
            )
        } else {
            let (splitter, range, gather) = self.gather(pending)?;
            (
                self.out.send_gathered(frame(&range), gather, ContextUse::Frame(at), endpoint)?,
                splitter,
                range,
            )
        };
        if !sent {
            return Ok(Submission::Blocked);
        }
        self.sent += 1;
        self.assign_id(at, id);
        Ok(self.record_range(at, splitter, range.last))
    }

    /// Copies the next fragment of a long message to a rendezvous buffer, and sends its address.
    fn submit_rendezvous(
        &mut self,
        at: u32,
        (id, total, imm): (u64, u64, Option<u32>),
        endpoint: &Endpoint,
    ) -> Result<Submission, Errno> {
        let Some(pending) = self.pending.get(at) else { return Ok(Submission::Complete) };
        let mut splitter = pending.splitter;
        let fragment_id = FragmentId { message: id, offset: splitter.done() as u64 };
        let bytes = (total - fragment_id.offset).min(FRAGMENT_BYTES as u64) as usize;
        let Some((block, from)) = self.rendezvous.find_free(bytes) else {
            return Ok(Submission::Blocked);
        };
        let last = self.rendezvous.copy(block, fragment_id, &mut splitter, pending.op.work.local());
        let frame = Frame::Rendezvous { id, total, offset: fragment_id.offset, imm, from };
        if !self.out.send(frame, 0, ContextUse::Frame(at), endpoint)? {
            return Ok(Submission::Blocked);
        }
        self.sent += 1;
        self.rendezvous.occupy(block, bytes, fragment_id);
        self.assign_id(at, id);
        Ok(self.record_range(at, splitter, last))
    }

    /// Assigns the message id to an operation, at its first frame.
    #[inline]
    fn assign_id(&mut self, at: u32, id: u64) {
        if id == self.next_message {
            self.next_message += 1;
            self.announced.push_back((id, at));
        }
        if let Some(pending) = self.pending.get_mut(at) {
            pending.message = Some(id);
        }
    }

    /// Copies the next bytes of an operation after the next frame's header.
    #[inline]
    fn copy(&self, pending: &Pending) -> (Splitter, WorkRequestRange) {
        let (mut splitter, mut copied) = (pending.splitter, 0);
        let most = WorkRequestLimits { sges: usize::MAX, ..self.frame_limit() };
        let range = splitter.next(pending.op.work.local(), most, |slice, from, length| {
            self.out.copy(copied, slice, from, length as usize);
            copied += length as usize;
        });
        (splitter, range)
    }

    /// The next bytes of an operation for a frame, gathered, not copied.
    #[inline]
    fn gather(&self, pending: &Pending) -> Result<(Splitter, WorkRequestRange, Gather), Errno> {
        let (mut splitter, mut gather, mut all_registered) =
            (pending.splitter, Gather::new(), true);
        let range =
            splitter.next(pending.op.work.local(), self.frame_limit(), |slice, from, length| {
                all_registered &= gather.add(slice, from, length as usize, self.limits.domain);
            });
        if all_registered { Ok((splitter, range, gather)) } else { Err(DETACHED) }
    }

    /// The limits of a frame's payload that is gathered.
    #[inline]
    fn frame_limit(&self) -> WorkRequestLimits {
        WorkRequestLimits { bytes: self.limits.payload, sges: self.limits.iov_limit - 1 }
    }

    fn submit_immediate(&mut self, at: u32, endpoint: &Endpoint) -> Result<Submission, Errno> {
        if self.out.is_full() || !self.has_credit() {
            return Ok(Submission::Blocked);
        }
        let Some(pending) = self.pending.get(at) else { return Ok(Submission::Complete) };
        let Work::Write { imm: Some(imm), .. } = pending.op.work else {
            return Ok(Submission::Complete);
        };
        let (id, length, splitter) =
            (self.next_message, pending.op.work.total() as u64, pending.splitter);
        let frame = Frame::Immediate { id, length, imm };
        if !self.out.send(frame, 0, ContextUse::Frame(at), endpoint)? {
            return Ok(Submission::Blocked);
        }
        self.sent += 1;
        self.assign_id(at, id);
        Ok(self.record_range(at, splitter, true))
    }

    /// Sends a request to the peer: an atomic operation, or to write or read a range.
    fn submit_request(&mut self, at: u32, endpoint: &Endpoint) -> Result<Submission, Errno> {
        if !self.has_credit() || self.requests.len() >= MAX_REQUESTS {
            return Ok(Submission::Blocked);
        }
        let Some(pending) = self.pending.get(at) else { return Ok(Submission::Complete) };
        let Some((key, offset)) = pending.op.work.target().and_then(key) else {
            return Err(Errno(libc::EINVAL));
        };
        let (splitter, range) = match pending.op.work {
            Work::Write { .. } => self.copy(pending),
            _ => {
                let mut splitter = pending.splitter;
                let range =
                    splitter.next(pending.op.work.local(), self.frame_limit(), |_, _, _| {});
                (splitter, range)
            }
        };
        let length = splitter.done() - range.offset;
        let (id, offset_there) = (self.next_request, offset.wrapping_add(range.offset as u64));
        let (frame, copied) = match pending.op.work {
            Work::FetchAdd { add, .. } => {
                (Frame::Atomic { id, key, offset, op: AtomicOp::Add(add) }, 0)
            }
            Work::CompareSwap { expect, new, .. } => {
                (Frame::Atomic { id, key, offset, op: AtomicOp::Swap { expect, new } }, 0)
            }
            Work::Read { .. } => {
                (Frame::Get { id, key, offset: offset_there, length: length as u64 }, 0)
            }
            _ => (Frame::Put { id, key, offset: offset_there }, length),
        };
        if !self.out.send(frame, copied, ContextUse::Frame(at), endpoint)? {
            return Ok(Submission::Blocked);
        }
        self.sent += 1;
        self.next_request += 1;
        self.requests.push(PeerRequest { id, frame: self.sent, at, offset: range.offset, length });
        if let Some(pending) = self.pending.get_mut(at) {
            pending.requests += 1;
        }
        Ok(self.record_range(at, splitter, range.last))
    }

    /// Records that a range of an operation was submitted.
    #[inline]
    fn record_range(&mut self, at: u32, splitter: Splitter, last: bool) -> Submission {
        if let Some(pending) = self.pending.get_mut(at) {
            (pending.splitter, pending.ranges) = (splitter, pending.ranges + 1);
            pending.submitted_at = last.then_some(self.sent);
        }
        if last { Submission::Complete } else { Submission::Partial }
    }
}

/// The remote address of a range of a transfer.
#[inline]
fn remote(target: &Target, offset: usize) -> Option<Remote> {
    match target.window.access_method() {
        AccessMethod::Ofi { address, key } => {
            let address = address.wrapping_add(target.offset).wrapping_add(offset as u64);
            Some(Remote { address, key: *key })
        }
        _ => None,
    }
}

/// Messages up to this length are copied after their frame: one `iovec` costs less than two.
pub(in crate::ofi) const MAX_COPIED_BYTES: usize = 256;
/// Longer messages use the rendezvous buffers.
const MAX_EAGER_BYTES: u64 = 32 << 10;
/// A region was detached while an operation on it waited.
const DETACHED: Errno = Errno(libc::EFAULT);
