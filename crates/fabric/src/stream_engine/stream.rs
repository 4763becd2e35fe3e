//! The byte stream below the engine: ordered, in both directions.
//!
//! Unsafe here: only declared; the engine guarantees that the parts are valid, and a stream uses them only during the call.
#![allow(unsafe_code, reason = "declares calls with raw parts")]

use std::io;

use crate::iovec::IoVec;

/// A connected stream. No call blocks: `WouldBlock` means that nothing can be transferred now.
pub(crate) trait Stream: Send {
    /// Whether peers may write over another path, and send only the immediate data.
    const IMM_WITHOUT_DATA: bool;

    /// Whether small frames are written as soon as they are there: a write is no system call.
    const WRITES_AT_ONCE: bool;

    /// How much to read at once where a header is expected. More saves calls if messages are small.
    const READ_AHEAD_BYTES: usize;

    /// Takes bytes from `parts`, in order; returns the number. `InvalidData`, here and below: a protocol
    /// error of the peer.
    ///
    /// # Safety
    /// Every part is readable during the call.
    unsafe fn write(&mut self, parts: &[IoVec]) -> io::Result<usize>;

    /// Puts bytes into `parts`, in order; returns the number. Zero: the peer has ended the stream.
    ///
    /// # Safety
    /// Every part is writable during the call.
    unsafe fn read(&mut self, parts: &[IoVec]) -> io::Result<usize>;

    /// As [`Stream::read`], into bytes of the caller's.
    #[inline]
    fn read_ahead(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the part is the caller's bytes, borrowed during the call.
        unsafe { self.read(&[IoVec::of_bytes(bytes)]) }
    }

    /// Whether bytes that `write` took are still buffered.
    #[inline]
    fn has_unsent(&self) -> bool {
        false
    }

    /// Sends all buffered bytes; `WouldBlock` if it cannot.
    fn flush_unsent(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether `read` has buffered data, for which the descriptor is not readable.
    #[inline]
    fn has_unread(&self) -> bool {
        false
    }

    /// Ends sending. The peer reads to the end.
    fn finish(&mut self);

    /// Closes both directions: memory is no longer read or written through it.
    fn close(&mut self);
}
