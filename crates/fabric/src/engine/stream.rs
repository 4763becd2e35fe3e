//! What the engine runs over: bytes in order, both ways.
//!
//! Unsafe here: only declared; the engine promises the parts, a stream uses them during the call alone.
#![allow(unsafe_code, reason = "declares calls with raw parts")]

use std::io;

use crate::iovec::Part;

/// A connected stream. Neither call blocks: `WouldBlock` says that nothing can move now.
pub(crate) trait Stream: Send {
    /// Whether peers may write by some other path, and send the immediate data alone.
    const NUMBERS_ALONE: bool;

    /// How much to read ahead of a header. More saves calls where messages are small.
    const AHEAD: usize;

    /// Takes bytes from `parts`, in order; says how many. `InvalidData`, here and below: the peer is none
    /// of ours.
    ///
    /// # Safety
    /// Every part is readable during the call.
    unsafe fn write(&mut self, parts: &[Part]) -> io::Result<usize>;

    /// Puts bytes into `parts`, in order; says how many. None: the peer has ended the stream.
    ///
    /// # Safety
    /// Every part is writable during the call.
    unsafe fn read(&mut self, parts: &[Part]) -> io::Result<usize>;

    /// Whether bytes that `write` took are still to be sent.
    #[inline]
    fn has_unsent(&self) -> bool {
        false
    }

    /// Sends all of them; `WouldBlock` while it cannot.
    fn send_on(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether `read` gives something that no descriptor tells of.
    #[inline]
    fn has_unread(&self) -> bool {
        false
    }

    /// Says that we send no more. The peer reads to the end.
    fn finish(&mut self);

    /// Ends it both ways: nothing of ours is read or written through it any more.
    fn close(&mut self);
}
