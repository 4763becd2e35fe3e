//! Messages: whole, once, in order, and kept until somebody takes them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::link::{Class, Link};
use fabric::{Completion, Done, Failure, Lane, Op, Pieces, Region, Rights, Work};

use crate::pair::{LIMIT, Two, message, post};

const CLASSES: [Class; 2] = [Class::Shm, Class::Tcp];

#[test]
fn a_message_that_is_too_long_waits_for_a_receive_with_room() {
    for class in CLASSES {
        let mut two = Two::over(class);
        for size in [100, 10_000] {
            let from = two.region(0, size, Rights::NONE);
            from.memory().write(0, &vec![7; size]);
            let room = two.region(1, size, Rights::NONE);
            let short = |token| Op::receive(token, room.slice(..99));
            post(&mut two.acceptor, [short(1), short(2), Op::receive(3, room.slice(..))]);
            post(&mut two.dialler, [Op::send(4, from.slice(..)), Op::send(5, from.slice(..9))]);
            let [done, received] = two.run(2, 3);
            assert!(done.iter().all(|completion| completion.outcome == Ok(Done::Placed)));
            let outcomes = received.iter().map(|completion| (completion.token, completion.outcome));
            assert_eq!(
                outcomes.collect::<Vec<_>>(),
                [
                    (1, Err(Failure::TooLong)),
                    (2, Err(Failure::TooLong)),
                    (3, Ok(Done::Received { length: size, imm: None })),
                ]
            );
            assert_eq!(message(&received[2]), vec![7; size]);
            post(&mut two.acceptor, [short(6)]);
            let [_, received] = two.run(0, 1);
            assert_eq!(message(&received[0]), [7; 9], "the next in line is the next");
        }
        assert_eq!(two.acceptor.ended(), None);
    }
}

/// One end of a conversation in numbers.
struct Counterpart {
    source: Region,
    todo: VecDeque<Op>,
    sent: u64,
    placed: u64,
    heard: u64,
}

const MESSAGES: u64 = 10_000;
const SLOTS: u64 = 256;

impl Counterpart {
    fn new(source: Region) -> Self {
        let receives = (0..SLOTS).map(|slot| Op::receive(slot, slice(&source, slot)));
        Counterpart { todo: receives.collect(), source, sent: 0, placed: 0, heard: 0 }
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
                Done::Received { .. } => self.hear(&completion),
                _ => self.placed += 1,
            }
        }
    }

    fn hear(&mut self, completion: &Completion) {
        let number = u64::from_ne_bytes(message(completion).try_into().unwrap());
        assert_eq!(number, self.heard, "in order");
        self.heard += 1;
        self.todo.push_back(Op::receive(completion.token, slice(&self.source, completion.token)));
    }

    fn is_over(&self) -> bool {
        self.placed == MESSAGES && self.heard == MESSAGES
    }
}

fn slice(source: &Region, slot: u64) -> fabric::Slice {
    let begin = slot as usize * 8;
    source.slice(begin..begin + 8)
}

#[test]
fn ten_thousand_messages_both_ways_at_once_arrive_in_order() {
    for class in CLASSES {
        let mut two = Two::over(class);
        let mut talkers = [0, 1]
            .map(|end| Counterpart::new(two.region(end, 2 * 8 * SLOTS as usize, Rights::NONE)));
        let begun = Instant::now();
        while !talkers.iter().all(Counterpart::is_over) {
            assert!(begun.elapsed() < LIMIT, "{:#?}", two.dialler.report().explain());
            talkers[0].step(&mut two.dialler);
            talkers[1].step(&mut two.acceptor);
        }
    }
}

#[test]
fn sends_that_nobody_receives_wait_and_go_on_later() {
    const COUNT: u64 = 500;
    for class in CLASSES {
        let mut two = Two::over(class);
        let from = two.region(0, 8 * COUNT as usize, Rights::NONE);
        let sends = (0..COUNT).map(|number| {
            let begin = 8 * number as usize;
            from.memory().store(begin, number);
            Op::send(number, from.slice(begin..begin + 8))
        });
        let sends: Vec<Op> = sends.collect();
        post(&mut two.dialler, sends);
        // As many as the peer keeps are over, the others wait.
        let begun = Instant::now();
        let mut done = [Vec::new(), Vec::new()];
        while begun.elapsed() < Duration::from_millis(500) {
            two.dialler.poll(&mut done[0]);
            two.acceptor.poll(&mut done[1]);
        }
        assert!(done[0].len() < COUNT as usize, "{} of {COUNT} went out", done[0].len());
        assert!(done[0].iter().all(|completion| completion.outcome == Ok(Done::Placed)));
        // What is no message does not wait for them.
        let there = two.region(1, 64, Rights::ALL);
        let window = two.grant(&there);
        let work = Work::FetchAdd { old: from.slice(..8), at: window.at(8), add: 5 };
        let others = [Op::write(1000, from.slice(8..16), window.at(0)), Op { token: 1001, work }];
        post(&mut two.dialler, others);
        let [more, _] = two.run(2, 0);
        let tokens: Vec<u64> = more.iter().map(|completion| completion.token).collect();
        assert!(tokens.contains(&1000) && tokens.contains(&1001), "{tokens:?}");

        let room = two.region(1, 8 * COUNT as usize, Rights::NONE);
        let receives = (0..COUNT as usize)
            .map(|number| Op::receive(number as u64, room.slice(8 * number..8 * number + 8)));
        let receives: Vec<Op> = receives.collect();
        post(&mut two.acceptor, receives);
        let [rest, received] = two.run(COUNT as usize - done[0].len(), COUNT as usize);
        assert!(rest.iter().chain(&received).all(|completion| completion.outcome.is_ok()));
        for number in 1..COUNT {
            assert_eq!(room.memory().load(8 * number as usize), number);
        }
    }
}

#[test]
fn nothing_at_all_can_be_sent_written_and_read() {
    for class in CLASSES {
        let mut two = Two::over(class);
        let (here, there) = (two.region(0, 8, Rights::NONE), two.region(1, 8, Rights::ALL));
        let window = two.grant(&there);
        let nothing = || here.slice(..0);
        let receives = [
            Op::receive(1, Pieces::EMPTY),
            Op::receive(2, there.slice(..0)),
            Op::receive(3, Pieces::EMPTY),
        ];
        post(&mut two.acceptor, receives);
        post(
            &mut two.dialler,
            [
                Op::send(1, Pieces::EMPTY),
                Op::send(2, nothing()),
                Op::write_imm(3, Pieces::EMPTY, window.at(8), 9),
                Op::write(4, nothing(), window.at(0)),
                Op::write(5, Pieces::EMPTY, window.at(8)),
                Op::read(6, nothing(), window.at(8)),
                Op::read(7, Pieces::EMPTY, window.at(0)),
            ],
        );
        let [done, received] = two.run(7, 3);
        assert!(done.iter().all(|completion| completion.outcome == Ok(Done::Placed)), "{done:?}");
        let empty = |imm| Ok(Done::Received { length: 0, imm });
        let outcomes: Vec<_> = received.iter().map(|completion| completion.outcome).collect();
        assert_eq!(outcomes, [empty(None), empty(None), empty(Some(9))]);
        assert_eq!(there.memory().load(0), 0);
        let beyond = two.do_one(Op::write(8, Pieces::EMPTY, window.at(9)));
        assert_eq!(beyond, Err(Failure::Access), "nothing is beyond the end too");
    }
}
