//! One end of a run: posts operations, and checks their results.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Random;
use crate::link::core::Core;
use crate::memory::{Memory, Pages};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Region, Rights, Slice};
use crate::remote::Window;
use crate::setup::register_software;

/// A region is divided into cells; each operation has exclusive use of some of the peer's and some of ours.
pub(super) const CELL: usize = 256;
pub(super) const CELLS: usize = 64;

pub(super) struct End {
    /// Written by the peer. The last page is for counters.
    pub(super) open: Region,
    /// Read by the peer; never changes.
    pub(super) read_only: Region,
    /// The local memory of operations.
    pub(super) source: Region,
    pub(super) window: Option<Window>,
    pub(super) readable: Option<Window>,
    /// To be posted: operations and receives, so that neither waits for the other.
    pub(super) todo: VecDeque<Op>,
    pub(super) receive_ops: VecDeque<Op>,
    /// Operations in flight, by id.
    pub(super) pending: BTreeMap<u64, Pending>,
    /// Cells of our source that are in use.
    source_used: [bool; CELLS],
    /// Cells of the peer that our operations use.
    pub(super) open_used: [bool; CELLS],
    pub(super) next: u64,
    /// Ids of messages sent by us and received by us, and of immediate data likewise; old values of additions.
    pub(super) sent: Vec<u64>,
    pub(super) received: Vec<u64>,
    pub(super) sent_imms: Vec<u64>,
    pub(super) received_imms: Vec<u64>,
    pub(super) added: Vec<u64>,
    pub(super) receives: usize,
    receive_buffers: Vec<Slice>,
    /// Stamps written into cells of completed operations: nothing may change them.
    pub(super) stamped: BTreeMap<usize, u64>,
    pub(super) source_stamped: BTreeMap<usize, u64>,
    /// Ids of operations without effect, and the number of additions with an unknown outcome.
    pub(super) without_effect: Vec<u64>,
    pub(super) unknown_additions: u64,
    /// Whether no more receives are posted.
    pub(super) closing: bool,
    /// Immediate data whose cells were reused before their writes completed.
    reused: BTreeSet<u64>,
    pub(super) writes: usize,
}

/// An operation in flight.
pub(super) struct Pending {
    pub(super) source: Vec<usize>,
    pub(super) cells: Vec<usize>,
    pub(super) bytes: usize,
}

impl End {
    pub(super) fn new() -> Self {
        let region = |length: usize, rights| {
            register_software(&Memory::allocate(length, Pages::Plain).unwrap(), rights)
        };
        let read_only = region(CELL * CELLS, Rights { read: true, ..Rights::NONE });
        read_only.memory().write(0, &pattern(READ_ONLY_SEED, CELL * CELLS));
        End {
            open: region(CELL * CELLS + 4096, Rights::ALL),
            read_only,
            source: region(CELL * CELLS, Rights::NONE),
            window: None,
            readable: None,
            todo: VecDeque::new(),
            receive_ops: VecDeque::new(),
            pending: BTreeMap::new(),
            source_used: [false; CELLS],
            open_used: [false; CELLS],
            next: 1,
            sent: Vec::new(),
            received: Vec::new(),
            sent_imms: Vec::new(),
            received_imms: Vec::new(),
            added: Vec::new(),
            receives: 0,
            receive_buffers: Vec::new(),
            stamped: BTreeMap::new(),
            source_stamped: BTreeMap::new(),
            without_effect: Vec::new(),
            unknown_additions: 0,
            closing: false,
            reused: BTreeSet::new(),
            writes: 0,
        }
    }

