//! Messages: delivered once and in order, and stored until they are received.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::link::{Link, Transport};
use fabric::{Completion, Done, Failure, Lane, Op, Region, Rights, Slices, Work};

use crate::pair::{LIMIT, LinkPair, message, post};

const CLASSES: [Transport; 2] = [Transport::Shm, Transport::Tcp];

#[test]
fn a_long_message_waits_for_a_receive_that_is_long_enough() {
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        for size in [100, 10_000] {
            let from = pair.region(0, size, Rights::NONE);
            from.memory().write(0, &vec![7; size]);
            let into = pair.region(1, size, Rights::NONE);
            let short = |op_id| Op::receive(op_id, into.slice(..99));
            post(&mut pair.accepted, [short(1), short(2), Op::receive(3, into.slice(..))]);
            post(&mut pair.initiator, [Op::send(4, from.slice(..)), Op::send(5, from.slice(..9))]);
            let [done, received] = pair.run(2, 3);
            assert!(done.iter().all(|completion| completion.outcome == Ok(Done::Placed)));
            let outcomes = received.iter().map(|completion| (completion.op_id, completion.outcome));
            assert_eq!(
                outcomes.collect::<Vec<_>>(),
                [
                    (1, Err(Failure::TooLong)),
                    (2, Err(Failure::TooLong)),
                    (3, Ok(Done::Received { length: size, imm: None })),
                ]
            );
            assert_eq!(message(&received[2]), vec![7; size]);
            post(&mut pair.accepted, [short(6)]);
            let [_, received] = pair.run(0, 1);
            assert_eq!(message(&received[0]), [7; 9], "the next message is next");
        }
        assert_eq!(pair.accepted.ended(), None);
    }
}

/// One end of an exchange of numbered messages.
struct Counterpart {
    source: Region,
    todo: VecDeque<Op>,
    sent: u64,
    placed: u64,
    received: u64,
}

const MESSAGES: u64 = 10_000;
const SLOTS: u64 = 256;

impl Counterpart {
    fn new(source: Region) -> Self {
        let receives = (0..SLOTS).map(|slot| Op::receive(slot, slice(&source, slot)));
        Counterpart { todo: receives.collect(), source, sent: 0, placed: 0, received: 0 }
    }

    fn step(&mut self, link: &mut Link) {
        if self.sent < MESSAGES && self.sent < self.placed + SLOTS {
            let slot = slice(&self.source, SLOTS + self.sent % SLOTS);
            self.source.memory().store(slot.offset(), self.sent);
            self.todo.push_back(Op::send(self.sent, slot));
            self.sent += 1;
        }
        link.post(&mut self.todo);
        let mut done = Vec::new();
        link.poll(&mut done);
        for completion in done {
            match completion.outcome.unwrap() {
                Done::Received { .. } => self.receive(&completion),
                _ => self.placed += 1,
            }
        }
    }

    fn receive(&mut self, completion: &Completion) {
        let number = u64::from_ne_bytes(message(completion).try_into().unwrap());
        assert_eq!(number, self.received, "in order");
        self.received += 1;
        self.todo.push_back(Op::receive(completion.op_id, slice(&self.source, completion.op_id)));
    }

    fn is_done(&self) -> bool {
        self.placed == MESSAGES && self.received == MESSAGES
    }
}

fn slice(source: &Region, slot: u64) -> fabric::Slice {
    let begin = slot as usize * 8;
    source.slice(begin..begin + 8)
}

#[test]
fn ten_thousand_messages_in_both_directions_arrive_in_order() {
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let mut ends = [0, 1]
            .map(|end| Counterpart::new(pair.region(end, 2 * 8 * SLOTS as usize, Rights::NONE)));
        let started = Instant::now();
        while !ends.iter().all(Counterpart::is_done) {
            assert!(started.elapsed() < LIMIT, "{:#?}", pair.initiator.report().status());
            ends[0].step(&mut pair.initiator);
            ends[1].step(&mut pair.accepted);
        }
    }
}

