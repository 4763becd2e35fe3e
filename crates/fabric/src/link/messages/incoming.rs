//! Incoming messages of one class: deduplicated and put in order.

use std::collections::BTreeMap;

use crate::link::protocol::header::Header;

#[derive(Debug, Default)]
pub(in crate::link) struct Incoming {
    next: u64,
    /// Early messages by sequence number; copied, so that they occupy no slot that an earlier message may need.
    early: BTreeMap<u64, (Header, Vec<u8>)>,
}

/// How a message fits into the sequence.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::link) enum Arrival {
    /// The next message.
    InOrder,
    /// An early message, to be stored.
    Early,
    /// A duplicate.
    Duplicate,
    /// Too early: the peer violates the protocol.
    ProtocolError,
}

impl Incoming {
    /// A message has arrived; if it is the next one, the sequence advances.
    #[inline]
    pub(in crate::link) fn arrival(&mut self, sequence: u32) -> Arrival {
        let ahead = self.ahead(sequence);
        if ahead == 0 {
            self.next += 1;
            return Arrival::InOrder;
        }
        if ahead > u32::MAX / 2 || self.early.contains_key(&(self.next + u64::from(ahead))) {
            return Arrival::Duplicate;
        }
        if ahead < MAX_EARLY { Arrival::Early } else { Arrival::ProtocolError }
    }

    /// Whether a message is the next one, and no early one waits for it.
    #[inline]
    pub(in crate::link) fn is_next(&self, sequence: u32) -> bool {
        self.ahead(sequence) == 0 && self.early.is_empty()
    }

    /// The next message was received.
    #[inline]
    pub(in crate::link) fn advance(&mut self) {
        self.next += 1;
    }

    /// The distance from the next expected message; more than half of the number space means an older message.
    fn ahead(&self, sequence: u32) -> u32 {
        sequence.wrapping_sub(self.next as u32)
    }

    /// The number of early messages.
    pub(in crate::link) fn early(&self) -> usize {
        self.early.len()
    }

    pub(in crate::link) fn keep(&mut self, header: Header, payload: Vec<u8>) {
        let sequence = self.next + u64::from(self.ahead(header.sequence));
        self.early.insert(sequence, (header, payload));
    }

    /// The next message, if it arrived early.
    pub(in crate::link) fn next_early(&mut self) -> Option<(Header, Vec<u8>)> {
        let kept = self.early.remove(&self.next)?;
        self.next += 1;
        Some(kept)
    }
}

/// The maximum distance of an early message: more than the slots of all rails.
const MAX_EARLY: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::protocol::header::Body;

    #[test]
    fn messages_are_ordered_and_deduplicated() {
        let mut incoming = Incoming::default();
        let header = |sequence| Header { sequence, freed: [0; 2], taken: 0, body: Body::Credit };
        assert_eq!(incoming.arrival(0), Arrival::InOrder);
        assert_eq!(incoming.arrival(0), Arrival::Duplicate);
        assert_eq!(incoming.arrival(2), Arrival::Early);
        incoming.keep(header(2), b"two".to_vec());
        assert_eq!(incoming.arrival(2), Arrival::Duplicate);
        assert!(incoming.next_early().is_none());
        assert_eq!(incoming.arrival(1), Arrival::InOrder);
        assert_eq!(incoming.next_early(), Some((header(2), b"two".to_vec())));
        assert_eq!(incoming.arrival(3 + MAX_EARLY), Arrival::ProtocolError);
        assert_eq!(incoming.arrival(2 + MAX_EARLY), Arrival::Early);
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        let mut incoming = Incoming { next: u64::from(u32::MAX), ..Incoming::default() };
        let header = Header { sequence: 0, freed: [0; 2], taken: 0, body: Body::Void };
        assert_eq!(incoming.arrival(0), Arrival::Early);
        incoming.keep(header, Vec::new());
        assert_eq!(
            (incoming.arrival(u32::MAX), incoming.arrival(u32::MAX)),
            (Arrival::InOrder, Arrival::Duplicate)
        );
        assert_eq!(incoming.next_early(), Some((header, Vec::new())));
        assert_eq!(
            (incoming.arrival(0), incoming.arrival(1)),
            (Arrival::Duplicate, Arrival::InOrder)
        );
    }
}
