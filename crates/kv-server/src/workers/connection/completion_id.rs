//! The ids of operations: numbers by which completions are assigned to their purpose.
//!
//! The high byte is the kind. Below it is a row or a buffer index, or, for the slot block, the operation in the
//! next byte and a slot sequence in the remaining 48 bits.

/// Which part of a connection an operation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompletionId {
    /// A receive into this buffer of the receive area.
    Receive(u32),
    /// A write of the reply in this row.
    Reply(u32),
    /// A read of put data, for the fetch in this row.
    PutFetch(u32),
    /// The send in this row.
    Send(u32),
    /// An operation on the slot block.
    SlotBlock(SlotBlockOp),
}

/// An operation on a slot block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotBlockOp {
    /// Reads the client's cache line.
    Line,
    /// The same, for the last time.
    LastLine,
    /// Writes whether the slot block is polled.
    State,
    /// Wakes a sleeping client.
    Wake,
    /// Reads the message of a request slot. Only the low 48 bits of the slot sequence are kept.
    Slot(u64),
}

impl CompletionId {
    #[inline]
    pub(super) fn encode(self) -> u64 {
        match self {
            CompletionId::Receive(buffer) => RECEIVE | u64::from(buffer),
            CompletionId::Reply(row) => REPLY | u64::from(row),
            CompletionId::PutFetch(row) => PUT_FETCH | u64::from(row),
            CompletionId::Send(row) => SEND | u64::from(row),
            CompletionId::SlotBlock(SlotBlockOp::Line) => SLOT_BLOCK | LINE,
            CompletionId::SlotBlock(SlotBlockOp::LastLine) => SLOT_BLOCK | LAST_LINE,
            CompletionId::SlotBlock(SlotBlockOp::State) => SLOT_BLOCK | STATE,
            CompletionId::SlotBlock(SlotBlockOp::Wake) => SLOT_BLOCK | WAKE,
            CompletionId::SlotBlock(SlotBlockOp::Slot(slot_sequence)) => {
                SLOT_BLOCK | SLOT | slot_sequence & SLOT_SEQUENCE
            }
        }
    }

    /// `None`: not a valid id.
    #[inline]
    pub(super) fn parse(id: u64) -> Option<Self> {
        let row = id as u32;
        Some(match id & KIND {
            RECEIVE => CompletionId::Receive(row),
            REPLY => CompletionId::Reply(row),
            PUT_FETCH => CompletionId::PutFetch(row),
            SEND => CompletionId::Send(row),
            SLOT_BLOCK => CompletionId::SlotBlock(match id & OPERATION {
                LINE => SlotBlockOp::Line,
                LAST_LINE => SlotBlockOp::LastLine,
                STATE => SlotBlockOp::State,
                WAKE => SlotBlockOp::Wake,
                SLOT => SlotBlockOp::Slot(id & SLOT_SEQUENCE),
                _ => return None,
            }),
            _ => return None,
        })
    }
}

const KIND: u64 = 0xff << 56;
const RECEIVE: u64 = 1 << 56;
const REPLY: u64 = 2 << 56;
const PUT_FETCH: u64 = 3 << 56;
const SEND: u64 = 4 << 56;
const SLOT_BLOCK: u64 = 5 << 56;

const OPERATION: u64 = 0xff << 48;
const LINE: u64 = 1 << 48;
const STATE: u64 = 2 << 48;
const WAKE: u64 = 3 << 48;
const SLOT: u64 = 4 << 48;
const LAST_LINE: u64 = 5 << 48;
const SLOT_SEQUENCE: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_encoded() {
        let operations =
            [SlotBlockOp::Line, SlotBlockOp::LastLine, SlotBlockOp::State, SlotBlockOp::Wake];
        let slots = [0, 1, SLOT_SEQUENCE].map(SlotBlockOp::Slot);
        let rows = [0, 7, u32::MAX].into_iter().flat_map(|row| {
            [CompletionId::Receive, CompletionId::Reply, CompletionId::PutFetch, CompletionId::Send]
                .map(|kind| kind(row))
        });
        for id in rows.chain(operations.into_iter().chain(slots).map(CompletionId::SlotBlock)) {
            assert_eq!(CompletionId::parse(id.encode()), Some(id));
        }
        assert_eq!(
            CompletionId::parse(CompletionId::SlotBlock(SlotBlockOp::Slot(1 << 48 | 3)).encode()),
            { Some(CompletionId::SlotBlock(SlotBlockOp::Slot(3))) }
        );
    }

    #[test]
    fn invalid_ids_are_refused() {
        for number in [0, 6 << 56, SLOT_BLOCK, SLOT_BLOCK | 6 << 48] {
            assert_eq!(CompletionId::parse(number), None);
        }
    }
}
