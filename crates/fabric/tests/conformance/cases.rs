//! Cases for every reliable lane: transfers. A case gets two connected ends.

use std::sync::{Mutex, PoisonError};

use fabric::{Done, Memory, Op, Pages, Region, Rights, Slices, Work};

use crate::pair::{Pair, bytes, read};

/// Sizes around all limits: empty, a byte, words, inline sizes, MTUs, read-ahead, large.
const SIZES: [usize; 26] = [
    0,
    1,
    7,
    8,
    9,
    63,
    64,
    65,
    255,
    256,
    257,
    511,
    512,
    513,
    1023,
    1024,
    1025,
    4031,
    4032,
    4033,
    4095,
    4096,
    4097,
    65_537,
    300_001,
    1 << 20,
];

const WRITE: Rights = Rights { write: true, ..Rights::NONE };
const READ: Rights = Rights { read: true, ..Rights::NONE };

pub(crate) fn a_write_of_every_size_changes_exactly_its_range(mut pair: Pair) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = bytes(size, seed as u64);
        let from = pair.a.region_with(&data);
        let (region, window) = pair.shared(size + 128, WRITE);
        let to = window.at(64);
        assert_eq!(pair.succeed(Op::write(1, from.slice(..size), to)), Done::Placed, "{size}");
        assert_eq!(read(&region, 64, size), data, "{size} bytes");
        assert_eq!(read(&region, 0, 64), [0; 64], "before {size} bytes");
        assert_eq!(read(&region, 64 + size, 64), [0; 64], "after {size} bytes");
    }
}

pub(crate) fn a_read_of_every_size_changes_exactly_its_range(mut pair: Pair) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = bytes(size + 9, seed as u64);
        let (region, window) = pair.shared(size + 9, READ);
        region.memory().write(0, &data);
        let into = pair.a.region(size + 128, Rights::NONE);
        let op = Op::read(1, into.slice(64..64 + size), window.at(9));
        assert_eq!(pair.succeed(op), Done::Placed);
        assert_eq!(read(&into, 64, size), data[9..], "{size} bytes");
        assert_eq!(read(&into, 0, 64), [0; 64], "before {size} bytes");
        assert_eq!(read(&into, 64 + size, 64), [0; 64], "after {size} bytes");
    }
}

pub(crate) fn a_message_of_every_size_is_received(mut pair: Pair) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = bytes(size, seed as u64);
        let (from, into) = (pair.a.region_with(&data), pair.b.region(size + 8, Rights::NONE));
        pair.b.post(Op::receive(7, into.slice(..)));
        assert_eq!(pair.succeed(Op::send(1, from.slice(..size))), Done::Placed);
        let received = pair.completion_at_b();
        assert_eq!(received.op_id, 7);
        assert_eq!(received.outcome, Ok(Done::Received { length: size, imm: None }));
        assert_eq!(read(&into, 0, size), data, "{size} bytes");
        assert_eq!(read(&into, size, 8), [0; 8], "after {size} bytes");
    }
}

/// Sends and receives have different slices, and some messages arrive before their receives. Lanes that are
/// not ordered must only deliver each once.
pub(crate) fn long_messages_in_slices_stay_in_order_with_short_ones(mut pair: Pair) {
    const SIZES: [usize; 7] = [100, 300_001, 0, 131_073, (1 << 20) + 7, 5000, 262_144];
    const BUFFER_BYTES: usize = 2 << 20;
    let in_slices = |region: &Region, cuts: &[usize]| {
        let slices = cuts.windows(2).map(|cut| region.slice(cut[0]..cut[1]));
        Slices::Many(slices.collect())
    };
    let data = bytes(BUFFER_BYTES, 13);
    let from = pair.a.region_with(&data);
    let buffers = SIZES.map(|_| pair.b.region(BUFFER_BYTES, Rights::NONE));
    let receive = |(op_id, buffer): (usize, &Region)| {
        Op::receive(op_id as u64, in_slices(buffer, &[0, 9, 200_003, BUFFER_BYTES]))
    };
    let send = |(op_id, size): (usize, usize)| {
        let from = in_slices(&from, &[op_id, op_id, op_id + size / 3, op_id + size]);
        Op { op_id: op_id as u64, work: Work::Send { from, imm: Some(op_id as u32) } }
    };
    pair.b.post_all(buffers.iter().enumerate().take(2).map(receive).collect());
    pair.a.post_all(SIZES.into_iter().enumerate().map(send).collect());
    (0..64).for_each(|_| pair.poll_both());
    pair.b.post_all(buffers.iter().enumerate().skip(2).map(receive).collect());
    let mut received_before = [false; SIZES.len()];
    for next in 0..SIZES.len() {
        let received = pair.completion_at_b();
        let Ok(Done::Received { length, imm: Some(imm) }) = received.outcome else {
            panic!("{received:?}");
        };
        let (sent, buffer) = (imm as usize, &buffers[received.op_id as usize]);
        assert!(!pair.b.lane.caps().ordered || (sent, received.op_id) == (next, next as u64));
        assert!(!std::mem::replace(&mut received_before[sent], true), "{sent} twice");
        assert_eq!(length, SIZES[sent]);
        assert!(read(buffer, 0, length) == data[sent..sent + length], "{length} bytes");
        assert_eq!(read(buffer, length, 64), [0; 64], "after {length} bytes");
    }
    for op_id in 0..SIZES.len() {
        assert_eq!(pair.completion_of(op_id as u64), Ok(Done::Placed));
    }
}

