//! What a client sends after the welcome.

use super::request::Request;
use super::{Answer, Parts, ProtocolError, REGION, Reader};

/// A message of a client's.
#[derive(Debug)]
pub enum Message<'m> {
    /// Requests.
    Batch(Batch<'m>),
    /// More memory for values.
    Grant(Grant),
    /// A slot was left on the control block while the store may not have watched.
    Look,
    /// Memory that the store shall not use any more.
    Forget {
        /// The region's number.
        number: u32,
    },
}

/// Memory of a client's under a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// What requests call it; 0 is the receive buffer.
    pub number: u32,
    /// As the fabric has it.
    pub region: [u8; REGION],
}

/// Requests, which are answered together.
#[derive(Debug, Clone)]
pub struct Batch<'m> {
    /// Where the answers go, and under which tag.
    pub head: BatchHead,
    reader: Reader<'m>,
    left: u16,
}

/// What stands before the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHead {
    /// Whether values may be read in place instead of written: the client reads the store's pool where it lies.
    pub in_place: bool,
    /// How many requests follow, at least one.
    pub count: u16,
    /// Its name, see [`Parts`].
    pub tag: u32,
    /// Where in the receive buffer the answers go.
    pub at: u64,
    /// How many bytes there are for answers and what stands behind them.
    pub room: u64,
}

impl BatchHead {
    /// How long it is.
    pub const LENGTH: usize = 24;

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..2].copy_from_slice(&[1, u8::from(self.in_place)]);
        bytes[2..4].copy_from_slice(&self.count.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.room.to_le_bytes());
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

    /// The message that withdraws it.
    pub fn forget(number: u32) -> Vec<u8> {
        let mut bytes = vec![3, 0, 0, 0];
        bytes.extend(number.to_le_bytes());
        bytes
    }
}

impl<'m> Message<'m> {
    /// [`Message::Look`], as a message.
    pub const LOOK: [u8; 4] = [4, 0, 0, 0];

    /// From a client's message. A batch's requests are looked at one by one, by going through it.
    #[inline]
    pub fn parse(message: &'m [u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader { bytes: message };
        let [kind, in_place] = reader.array()?;
        let count = reader.u16()?;
        if in_place > u8::from(kind == 1) || (count == 0) != (kind != 1) {
            return Err("a message of no known kind");
        }
        match kind {
            1 => {
                let (tag, at, room) = (reader.u32()?, reader.u64()?, reader.u64()?);
                if tag >= Parts::TAGS || room < u64::from(count) * Answer::LENGTH as u64 {
                    return Err("a batch with no room for its answers");
                }
                let head = BatchHead { in_place: in_place == 1, count, tag, at, room };
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
                Ok(Message::Forget { number })
            }
            4 => {
                reader.end()?;
                Ok(Message::Look)
            }
            _ => Err("a message of no known kind"),
        }
    }
}

impl<'m> Iterator for Batch<'m> {
    type Item = Result<Request<'m>, ProtocolError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::take(&mut self.reader.bytes);
            return (!rest.is_empty()).then_some(Err("a batch goes on after its end"));
        }
        self.left -= 1;
        let request = Request::parse(&mut self.reader);
        if request.is_err() {
            // What follows has no place any more.
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
            room: 1 << 20,
        };
        let mut bytes = head.to_bytes().to_vec();
        requests.iter().for_each(|request| request.put(&mut bytes));
        bytes
    }

    #[test]
    fn batches_come_back() {
        let requests = examples();
        let bytes = batch(&requests);
        let Ok(Message::Batch(parsed)) = Message::parse(&bytes) else { panic!("a batch") };
        assert_eq!((parsed.head.tag, parsed.head.at), (5, 64));
        let back: Vec<_> = parsed.map(Result::unwrap).collect();
        assert_eq!(back, requests);
    }

    #[test]
    fn an_end_too_soon_or_too_late_is_reported_once() {
        let mut bytes = batch(&examples());
        bytes.push(0);
        let Ok(Message::Batch(parsed)) = Message::parse(&bytes) else { panic!("a batch") };
        assert_eq!(parsed.filter(Result::is_err).count(), 1);
        let Ok(Message::Batch(parsed)) = Message::parse(&bytes[..200]) else { panic!("a batch") };
        assert_eq!(parsed.filter(Result::is_err).count(), 1);
    }

    #[test]
    fn regions_come_back() {
        let grant = Grant { number: 4, region: [3; REGION] };
        assert!(
            matches!(Message::parse(&grant.to_bytes()), Ok(Message::Grant(same)) if same == grant)
        );
        let forget = Grant::forget(9);
        assert!(matches!(Message::parse(&forget), Ok(Message::Forget { number: 9 })));
        assert!(matches!(Message::parse(&Message::LOOK), Ok(Message::Look)));
        for bytes in [&grant.to_bytes()[..43], &[&forget[..], &[0]].concat()] {
            Message::parse(bytes).expect_err("another length");
        }
    }

    #[test]
    fn a_batch_without_room_is_refused() {
        let mut head = BatchHead { in_place: false, count: 2, tag: 0, at: 0, room: 95 };
        Message::parse(&head.to_bytes()).expect_err("no room");
        (head.room, head.tag) = (96, Parts::TAGS);
        Message::parse(&head.to_bytes()).expect_err("no such tag");
    }
}
