//! The messages of a client after the hello.

use super::request::Request;
use super::{Answer, ProtocolError, REGION, Reader, ReplyImmediate};

/// A message of a client.
#[derive(Debug)]
pub enum Message<'m> {
    /// Requests.
    Batch(Batch<'m>),
    /// A granted region, for values.
    Grant(Grant),
    /// The client filled a request slot while the store may not have been polling it.
    CheckSlots,
    /// The store must not use this region any more.
    Revoke {
        /// The region's number.
        number: u32,
    },
}

/// A client's region and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Used by requests; 0 is the client buffer.
    pub number: u32,
    /// Encoded by the fabric.
    pub region: [u8; REGION],
}

/// Requests that are answered together.
#[derive(Debug, Clone)]
pub struct Batch<'m> {
    /// Tag, and destination of the answers.
    pub head: BatchHead,
    reader: Reader<'m>,
    left: u16,
}

/// The part before the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHead {
    /// Whether values may be read in place, from the store's pool, instead of being written to the client.
    pub in_place: bool,
    /// The number of requests, at least one.
    pub count: u16,
    /// Identifies the batch, see [`ReplyImmediate`].
    pub tag: u32,
    /// The offset of the answers in the client buffer.
    pub at: u64,
    /// The bytes available for the answers and the data after them.
    pub capacity: u64,
}

impl BatchHead {
    /// The encoded length.
    pub const LENGTH: usize = 24;

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..2].copy_from_slice(&[1, u8::from(self.in_place)]);
        bytes[2..4].copy_from_slice(&self.count.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.capacity.to_le_bytes());
        bytes
    }
}

impl Grant {
    /// As a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.region);
        bytes
    }

    /// The message that revokes a grant.
    pub fn revoke(number: u32) -> Vec<u8> {
        let mut bytes = vec![3, 0, 0, 0];
        bytes.extend(number.to_le_bytes());
        bytes
    }
}

impl<'m> Message<'m> {
    /// [`Message::CheckSlots`], encoded.
    pub const CHECK_SLOTS: [u8; 4] = [4, 0, 0, 0];

    /// Parses a client's message. The requests of a batch are parsed by iterating over it.
    #[inline]
    pub fn parse(message: &'m [u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader { bytes: message };
        let [kind, in_place] = reader.array()?;
        let count = reader.u16()?;
        if in_place > u8::from(kind == 1) || (count == 0) != (kind != 1) {
            return Err("unknown message type");
        }
        match kind {
            1 => {
                let (tag, at, capacity) = (reader.u32()?, reader.u64()?, reader.u64()?);
                if tag >= ReplyImmediate::TAGS
                    || capacity < u64::from(count) * Answer::LENGTH as u64
                {
                    return Err("batch without enough space for its answers");
                }
                let head = BatchHead { in_place: in_place == 1, count, tag, at, capacity };
                Ok(Message::Batch(Batch { head, reader, left: count }))
            }
            2 => {
                let grant = Grant { number: reader.u32()?, region: reader.array()? };
                reader.end()?;
                Ok(Message::Grant(grant))
            }
            3 => {
                let number = reader.u32()?;
                reader.end()?;
                Ok(Message::Revoke { number })
            }
            4 => {
                reader.end()?;
                Ok(Message::CheckSlots)
            }
            _ => Err("unknown message type"),
        }
    }
}

impl<'m> Iterator for Batch<'m> {
    type Item = Result<Request<'m>, ProtocolError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::take(&mut self.reader.bytes);
            return (!rest.is_empty()).then_some(Err("batch too long"));
        }
        self.left -= 1;
        let request = Request::parse(&mut self.reader);
        if request.is_err() {
            // The position of the next request is unknown.
            (self.left, self.reader.bytes) = (0, &[]);
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::tests::examples;
    use super::*;

    fn batch(requests: &[Request<'_>]) -> Vec<u8> {
        let head = BatchHead {
            in_place: true,
            count: requests.len() as u16,
            tag: 5,
            at: 64,
            capacity: 1 << 20,
        };
        let mut bytes = head.to_bytes().to_vec();
        requests.iter().for_each(|request| request.put(&mut bytes));
        bytes
    }

    #[test]
    fn batches_round_trip() {
        let requests = examples();
        let bytes = batch(&requests);
        let Ok(Message::Batch(parsed)) = Message::parse(&bytes) else { panic!("a batch") };
        assert_eq!((parsed.head.tag, parsed.head.at), (5, 64));
        let back: Vec<_> = parsed.map(Result::unwrap).collect();
        assert_eq!(back, requests);
    }

    #[test]
    fn a_truncated_or_too_long_batch_is_reported_once() {
        let mut bytes = batch(&examples());
        bytes.push(0);
        let Ok(Message::Batch(parsed)) = Message::parse(&bytes) else { panic!("a batch") };
        assert_eq!(parsed.filter(Result::is_err).count(), 1);
        let Ok(Message::Batch(parsed)) = Message::parse(&bytes[..200]) else { panic!("a batch") };
        assert_eq!(parsed.filter(Result::is_err).count(), 1);
    }

    #[test]
    fn grants_and_revocations_round_trip() {
        let grant = Grant { number: 4, region: [3; REGION] };
        assert!(
            matches!(Message::parse(&grant.to_bytes()), Ok(Message::Grant(same)) if same == grant)
        );
        let revoke = Grant::revoke(9);
        assert!(matches!(Message::parse(&revoke), Ok(Message::Revoke { number: 9 })));
        assert!(matches!(Message::parse(&Message::CHECK_SLOTS), Ok(Message::CheckSlots)));
        for bytes in [&grant.to_bytes()[..43], &[&revoke[..], &[0]].concat()] {
            Message::parse(bytes).expect_err("another length");
        }
    }

    #[test]
    fn a_batch_with_too_little_capacity_is_refused() {
        let mut head = BatchHead { in_place: false, count: 2, tag: 0, at: 0, capacity: 95 };
        Message::parse(&head.to_bytes()).expect_err("too little capacity");
        (head.capacity, head.tag) = (96, ReplyImmediate::TAGS);
        Message::parse(&head.to_bytes()).expect_err("no such tag");
    }
}