pub(crate) fn every_alignment_is_written_and_read(mut pair: Pair) {
    let data = bytes(100, 5);
    let source = pair.a.region_with(&data);
    let (region, window) = pair.shared(200, Rights::ALL);
    for skip in 0..9 {
        for offset in 0..9 {
            region.memory().write(0, &[0; 200]);
            pair.succeed(Op::write(1, source.slice(skip..skip + 37), window.at(offset)));
            assert_eq!(read(&region, offset as usize, 37), data[skip..skip + 37]);
            let into = pair.a.region(64, Rights::NONE);
            pair.succeed(Op::read(2, into.slice(skip..skip + 37), window.at(offset)));
            assert_eq!(read(&into, skip, 37), data[skip..skip + 37]);
        }
    }
}

pub(crate) fn the_largest_operation_arrives(mut pair: Pair) {
    let size = pair.largest;
    let mut memories = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    memories.uses += 1;
    let [written, overwritten] = [2 * memories.uses, 2 * memories.uses + 1];
    let [near, far] = memories.of(size);
    let (from, region) = (pair.a.register(near, Rights::NONE), pair.b.register(far, Rights::ALL));
    let marks: Vec<usize> = (0..64).map(|n| n * (size / 64)).chain([size - 8]).collect();
    let mark = |memory: &Memory, seed: u64| {
        marks.iter().for_each(|mark| memory.write(*mark, &bytes(8, seed << 32 | *mark as u64)));
    };
    let assert_marked = |region: &Region, seed: u64| {
        for mark in &marks {
            assert_eq!(read(region, *mark, 8), bytes(8, seed << 32 | *mark as u64));
        }
    };
    mark(near, written);
    let window = pair.granted(&region);
    pair.succeed(Op::write(1, from.slice(..size), window.at(0)));
    assert_marked(&region, written);
    mark(near, overwritten);
    pair.succeed(Op::read(2, from.slice(..size), window.at(0)));
    assert_marked(&from, written);
}

/// Memory of the largest operations, used by one lane after the other: most of what they take is the kernel's time for
/// new pages.
struct LargeMemories {
    memories: Option<[Memory; 2]>,
    /// So that no case finds what the one before has written.
    uses: u64,
}

impl LargeMemories {
    fn of(&mut self, size: usize) -> &[Memory; 2] {
        let large = self.memories.take().filter(|[memory, _]| memory.len() >= size);
        let allocate = || Memory::allocate(size, Pages::Plain).expect("memory");
        self.memories.insert(large.unwrap_or_else(|| [allocate(), allocate()]))
    }
}

static LARGE: Mutex<LargeMemories> = Mutex::new(LargeMemories { memories: None, uses: 0 });

pub(crate) fn immediate_data_arrives_after_the_bytes_of_its_write(mut pair: Pair) {
    for size in [0, 1, 64, 5000, 1 << 20] {
        let data = bytes(size, 3);
        let from = pair.a.region_with(&data);
        let (region, window) = pair.shared(size + 1, WRITE);
        let buffer = pair.b.region(8, Rights::NONE);
        pair.b.post(Op::receive(9, buffer.slice(..0)));
        pair.a.post(Op::write_imm(1, from.slice(..size), window.at(1), 0xdead_beef));
        let received = pair.completion_at_b();
        let imm = Some(0xdead_beef);
        assert_eq!(received.outcome, Ok(Done::Received { length: size, imm }));
        assert_eq!(read(&region, 1, size), data);
        assert_eq!(pair.completion().outcome, Ok(Done::Placed));
    }
}

