//! One end's share of a trial: what it asks for, and whether what it gets is right.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Dice;
use crate::half::register_software;
use crate::link::core::Core;
use crate::memory::{Memory, Pages};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Region, Rights, Slice};
use crate::remote::Window;

/// A region is divided into cells; each operation uses some of the peer's and some of ours, alone.
pub(super) const CELL: usize = 256;
pub(super) const CELLS: usize = 64;

pub(super) struct End {
    /// The peer writes here. The last page is for counters.
    pub(super) open: Region,
    /// The peer reads here, and it never changes.
    pub(super) library: Region,
    /// Our side of operations.
    pub(super) source: Region,
    pub(super) window: Option<Window>,
    pub(super) readable: Option<Window>,
    /// To be posted; receives apart, so that neither waits for the other.
    pub(super) todo: VecDeque<Op>,
    pub(super) trays_out: VecDeque<Op>,
    /// What is in flight, by token.
    pub(super) asked: BTreeMap<u64, Asked>,
    /// Our source's cells that are in use.
    source_used: [bool; CELLS],
    /// The peer's cells that are in use, by our operations.
    pub(super) open_used: [bool; CELLS],
    pub(super) next: u64,
    /// Messages and immediate data: sent by us, and received by us.
    pub(super) sent: Vec<u64>,
    pub(super) received: Vec<u64>,
    pub(super) noted: Vec<u64>,
    pub(super) notices: Vec<u64>,
    pub(super) added: Vec<u64>,
    pub(super) receives: usize,
    trays: Vec<Slice>,
    /// What we wrote over cells that were given back: nothing may change it.
    pub(super) stamped: BTreeMap<usize, u64>,
    pub(super) source_stamped: BTreeMap<usize, u64>,
    /// What surely did not happen, and additions of which nobody can tell.
    pub(super) undone: Vec<u64>,
    pub(super) unknown_additions: u64,
    /// No more receives are posted.
    pub(super) closing: bool,
    /// Immediate data whose cells were used again before their writes were over.
    taken: BTreeSet<u64>,
    pub(super) writes: usize,
}

/// What an operation is about.
pub(super) struct Asked {
    pub(super) source: Vec<usize>,
    pub(super) cells: Vec<usize>,
    pub(super) bytes: usize,
}

impl End {
    pub(super) fn new() -> Self {
        let region = |length: usize, rights| {
            register_software(&Memory::allocate(length, Pages::Plain).unwrap(), rights)
        };
        let library = region(CELL * CELLS, Rights { read: true, ..Rights::NONE });
        library.memory().write(0, &pattern(LIBRARY, CELL * CELLS));
        End {
            open: region(CELL * CELLS + 4096, Rights::ALL),
            library,
            source: region(CELL * CELLS, Rights::NONE),
            window: None,
            readable: None,
            todo: VecDeque::new(),
            trays_out: VecDeque::new(),
            asked: BTreeMap::new(),
            source_used: [false; CELLS],
            open_used: [false; CELLS],
            next: 1,
            sent: Vec::new(),
            received: Vec::new(),
            noted: Vec::new(),
            notices: Vec::new(),
            added: Vec::new(),
            receives: 0,
            trays: Vec::new(),
            stamped: BTreeMap::new(),
            source_stamped: BTreeMap::new(),
            undone: Vec::new(),
            unknown_additions: 0,
            closing: false,
            taken: BTreeSet::new(),
            writes: 0,
        }
    }

