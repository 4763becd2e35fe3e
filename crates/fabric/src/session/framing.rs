//! Whole messages in a stream of bytes, encrypted or not. It is given the bytes and knows no socket.

use std::fmt;

use snow::TransportState;

use super::noise::{MAX_RECORD, TAG};

/// Makes bytes of messages and messages of bytes.
pub(super) struct Framing {
    /// None: as they are.
    cipher: Option<Box<TransportState>>,
    most: usize,
    arrived: Vec<u8>,
    taken: usize,
    /// A message of which some records are still to come.
    begun: Option<Begun>,
}

struct Begun {
    length: usize,
    message: Vec<u8>,
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// So long a message is none.
    Oversized { length: usize, most: usize },
    /// Encrypted with another key, or changed on its way.
    Undecipherable,
    /// Not as the protocol says.
    ProtocolError(&'static str),
}

impl Framing {
    /// Messages of at most `most` bytes are read.
    pub(super) fn new(cipher: Option<TransportState>, most: usize) -> Self {
        let cipher = cipher.map(Box::new);
        Framing { cipher, most, arrived: Vec::new(), taken: 0, begun: None }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// From now on messages of at most so many bytes are read.
    pub(super) fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Appends the message as it travels.
    pub(super) fn seal(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let length = (message.len() as u32).to_le_bytes();
        let Some(cipher) = &mut self.cipher else {
            out.extend(length);
            out.extend(message);
            return;
        };
        for piece in [&length, message].concat().chunks(MAX_RECORD - TAG) {
            seal_record(cipher, piece, out);
        }
    }

    /// Bytes that came.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.arrived.drain(..self.taken);
        self.taken = 0;
        self.arrived.extend(bytes);
    }

    /// The next message, if all of it came. After a fault there is no next.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if self.cipher.is_none() {
            return self.next_plain();
        }
        while let Some(record) = self.next_record()? {
            if let Some(message) = self.join(&record)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    fn next_plain(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let Some((length, rest)) = self.arrived[self.taken..].split_first_chunk() else {
            return Ok(None);
        };
        let length = self.check(*length)?;
        let Some(message) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.taken += 4 + length;
        Ok(Some(message))
    }

    /// The content of the next record; never empty.
    fn next_record(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let Some((length, rest)) = self.arrived[self.taken..].split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*length));
        if length <= TAG {
            return Err(Fault::ProtocolError("a record without content"));
        }
        // Nobody is read for longer than a message of the longest kind takes, encrypted or not.
        if length > self.most + 4 + TAG {
            return Err(Fault::Oversized { length: length - 4 - TAG, most: self.most });
        }
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let mut content = vec![0; length - TAG];
        let cipher = self.cipher.as_mut().expect("records are encrypted");
        cipher.read_message(record, &mut content).map_err(|_| Fault::Undecipherable)?;
        self.taken += 2 + length;
        Ok(Some(content))
    }

    /// Adds a record to the message it belongs to, which it may finish.
    fn join(&mut self, content: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let (mut begun, content) = match self.begun.take() {
            Some(begun) => (begun, content),
            None => {
                let (length, content) = content
                    .split_first_chunk()
                    .ok_or(Fault::ProtocolError("a message without a length"))?;
                let length = self.check(*length)?;
                (Begun { length, message: Vec::with_capacity(length) }, content)
            }
        };
        if content.len() > begun.length - begun.message.len() {
            return Err(Fault::ProtocolError("a record beyond the end of its message"));
        }
        begun.message.extend(content);
        if begun.message.len() == begun.length {
            return Ok(Some(begun.message));
        }
        self.begun = Some(begun);
        Ok(None)
    }

    /// A length, before anything is made of that length.
    fn check(&self, length: [u8; 4]) -> Result<usize, Fault> {
        let length = u32::from_le_bytes(length) as usize;
        match length <= self.most {
            true => Ok(length),
            false => Err(Fault::Oversized { length, most: self.most }),
        }
    }
}

/// One record: its length, then the content and its tag.
fn seal_record(cipher: &mut TransportState, content: &[u8], out: &mut Vec<u8>) {
    let length = content.len() + TAG;
    out.extend((length as u16).to_le_bytes());
    let start = out.len();
    out.resize(start + length, 0);
    // Only its size could be wrong, or that 2^64 records went before.
    cipher.write_message(content, &mut out[start..]).expect("a record of a size that Noise takes");
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Oversized { length, most } => {
                write!(f, "a message of {length} bytes is over the limit of {most}")
            }
            Fault::Undecipherable => f.write_str("a message that our key does not open"),
            Fault::ProtocolError(what) => f.write_str(what),
        }
    }
}

#[cfg(any(test, feature = "fuzz"))]
impl Framing {
    /// Content as a record of its own, though it may be no message.
    pub(super) fn seal_raw(&mut self, content: &[u8], out: &mut Vec<u8>) {
        match &mut self.cipher {
            Some(cipher) => seal_record(cipher, content, out),
            None => out.extend(content),
        }
    }
}
