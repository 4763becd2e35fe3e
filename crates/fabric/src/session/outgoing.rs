//! The send queue of a socket.

use std::io::{self, ErrorKind, Write};

#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends as much as the socket accepts.
    pub(super) fn flush(&mut self, mut socket: impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match socket.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.forget_sent();
        Ok(())
    }

    /// Removes sent bytes when they are at least half: on average each byte is moved at most once.
    fn forget_sent(&mut self) {
        if self.sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}
