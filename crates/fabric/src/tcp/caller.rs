//! Somebody who connected and has not proved yet to be the peer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use super::hello::HELLO;
use super::terms::Terms;

pub(super) struct Caller {
    socket: TcpStream,
    said: [u8; HELLO],
    /// How much of what comes next was said.
    count: usize,
    stage: Stage,
}

/// What comes next.
enum Stage {
    Hello,
    /// Of the caller for this stream.
    Token(u8),
}

/// What came of listening.
pub(super) enum Heard {
    Nothing,
    Stranger,
    /// The peer, with this stream.
    Peer(u8),
}

impl Caller {
    pub(super) fn new(socket: TcpStream) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(Caller { socket, said: [0; HELLO], count: 0, stage: Stage::Hello })
    }

    /// One whose hello was read at the door.
    pub(super) fn with_hello(socket: TcpStream, hello: &[u8; HELLO]) -> Option<Self> {
        Some(Caller { said: *hello, count: HELLO, ..Self::new(socket)? })
    }

    /// Hears what there is, and not a byte more than belongs here.
    pub(super) fn hear(&mut self, terms: &Terms) -> Heard {
        loop {
            let wanted = match self.stage {
                Stage::Hello => HELLO,
                Stage::Token(_) => TOKEN,
            };
            while self.count < wanted {
                match self.socket.read(&mut self.said[self.count..wanted]) {
                    Ok(0) => return Heard::Stranger,
                    Ok(count) => self.count += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return Heard::Stranger,
                }
            }
            let said = &self.said[..wanted];
            match self.stage {
                Stage::Hello => {
                    let stream = (0..terms.streams).find(|stream| terms.hello(*stream) == said);
                    let Some(stream) = stream else { return Heard::Stranger };
                    self.stage = Stage::Token(stream);
                }
                Stage::Token(stream) if terms.accept_token.to_le_bytes() == said => {
                    return Heard::Peer(stream);
                }
                Stage::Token(_) => return Heard::Stranger,
            }
            self.count = 0;
        }
    }

    /// A new connection has room for so little: what does not go out at once never will.
    pub(super) fn welcome(mut self, terms: &Terms) -> Option<TcpStream> {
        self.socket.write_all(&terms.dial_token.to_le_bytes()).ok()?;
        Some(self.socket)
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const TOKEN: usize = 16;