    /// Queues a random operation.
    pub(super) fn queue_random(&mut self, random: &mut Random) {
        let (Some(window), Some(readable)) = (self.window.clone(), self.readable.clone()) else {
            return;
        };
        let op_id = self.next;
        let max_cells = if random.one_in(4) { 24 } else { 4 };
        let cells = 1 + random.below(max_cells);
        let bytes = (cells * CELL).saturating_sub(random.below(CELL));
        let Some(source) = take(&mut self.source_used, cells) else { return };
        let begin = source[0] * CELL;
        let ours = self.source.slice(begin..begin + bytes);
        let mut pending = Pending { source, cells: Vec::new(), bytes };
        let op = match random.below(10) {
            0..4 => {
                let Some(cells) = take(&mut self.open_used, cells) else {
                    return self.release_source(&pending);
                };
                self.source.memory().write(begin, &pattern(op_id, bytes));
                let to = window.at((cells[0] * CELL) as u64);
                pending.cells = cells;
                let imm = random.one_in(2).then_some(op_id as u32);
                if imm.is_some() {
                    self.sent_imms.push(op_id);
                }
                self.writes += 1;
                Op { op_id, work: Work::Write { from: ours.into(), to, imm } }
            }
            4..6 => {
                let cell = random.below(CELLS - pending.source.len() + 1);
                pending.cells = vec![cell];
                Op::read(op_id, ours, readable.at((cell * CELL) as u64))
            }
            6..9 => {
                let bytes = if random.one_in(8) { 0 } else { bytes };
                pending.bytes = bytes;
                self.source.memory().write(begin, &pattern(op_id, bytes));
                self.sent.push(op_id);
                let from = self.source.slice(begin..begin + bytes).into();
                Op { op_id, work: Work::Send { from, imm: Some(op_id as u32) } }
            }
            _ => {
                let old = self.source.slice(begin..begin + 8);
                let at = window.at((CELL * CELLS) as u64);
                Op { op_id, work: Work::FetchAdd { old, at, add: 1 } }
            }
        };
        for cell in &pending.source {
            self.source_stamped.remove(cell);
        }
        self.next += 1;
        self.pending.insert(op_id, pending);
        self.todo.push_back(op);
    }

    /// Queues a receive for a message or immediate data.
    pub(super) fn queue_receive(&mut self) {
        self.receives += 1;
        let slice = self.receive_buffers.pop().unwrap_or_else(|| {
            let memory = Memory::allocate(CELL * 24, Pages::Plain).unwrap();
            register_software(&memory, Rights::NONE).slice(..)
        });
        self.receive_ops.push_back(Op::receive(RECEIVE_OP_ID, slice));
    }

    fn release_source(&mut self, pending: &Pending) {
        for cell in &pending.source {
            self.source_used[*cell] = false;
        }
    }

    /// As [`End::check_completion`], for a link that is lost.
    pub(super) fn check_lost_completion(&mut self, completion: Completion, peer: &mut End) {
        let Err(failure) = completion.outcome else {
            return self.check_completion(completion, peer);
        };
        if let Work::Receive { .. } = completion.work {
            self.receives -= 1;
            assert_eq!(failure, Failure::PeerGone);
            return;
        }
        let pending = self.pending.remove(&completion.op_id).expect("completed once");
        assert!(matches!(failure, Failure::Unknown | Failure::PeerGone), "{failure:?}");
        if failure == Failure::PeerGone && !matches!(completion.work, Work::Read { .. }) {
            self.without_effect.push(completion.op_id);
        } else if let Work::FetchAdd { .. } = completion.work {
            self.unknown_additions += 1;
        }
        // Local memory is free again, whatever happened to the peer's.
        self.stamp_source(&pending.source, completion.op_id);
    }

    fn stamp_source(&mut self, source: &[usize], op_id: u64) {
        for cell in source {
            // Nothing may write to local memory of completed operations.
            let stamp = op_id << 8 | 0xa5;
            self.source.memory().write(cell * CELL, &stamp_bytes(stamp));
            self.source_stamped.insert(*cell, stamp);
            self.source_used[*cell] = false;
        }
    }