    /// Asks for something, by chance.
    pub(super) fn ask(&mut self, dice: &mut Dice) {
        let (Some(window), Some(readable)) = (self.window.clone(), self.readable.clone()) else {
            return;
        };
        let token = self.next;
        let most = if dice.one_in(4) { 24 } else { 4 };
        let cells = 1 + dice.below(most);
        let bytes = (cells * CELL).saturating_sub(dice.below(CELL));
        let Some(source) = take(&mut self.source_used, cells) else { return };
        let begin = source[0] * CELL;
        let ours = self.source.slice(begin..begin + bytes);
        let mut asked = Asked { source, cells: Vec::new(), bytes };
        let op = match dice.below(10) {
            0..4 => {
                let Some(cells) = take(&mut self.open_used, cells) else {
                    return self.put_back(&asked);
                };
                self.source.memory().write(begin, &pattern(token, bytes));
                let to = window.at((cells[0] * CELL) as u64);
                asked.cells = cells;
                let imm = dice.one_in(2).then_some(token as u32);
                if imm.is_some() {
                    self.noted.push(token);
                }
                self.writes += 1;
                Op { token, work: Work::Write { from: ours.into(), to, imm } }
            }
            4..6 => {
                let cell = dice.below(CELLS - asked.source.len() + 1);
                asked.cells = vec![cell];
                Op::read(token, ours, readable.at((cell * CELL) as u64))
            }
            6..9 => {
                let bytes = if dice.one_in(8) { 0 } else { bytes };
                asked.bytes = bytes;
                self.source.memory().write(begin, &pattern(token, bytes));
                self.sent.push(token);
                let from = self.source.slice(begin..begin + bytes).into();
                Op { token, work: Work::Send { from, imm: Some(token as u32) } }
            }
            _ => {
                let old = self.source.slice(begin..begin + 8);
                let at = window.at((CELL * CELLS) as u64);
                Op { token, work: Work::FetchAdd { old, at, add: 1 } }
            }
        };
        for cell in &asked.source {
            self.source_stamped.remove(cell);
        }
        self.next += 1;
        self.asked.insert(token, asked);
        self.todo.push_back(op);
    }

    /// Makes room for a message or immediate data.
    pub(super) fn offer_receive(&mut self) {
        self.receives += 1;
        let slice = self.trays.pop().unwrap_or_else(|| {
            let memory = Memory::allocate(CELL * 24, Pages::Plain).unwrap();
            register_software(&memory, Rights::NONE).slice(..)
        });
        self.trays_out.push_back(Op::receive(RECEIVES, slice));
    }

    fn put_back(&mut self, asked: &Asked) {
        for cell in &asked.source {
            self.source_used[*cell] = false;
        }
    }

    /// As [`End::over`], at a link that is lost.
    pub(super) fn over_or_lost(&mut self, completion: Completion, peer: &mut End) {
        let Err(failure) = completion.outcome else { return self.over(completion, peer) };
        if let Work::Receive { .. } = completion.work {
            self.receives -= 1;
            assert_eq!(failure, Failure::PeerGone);
            return;
        }
        let asked = self.asked.remove(&completion.token).expect("asked for once");
        assert!(matches!(failure, Failure::Unknown | Failure::PeerGone), "{failure:?}");
        if failure == Failure::PeerGone && !matches!(completion.work, Work::Read { .. }) {
            self.undone.push(completion.token);
        } else if let Work::FetchAdd { .. } = completion.work {
            self.unknown_additions += 1;
        }
        // Our memory is ours again, whatever happened to the peer's.
        self.stamp_source(&asked.source, completion.token);
    }

    fn stamp_source(&mut self, source: &[usize], token: u64) {
        for cell in source {
            // Nor may anything come into memory that was given back.
            let stamp = token << 8 | 0xa5;
            self.source.memory().write(cell * CELL, &stamp_bytes(stamp));
            self.source_stamped.insert(*cell, stamp);
            self.source_used[*cell] = false;
        }
    }