#[test]
fn sends_without_receives_wait() {
    const COUNT: u64 = 500;
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let from = pair.region(0, 8 * COUNT as usize, Rights::NONE);
        let sends = (0..COUNT).map(|number| {
            let begin = 8 * number as usize;
            from.memory().store(begin, number);
            Op::send(number, from.slice(begin..begin + 8))
        });
        let sends: Vec<Op> = sends.collect();
        post(&mut pair.initiator, sends);
        // As many as the peer stores complete, the others wait.
        let started = Instant::now();
        let mut done = [Vec::new(), Vec::new()];
        while started.elapsed() < Duration::from_millis(500) {
            pair.initiator.poll(&mut done[0]);
            pair.accepted.poll(&mut done[1]);
        }
        assert!(done[0].len() < COUNT as usize, "{} of {COUNT} went out", done[0].len());
        assert!(done[0].iter().all(|completion| completion.outcome == Ok(Done::Placed)));
        // Other operations do not wait for them.
        let there = pair.region(1, 64, Rights::ALL);
        let window = pair.grant(&there);
        let work = Work::FetchAdd { old: from.slice(..8), at: window.at(8), add: 5 };
        let others = [Op::write(1000, from.slice(8..16), window.at(0)), Op { op_id: 1001, work }];
        post(&mut pair.initiator, others);
        let [more, _] = pair.run(2, 0);
        let op_ids: Vec<u64> = more.iter().map(|completion| completion.op_id).collect();
        assert!(op_ids.contains(&1000) && op_ids.contains(&1001), "{op_ids:?}");

        let into = pair.region(1, 8 * COUNT as usize, Rights::NONE);
        let receives = (0..COUNT as usize)
            .map(|number| Op::receive(number as u64, into.slice(8 * number..8 * number + 8)));
        let receives: Vec<Op> = receives.collect();
        post(&mut pair.accepted, receives);
        let [rest, received] = pair.run(COUNT as usize - done[0].len(), COUNT as usize);
        assert!(rest.iter().chain(&received).all(|completion| completion.outcome.is_ok()));
        for number in 1..COUNT {
            assert_eq!(into.memory().load(8 * number as usize), number);
        }
    }
}

#[test]
fn empty_sends_writes_and_reads_succeed() {
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let (here, there) = (pair.region(0, 8, Rights::NONE), pair.region(1, 8, Rights::ALL));
        let window = pair.grant(&there);
        let nothing = || here.slice(..0);
        let receives = [
            Op::receive(1, Slices::EMPTY),
            Op::receive(2, there.slice(..0)),
            Op::receive(3, Slices::EMPTY),
        ];
        post(&mut pair.accepted, receives);
        post(
            &mut pair.initiator,
            [
                Op::send(1, Slices::EMPTY),
                Op::send(2, nothing()),
                Op::write_imm(3, Slices::EMPTY, window.at(8), 9),
                Op::write(4, nothing(), window.at(0)),
                Op::write(5, Slices::EMPTY, window.at(8)),
                Op::read(6, nothing(), window.at(8)),
                Op::read(7, Slices::EMPTY, window.at(0)),
            ],
        );
        let [done, received] = pair.run(7, 3);
        assert!(done.iter().all(|completion| completion.outcome == Ok(Done::Placed)), "{done:?}");
        let empty = |imm| Ok(Done::Received { length: 0, imm });
        let outcomes: Vec<_> = received.iter().map(|completion| completion.outcome).collect();
        assert_eq!(outcomes, [empty(None), empty(None), empty(Some(9))]);
        assert_eq!(there.memory().load(0), 0);
        let beyond = pair.do_one(Op::write(8, Slices::EMPTY, window.at(9)));
        assert_eq!(beyond, Err(Failure::Access), "an empty write beyond the end");
    }
}
