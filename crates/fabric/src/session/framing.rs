//! Framing of messages in a byte stream, encrypted or not; without sockets.

use std::fmt;

use snow::TransportState;

use super::noise::{MAX_RECORD_BYTES, TAG_BYTES};

/// Encodes and decodes messages.
pub(super) struct Framing {
    /// `None`: not encrypted.
    cipher: Option<Box<TransportState>>,
    max_length: usize,
    arrived: Vec<u8>,
    taken: usize,
    /// A message of which some records have not arrived yet.
    partial: Option<PartialMessage>,
}

struct PartialMessage {
    length: usize,
    message: Vec<u8>,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FramingError {
    /// The message is too long.
    Oversized { length: usize, max_length: usize },
    /// Encrypted with another key, or changed in transit.
    Undecipherable,
    /// A violation of the protocol.
    ProtocolError(&'static str),
}

impl Framing {
    /// Messages of at most `max_length` bytes are accepted.
    pub(super) fn new(cipher: Option<TransportState>, max_length: usize) -> Self {
        let cipher = cipher.map(Box::new);
        Framing { cipher, max_length, arrived: Vec::new(), taken: 0, partial: None }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// Sets the maximum length of messages.
    pub(super) fn set_max_length(&mut self, max_length: usize) {
        self.max_length = max_length;
    }

    /// Appends the encoded message.
    pub(super) fn seal(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let length = (message.len() as u32).to_le_bytes();
        let Some(cipher) = &mut self.cipher else {
            out.extend(length);
            out.extend(message);
            return;
        };
        for chunk in [&length, message].concat().chunks(MAX_RECORD_BYTES - TAG_BYTES) {
            seal_record(cipher, chunk, out);
        }
    }

    /// Adds received bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.arrived.drain(..self.taken);
        self.taken = 0;
        self.arrived.extend(bytes);
    }

    /// The next message, if it is complete. Must not be called after a fault.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
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

    fn next_plain(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let Some((length, rest)) = self.arrived[self.taken..].split_first_chunk() else {
            return Ok(None);
        };
        let length = self.check(*length)?;
        let Some(message) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.taken += 4 + length;
        Ok(Some(message))
    }

    /// The content of the next record, which is never empty.
    fn next_record(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let Some((length, rest)) = self.arrived[self.taken..].split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*length));
        if length <= TAG_BYTES {
            return Err(FramingError::ProtocolError("a record without content"));
        }
        // A record is never longer than the longest message, encrypted or not.
        if length > self.max_length + 4 + TAG_BYTES {
            return Err(FramingError::Oversized {
                length: length - 4 - TAG_BYTES,
                max_length: self.max_length,
            });
        }
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let mut content = vec![0; length - TAG_BYTES];
        let cipher = self.cipher.as_mut().expect("records are encrypted");
        cipher.read_message(record, &mut content).map_err(|_| FramingError::Undecipherable)?;
        self.taken += 2 + length;
        Ok(Some(content))
    }

    /// Appends a record to its message; returns the message if it is complete.
    fn join(&mut self, content: &[u8]) -> Result<Option<Vec<u8>>, FramingError> {
        let (mut partial, content) = match self.partial.take() {
            Some(partial) => (partial, content),
            None => {
                let (length, content) = content
                    .split_first_chunk()
                    .ok_or(FramingError::ProtocolError("a message without a length"))?;
                let length = self.check(*length)?;
                (PartialMessage { length, message: Vec::with_capacity(length) }, content)
            }
        };
        if content.len() > partial.length - partial.message.len() {
            return Err(FramingError::ProtocolError("a record beyond the end of its message"));
        }
        partial.message.extend(content);
        if partial.message.len() == partial.length {
            return Ok(Some(partial.message));
        }
        self.partial = Some(partial);
        Ok(None)
    }

    /// Checks a length, before memory is allocated for it.
    fn check(&self, length: [u8; 4]) -> Result<usize, FramingError> {
        let length = u32::from_le_bytes(length) as usize;
        match length <= self.max_length {
            true => Ok(length),
            false => Err(FramingError::Oversized { length, max_length: self.max_length }),
        }
    }
}

/// One record: its length, then the content and its tag.
fn seal_record(cipher: &mut TransportState, content: &[u8], out: &mut Vec<u8>) {
    let length = content.len() + TAG_BYTES;
    out.extend((length as u16).to_le_bytes());
    let start = out.len();
    out.resize(start + length, 0);
    // This fails only for a wrong size, or after 2^64 records.
    cipher.write_message(content, &mut out[start..]).expect("a record of a valid size");
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FramingError::Oversized { length, max_length } => {
                write!(f, "a message of {length} bytes, over the limit of {max_length}")
            }
            FramingError::Undecipherable => {
                f.write_str("a message that does not decrypt with our key")
            }
            FramingError::ProtocolError(what) => f.write_str(what),
        }
    }
}

#[cfg(any(test, feature = "fuzz"))]
impl Framing {
    /// Appends arbitrary content as a record.
    pub(super) fn seal_raw(&mut self, content: &[u8], out: &mut Vec<u8>) {
        match &mut self.cipher {
            Some(cipher) => seal_record(cipher, content, out),
            None => out.extend(content),
        }
    }
}