    /// Checks a completion. `peer` is the other end.
    pub(super) fn check_completion(&mut self, completion: Completion, peer: &mut End) {
        let Completion { op_id, outcome, work } = completion;
        let done = outcome.unwrap_or_else(|failure| panic!("{op_id} failed: {failure:?} {work:?}"));
        if let Work::Receive { into } = &work {
            self.receives -= 1;
            let Done::Received { length, imm } = done else { panic!("{done:?}") };
            let number = u64::from(imm.unwrap());
            self.receive_buffers.extend(into.as_slice().iter().cloned());
            if peer.sent_imms.contains(&number) {
                self.reuse_cells(number, peer);
                return self.received_imms.push(number);
            }
            let bytes = into.as_slice()[0].to_vec();
            assert_eq!(bytes[..length], pattern(number, length), "message {number}");
            return self.received.push(number);
        }
        let pending = self.pending.remove(&op_id).expect("completed once");
        let local = work.local()[0].to_vec();
        match (&work, done) {
            (Work::Write { .. }, Done::Placed) => {
                // Unless the target received the immediate data first, and has reused the cells.
                if !peer.reused.contains(&op_id) {
                    let mut there = vec![0; pending.bytes];
                    peer.open.memory().read(pending.cells[0] * CELL, &mut there);
                    assert_eq!(there, local, "write {op_id} has completed, so it is placed");
                    peer.stamp(&pending.cells, op_id);
                }
                for cell in &pending.cells {
                    self.open_used[*cell] = false;
                }
            }
            (Work::Read { .. }, Done::Placed) => {
                let begin = pending.cells[0] * CELL;
                let read_only = peer.read_only.slice(begin..begin + pending.bytes).to_vec();
                assert_eq!(local, read_only, "read {op_id}");
            }
            (Work::Send { .. }, Done::Placed) => {}
            (Work::FetchAdd { .. }, Done::Old(old)) => self.added.push(old),
            other => panic!("{other:?}"),
        }
        self.stamp_source(&pending.source, op_id);
    }

    /// The immediate data of a write has arrived: its bytes must be here, and the cells are reused immediately.
    fn reuse_cells(&mut self, number: u64, peer: &End) {
        let Some(pending) = peer.pending.get(&number) else { return };
        let mut bytes = vec![0; pending.bytes];
        self.open.memory().read(pending.cells[0] * CELL, &mut bytes);
        assert_eq!(bytes, pattern(number, pending.bytes), "immediate data before its bytes");
        self.reused.insert(number);
        self.stamp(&pending.cells, number);
    }

    fn stamp(&mut self, cells: &[usize], number: u64) {
        let stamp = number << 8 | 0x5a;
        for cell in cells {
            self.open.memory().write(cell * CELL, &stamp_bytes(stamp));
            self.stamped.insert(*cell, stamp);
        }
    }

    /// Removes the stamps of cells that are about to be written. Called before the peer's operation
    /// is posted.
    pub(super) fn unstamp(&mut self, cells: &[usize]) {
        for cell in cells {
            self.stamped.remove(cell);
        }
    }

    /// Checks that stamps are unchanged.
    pub(super) fn check_stamps(&self) {
        for (region, stamps) in [(&self.open, &self.stamped), (&self.source, &self.source_stamped)]
        {
            for (cell, stamp) in stamps {
                let mut bytes = [0; CELL];
                region.memory().read(cell * CELL, &mut bytes);
                assert_eq!(bytes, stamp_bytes(*stamp), "late write to cell {cell}");
            }
        }
    }

    pub(super) fn grant(&self, core: &mut Core) -> [crate::remote::RemoteRegion; 2] {
        [core.grant(&self.open).unwrap(), core.grant(&self.read_only).unwrap()]
    }
}

/// Takes consecutive free cells.
fn take(used: &mut [bool; CELLS], count: usize) -> Option<Vec<usize>> {
    let begin = (0..=CELLS - count).find(|begin| !used[*begin..begin + count].contains(&true))?;
    used[begin..begin + count].fill(true);
    Some((begin..begin + count).collect())
}

/// A cell filled with one number.
fn stamp_bytes(stamp: u64) -> [u8; CELL] {
    let mut bytes = [0; CELL];
    bytes.as_chunks_mut().0.fill(stamp.to_le_bytes());
    bytes
}

/// Bytes that are unique to a number.
pub(super) fn pattern(number: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(number.wrapping_mul(0x1234_5678_9abc_def1));
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(random.number().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

const READ_ONLY_SEED: u64 = u64::MAX;
const RECEIVE_OP_ID: u64 = 0;