/// Writes and messages are posted without waiting, and some messages wait for their
/// receives. Lanes that are not ordered must only deliver everything in the end.
pub(crate) fn a_message_arrives_after_operations_posted_before_it(mut pair: Pair) {
    const SIZES: [usize; 4] = [8, 5000, 1 << 20, 100];
    let ordered = pair.a.lane.caps().ordered;
    assert_eq!(pair.b.lane.caps().ordered, ordered);
    let (source, buffer) = (pair.a.region(1 << 20, Rights::NONE), pair.b.region(8, Rights::NONE));
    // Rights that memory can be mapped with, and rights that it cannot.
    let targets: Vec<_> = (0..8)
        .map(|n| pair.shared(SIZES[n % 4], if n < 4 { Rights::ALL } else { WRITE }))
        .collect();
    for round in 1..=16u8 {
        source.memory().write(0, &vec![round; 1 << 20]);
        let is_written =
            |n: usize| read(&targets[n].0, 0, SIZES[n % 4]) == vec![round; SIZES[n % 4]];
        let ops = (0..8).flat_map(|n| {
            let write = Op::write(0, source.slice(..SIZES[n % 4]), targets[n].1.at(0));
            let message = match n % 2 {
                0 => {
                    let (from, imm) = (source.slice(..8).into(), Some(n as u32));
                    Op { op_id: 0, work: Work::Send { from, imm } }
                }
                _ => Op::write_imm(0, Slices::EMPTY, targets[n].1.at(0), n as u32),
            };
            [write, message]
        });
        let receives = (0..8).map(|_| Op::receive(0, buffer.slice(..)));
        let late = if round % 2 == 0 { 0 } else { 6 };
        pair.b.post_all(receives.clone().skip(late).collect());
        pair.a.post_all(ops.collect());
        pair.poll_both();
        pair.b.post_all(receives.take(late).collect());
        let mut last = None;
        for _ in 0..8 {
            let outcome = pair.completion_at_b().outcome;
            let Ok(Done::Received { imm: Some(imm), .. }) = outcome else { panic!("{outcome:?}") };
            if ordered {
                assert!((0..=imm as usize).all(is_written), "round {round}, message {imm}");
                assert!(
                    last.replace(imm).is_none_or(|last| last < imm),
                    "messages are out of order"
                );
            }
        }
        for _ in 0..16 {
            assert_eq!(pair.completion().outcome, Ok(Done::Placed));
        }
        assert!((0..8).all(is_written), "round {round}");
    }
}

/// A write completes while messages are partly sent and wait for receives: its immediate data is sent between messages.
pub(crate) fn immediate_data_does_not_split_a_waiting_message(mut pair: Pair) {
    const MESSAGES: u64 = 12;
    const SIZE: usize = 100_000;
    let (from, data) = (pair.a.region_with(&bytes(1 << 20, 1)), bytes(SIZE, 2));
    let (_region, window) = pair.shared(1 << 20, WRITE);
    let source = pair.a.region_with(&data);
    let mut ops = vec![Op::write_imm(MESSAGES, from.slice(..), window.at(0), 77)];
    ops.extend((0..MESSAGES).map(|op_id| Op::send(op_id, source.slice(..))));
    pair.a.post_all(ops);
    (0..256).for_each(|_| pair.poll_both());
    let buffers: Vec<Region> = (0..=MESSAGES).map(|_| pair.b.region(SIZE, Rights::NONE)).collect();
    for (op_id, buffer) in buffers.iter().enumerate() {
        pair.b.post(Op::receive(op_id as u64, buffer.slice(..)));
    }
    let mut immediates = 0;
    for _ in 0..=MESSAGES {
        let received = pair.completion_at_b();
        match received.outcome {
            Ok(Done::Received { length: SIZE, imm: None }) => {
                assert!(read(&buffers[received.op_id as usize], 0, SIZE) == data);
            }
            Ok(Done::Received { length: 0x10_0000, imm: Some(77) }) => immediates += 1,
            _ => panic!("{received:?}"),
        }
    }
    assert_eq!(immediates, 1);
    for op_id in 0..=MESSAGES {
        assert_eq!(pair.completion_of(op_id), Ok(Done::Placed));
    }
}

pub(crate) fn a_message_has_immediate_data(mut pair: Pair) {
    let (from, into) = (pair.a.region_with(b"hello"), pair.b.region(16, Rights::NONE));
    pair.b.post(Op::receive(2, into.slice(..)));
    let work = Work::Send { from: from.slice(..).into(), imm: Some(7) };
    pair.a.post(Op { op_id: 1, work });
    let received = pair.completion_at_b();
    assert_eq!(received.outcome, Ok(Done::Received { length: 5, imm: Some(7) }));
    assert_eq!(read(&into, 0, 5), *b"hello");
    assert_eq!(pair.completion().outcome, Ok(Done::Placed));
}