    /// Looks at what is over. `peer` is the other end.
    pub(super) fn over(&mut self, completion: Completion, peer: &mut End) {
        let Completion { token, outcome, work } = completion;
        let done = outcome.unwrap_or_else(|failure| panic!("{token} failed: {failure:?} {work:?}"));
        if let Work::Receive { into } = &work {
            self.receives -= 1;
            let Done::Received { length, imm } = done else { panic!("{done:?}") };
            let number = u64::from(imm.unwrap());
            self.trays.extend(into.as_slice().iter().cloned());
            if peer.noted.contains(&number) {
                self.take_over(number, peer);
                return self.notices.push(number);
            }
            let bytes = into.as_slice()[0].to_vec();
            assert_eq!(bytes[..length], pattern(number, length), "message {number}");
            return self.received.push(number);
        }
        let asked = self.asked.remove(&token).expect("asked for once");
        let local = work.local()[0].to_vec();
        match (&work, done) {
            (Work::Write { .. }, Done::Placed) => {
                // Unless the target had its immediate data first, and uses the place already.
                if !peer.taken.contains(&token) {
                    let mut there = vec![0; asked.bytes];
                    peer.open.memory().read(asked.cells[0] * CELL, &mut there);
                    assert_eq!(there, local, "write {token} is over, so it is placed");
                    peer.stamp(&asked.cells, token);
                }
                for cell in &asked.cells {
                    self.open_used[*cell] = false;
                }
            }
            (Work::Read { .. }, Done::Placed) => {
                let begin = asked.cells[0] * CELL;
                let library = peer.library.slice(begin..begin + asked.bytes).to_vec();
                assert_eq!(local, library, "read {token}");
            }
            (Work::Send { .. }, Done::Placed) => {}
            (Work::FetchAdd { .. }, Done::Old(old)) => self.added.push(old),
            other => panic!("{other:?}"),
        }
        self.stamp_source(&asked.source, token);
    }

    /// The immediate data of a write came: its bytes are here, and the place is used for something else at once.
    fn take_over(&mut self, number: u64, peer: &End) {
        let Some(asked) = peer.asked.get(&number) else { return };
        let mut bytes = vec![0; asked.bytes];
        self.open.memory().read(asked.cells[0] * CELL, &mut bytes);
        assert_eq!(bytes, pattern(number, asked.bytes), "immediate data before its bytes");
        self.taken.insert(number);
        self.stamp(&asked.cells, number);
    }

    fn stamp(&mut self, cells: &[usize], number: u64) {
        let stamp = number << 8 | 0x5a;
        for cell in cells {
            self.open.memory().write(cell * CELL, &stamp_bytes(stamp));
            self.stamped.insert(*cell, stamp);
        }
    }

    /// A cell of ours is about to be written: its stamp need not stay. Called before the peer's operation
    /// is posted.
    pub(super) fn unstamp(&mut self, cells: &[usize]) {
        for cell in cells {
            self.stamped.remove(cell);
        }
    }

    /// Whether what was given back is as it was left.
    pub(super) fn check_stamps(&self) {
        for (region, stamps) in [(&self.open, &self.stamped), (&self.source, &self.source_stamped)]
        {
            for (cell, stamp) in stamps {
                let mut bytes = [0; CELL];
                region.memory().read(cell * CELL, &mut bytes);
                assert_eq!(bytes, stamp_bytes(*stamp), "something landed in cell {cell} late");
            }
        }
    }

    pub(super) fn grant(&self, core: &mut Core) -> [crate::remote::RemoteRegion; 2] {
        [core.grant(&self.open).unwrap(), core.grant(&self.library).unwrap()]
    }
}

/// Consecutive cells that nobody uses.
fn take(used: &mut [bool; CELLS], count: usize) -> Option<Vec<usize>> {
    let begin = (0..=CELLS - count).find(|begin| !used[*begin..begin + count].contains(&true))?;
    used[begin..begin + count].fill(true);
    Some((begin..begin + count).collect())
}

/// One number all over.
fn stamp_bytes(stamp: u64) -> [u8; CELL] {
    let mut bytes = [0; CELL];
    bytes.as_chunks_mut().0.fill(stamp.to_le_bytes());
    bytes
}

/// Bytes that only this number has.
pub(super) fn pattern(number: u64, length: usize) -> Vec<u8> {
    let mut dice = Dice::new(number.wrapping_mul(0x1234_5678_9abc_def1));
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(dice.number().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

const LIBRARY: u64 = u64::MAX;
const RECEIVES: u64 = 0;
