//! Messages of one stream as they come in: each once, in order.

use std::collections::BTreeMap;

use crate::link::protocol::header::Header;

#[derive(Debug, Default)]
pub(in crate::link) struct Incoming {
    next: u64,
    /// What came before its turn; copied, so that it holds no slot that an earlier one may need.
    early: BTreeMap<u64, (Header, Vec<u8>)>,
}

/// What to do with a message.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::link) enum Turn {
    /// It is next.
    Now,
    /// It is kept until its turn.
    Later,
    /// It was here before.
    Again,
    /// No peer of ours sends such.
    ProtocolError,
}

impl Incoming {
    /// A message came.
    #[inline]
    pub(in crate::link) fn turn(&mut self, sequence: u32) -> Turn {
        let ahead = self.ahead(sequence);
        if ahead == 0 {
            self.next += 1;
            return Turn::Now;
        }
        if ahead > u32::MAX / 2 || self.early.contains_key(&(self.next + u64::from(ahead))) {
            return Turn::Again;
        }
        if ahead < AHEAD { Turn::Later } else { Turn::ProtocolError }
    }

    /// How far ahead of its turn a message is; more than half of all numbers: behind.
    fn ahead(&self, sequence: u32) -> u32 {
        sequence.wrapping_sub(self.next as u32)
    }

    /// How many came early.
    pub(in crate::link) fn early(&self) -> usize {
        self.early.len()
    }

    pub(in crate::link) fn keep(&mut self, header: Header, payload: Vec<u8>) {
        let sequence = self.next + u64::from(self.ahead(header.sequence));
        self.early.insert(sequence, (header, payload));
    }

    /// The next one, if it came early.
    pub(in crate::link) fn next_early(&mut self) -> Option<(Header, Vec<u8>)> {
        let kept = self.early.remove(&self.next)?;
        self.next += 1;
        Some(kept)
    }
}

/// How far ahead of its turn a message may come: more than all slots of all rails.
const AHEAD: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::protocol::header::Body;

    #[test]
    fn each_once_and_in_order() {
        let mut incoming = Incoming::default();
        let header = |sequence| Header { sequence, freed: [0; 2], taken: 0, body: Body::Credit };
        assert_eq!(incoming.turn(0), Turn::Now);
        assert_eq!(incoming.turn(0), Turn::Again);
        assert_eq!(incoming.turn(2), Turn::Later);
        incoming.keep(header(2), b"two".to_vec());
        assert_eq!(incoming.turn(2), Turn::Again);
        assert!(incoming.next_early().is_none());
        assert_eq!(incoming.turn(1), Turn::Now);
        assert_eq!(incoming.next_early(), Some((header(2), b"two".to_vec())));
        assert_eq!(incoming.turn(3 + AHEAD), Turn::ProtocolError);
        assert_eq!(incoming.turn(2 + AHEAD), Turn::Later);
    }

    #[test]
    fn numbers_go_round() {
        let mut incoming = Incoming { next: u64::from(u32::MAX), ..Incoming::default() };
        let header = Header { sequence: 0, freed: [0; 2], taken: 0, body: Body::Void };
        assert_eq!(incoming.turn(0), Turn::Later);
        incoming.keep(header, Vec::new());
        assert_eq!((incoming.turn(u32::MAX), incoming.turn(u32::MAX)), (Turn::Now, Turn::Again));
        assert_eq!(incoming.next_early(), Some((header, Vec::new())));
        assert_eq!((incoming.turn(0), incoming.turn(1)), (Turn::Again, Turn::Now));
    }
}