pub(crate) fn slices_are_gathered_and_scattered_in_order(mut pair: Pair) {
    let data = bytes(10_000, 11);
    let cuts = [0, 1, 1, 100, 5000, 9999, 10_000];
    let source = pair.a.region_with(&data);
    let slices = |region: &fabric::Region| {
        let cut = |pair: &[usize]| region.slice(pair[0]..pair[1]);
        Slices::Many(cuts.windows(2).map(cut).collect())
    };
    let (region, window) = pair.shared(10_000, Rights::ALL);
    pair.succeed(Op::write(1, slices(&source), window.at(0)));
    assert_eq!(read(&region, 0, 10_000), data);

    let into = pair.a.region(10_000, Rights::NONE);
    pair.succeed(Op::read(2, slices(&into), window.at(0)));
    assert_eq!(read(&into, 0, 10_000), data);

    let buffer = pair.b.region(10_000, Rights::NONE);
    pair.b.post(Op::receive(3, slices(&buffer)));
    pair.succeed(Op::send(4, slices(&source)));
    assert_eq!(pair.completion_at_b().outcome, Ok(Done::Received { length: 10_000, imm: None }));
    assert_eq!(read(&buffer, 0, 10_000), data);

    // The maximum number of slices, of a few bytes each, in reverse order.
    let count = pair.a.lane.caps().max_slices.min(40);
    let backwards = (0..count).rev().map(|at| source.slice(at * 5..at * 5 + 5)).collect();
    pair.b.post(Op::receive(5, buffer.slice(..count * 5)));
    pair.succeed(Op::send(6, Slices::Many(backwards)));
    let length = count * 5;
    assert_eq!(pair.completion_at_b().outcome, Ok(Done::Received { length, imm: None }));
    let expected: Vec<u8> = data[..length].chunks(5).rev().flatten().copied().collect();
    assert_eq!(read(&buffer, 0, length), expected);
}

pub(crate) fn atomics_add_and_swap(mut pair: Pair) {
    let (region, window) = pair.shared(64, Rights::ALL);
    let old = pair.a.region(8, Rights::NONE);
    region.memory().store(16, 40);
    let add = |op_id, add| {
        let work = Work::FetchAdd { old: old.slice(..), at: window.at(16), add };
        Op { op_id, work }
    };
    assert_eq!(pair.succeed(add(1, 2)), Done::Old(40));
    assert_eq!((region.memory().load(16), old.memory().load(0)), (42, 40));
    assert_eq!(pair.succeed(add(2, u64::MAX)), Done::Old(42));
    assert_eq!(region.memory().load(16), 41);
    let swap = |expect, new| {
        let work = Work::CompareSwap { old: old.slice(..), at: window.at(16), expect, new };
        Op { op_id: 3, work }
    };
    assert_eq!(pair.succeed(swap(40, 1)), Done::Old(41));
    assert_eq!(region.memory().load(16), 41, "the value did not equal `expect`");
    assert_eq!(pair.succeed(swap(41, 1)), Done::Old(41));
    assert_eq!((region.memory().load(16), old.memory().load(0)), (1, 41));
}

pub(crate) fn memory_in_flight_outlives_its_owners_handles(mut pair: Pair) {
    let data = bytes(1 << 20, 9);
    let (region, window) = pair.shared(1 << 20, WRITE);
    let from = pair.a.region_with(&data);
    pair.a.post(Op::write(1, from.slice(..), window.at(0)));
    drop((from, window));
    let completion = pair.completion();
    assert_eq!(completion.outcome, Ok(Done::Placed));
    let Work::Write { from, .. } = completion.work else { panic!("another operation") };
    assert_eq!(from.as_slice()[0].to_vec(), data, "the memory was not returned");
    assert_eq!(region.slice(..).to_vec(), data);
}

pub(crate) fn caller_owned_memory_is_transferred(mut pair: Pair) {
    let data = bytes(100_001, 4);
    let private = Memory::from_boxed(data.clone().into_boxed_slice()).expect("memory");
    let from = pair.a.fabric.register(&private, Rights::NONE).expect("registered");
    let buffer = Memory::from_boxed(vec![0; 100_009].into_boxed_slice()).expect("memory");
    let region = pair.b.fabric.register(&buffer, Rights::ALL).expect("registered");
    let remote = pair.b.lane.grant(&region).expect("granted");
    let window = pair.a.lane.import(&remote).expect("imported");
    pair.succeed(Op::write(1, from.slice(..), window.at(3)));
    assert_eq!(read(&region, 3, 100_001), data);
    let into = pair.a.region(100_009, Rights::NONE);
    pair.succeed(Op::read(2, into.slice(..), window.at(0)));
    assert_eq!(into.slice(..).to_vec(), region.slice(..).to_vec());
    drop((from, region, window));
    pair.poll_both();
    assert_eq!(*private.into_boxed().expect("no other owner"), data);
}
