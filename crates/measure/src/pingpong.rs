//! One operation in flight: the hot loop of latency tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::{Done, Op, Work};

use crate::Error;
use crate::end::{TestLane, padding};
use crate::latency_recorder::LatencyRecorder;
use crate::stream::{STALL_TIMEOUT, TICK_INTERVAL};
use crate::ticks::{Stopwatch, ticks};
use report::{Limit, Operation, Plan};

/// The result of a latency test.
#[derive(Default)]
pub(crate) struct PingPongResult {
    pub(crate) operations: u64,
    pub(crate) took: Duration,
    /// Datagrams without an answer.
    pub(crate) lost: u64,
    /// CPU time of the counted rounds.
    pub(crate) cpu_seconds: f64,
}

/// Runs rounds until the limit, after a warm-up.
pub(crate) fn run_leader(
    test_lane: &mut TestLane,
    plan: &Plan,
    recorder: &mut LatencyRecorder,
    mut on_tick: impl FnMut(u64) -> Result<(), Error>,
) -> Result<PingPongResult, Error> {
    match plan.operation {
        Operation::Write => {
            let mut end = Writer::new(test_lane, plan)?;
            let result = run_rounds(plan, recorder, 2, &mut on_tick, |round, on_tick| {
                end.round(round, on_tick)
            })?;
            end.send(LAST_ROUND)?;
            end.wait_reusable(&mut on_tick)?;
            Ok(result)
        }
        Operation::Send => {
            test_lane.post_receives(plan);
            let mut end = Sender::new(test_lane, plan)?;
            let result =
                run_rounds(plan, recorder, 2, &mut on_tick, |_, on_tick| end.round(on_tick))?;
            let lost = end.lost;
            end.end(&mut on_tick)?;
            Ok(PingPongResult { lost, ..result })
        }
        Operation::Read | Operation::Atomic => {
            let mut op = VecDeque::from([test_lane.op(plan, 0)?]);
            run_rounds(plan, recorder, 1, &mut on_tick, |_, on_tick| {
                one_sided(test_lane, &mut op, on_tick)
            })
        }
    }
}

/// Answers until the other end has finished.
pub(crate) fn run_follower(
    test_lane: &mut TestLane,
    plan: &Plan,
    mut on_tick: impl FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    if plan.operation == Operation::Send {
        return Sender::new(test_lane, plan)?.follow(&mut on_tick);
    }
    let mut end = Writer::new(test_lane, plan)?;
    let mut round = 1;
    while end.receive(round, &mut on_tick)? != LAST_ROUND {
        end.send(round)?;
        end.wait_reusable(&mut on_tick)?;
        round += 1;
    }
    Ok(())
}

/// Called regularly with the number of rounds; its error ends the test.
type OnTick<'t> = &'t mut dyn FnMut(u64) -> Result<(), Error>;

/// Runs the rounds of the warm-up, then those that count.
fn run_rounds(
    plan: &Plan,
    recorder: &mut LatencyRecorder,
    directions: u64,
    on_tick: OnTick<'_>,
    mut round: impl FnMut(u64, OnTick<'_>) -> Result<(), Error>,
) -> Result<PingPongResult, Error> {
    let mut number = 0;
    let mut result = PingPongResult::default();
    for (limit, counts) in [(plan.warm_up, false), (plan.limit, true)] {
        let cpu = crate::cpu::seconds();
        let mut run_limit = RunLimit { limit, counts, watch: Stopwatch::start(), next_reading: 0 };
        let mut counted = 0;
        // One reading ends a round and starts the next.
        let mut from = ticks();
        while run_limit.continues(counted, from, &mut *on_tick)? {
            number += 1;
            round(number, &mut *on_tick)?;
            let now = ticks();
            if counts {
                recorder.record(now.saturating_sub(from) / directions);
            }
            from = now;
            counted += 1;
        }
        let took = run_limit.watch.started().elapsed();
        let cpu_seconds = crate::cpu::seconds() - cpu;
        result = PingPongResult { operations: counted, took, lost: 0, cpu_seconds };
    }
    Ok(result)
}

/// The limit of a run. The system clock is read rarely.
struct RunLimit {
    limit: Limit,
    /// Whether rounds are reported: not those of the warm-up.
    counts: bool,
    watch: Stopwatch,
    /// The tick of the next reading of the system clock.
    next_reading: u64,
}

impl RunLimit {
    #[inline]
    fn continues(&mut self, counted: u64, now: u64, on_tick: OnTick<'_>) -> Result<bool, Error> {
        match self.limit {
            Limit::Count(count) if counted >= count => Ok(false),
            _ if now < self.next_reading => Ok(true),
            _ => self.read_clock(counted, now, on_tick),
        }
    }

    /// Reads the clock, and schedules the next reading: halfway to the limit, so that the end is precise.
    #[cold]
    fn read_clock(&mut self, counted: u64, now: u64, on_tick: OnTick<'_>) -> Result<bool, Error> {
        on_tick(if self.counts { counted } else { 0 })?;
        let left = match self.limit {
            Limit::Count(_) => TICK_INTERVAL,
            Limit::Milliseconds(_) => {
                let left = self.limit.time().saturating_sub(self.watch.started().elapsed());
                if left.is_zero() {
                    return Ok(false);
                }
                TICK_INTERVAL.min(left / 2)
            }
        };
        let pause = left.as_nanos() as f64 / self.watch.nanoseconds_per_tick();
        self.next_reading = now.saturating_add(pause as u64);
        Ok(true)
    }
}

/// An operation that does not involve the other end's CPU.
fn one_sided(
    test_lane: &mut TestLane,
    op: &mut VecDeque<Op>,
    on_tick: OnTick<'_>,
) -> Result<(), Error> {
    test_lane.lane.post(op);
    let mut wait = Wait::new();
    while op.is_empty() {
        let done = test_lane.poll()?;
        op.extend(done.drain(..).map(|completion| Op { op_id: 0, work: completion.work }));
        wait.count_poll(on_tick)?;
    }
    Ok(())
}

/// Writes messages with the round number as the last bytes, and polls memory for the other end's.
struct Writer<'t> {
    test_lane: &'t mut TestLane,
    ready: VecDeque<Op>,
    /// The offset of the round number.
    mark: usize,
    /// Whether data arrives only if this end polls.
    polls: bool,
}

impl<'t> Writer<'t> {
    fn new(test_lane: &'t mut TestLane, plan: &Plan) -> Result<Self, Error> {
        let ready = VecDeque::from([test_lane.op(plan, 0)?]);
        let polls = test_lane.lane.caps().peer_must_poll;
        Ok(Writer { test_lane, ready, mark: padding(plan) + plan.size as usize - 8, polls })
    }

    fn round(&mut self, round: u64, on_tick: OnTick<'_>) -> Result<(), Error> {
        self.send(round)?;
        self.receive(round, on_tick)?;
        self.wait_reusable(on_tick)
    }

    fn send(&mut self, round: u64) -> Result<(), Error> {
        self.test_lane.source.memory().store(self.mark, round);
        self.test_lane.lane.post(&mut self.ready);
        Ok(())
    }

    /// Waits for a round, or the last one.
    fn receive(&mut self, round: u64, on_tick: OnTick<'_>) -> Result<u64, Error> {
        let mut wait = Wait::new();
        loop {
            let seen = self.test_lane.target.memory().load(self.mark);
            if seen == round || seen == LAST_ROUND {
                return Ok(seen);
            }
            // Once the message is sent, a lane that needs no polling can only report its failure.
            if self.ready.is_empty() || self.polls || wait.polls_done.is_multiple_of(LOADS_PER_POLL)
            {
                self.poll()?;
            }
            wait.count_poll(on_tick)?;
        }
    }

    /// Waits until the message's operation can be posted again.
    fn wait_reusable(&mut self, on_tick: OnTick<'_>) -> Result<(), Error> {
        let mut wait = Wait::new();
        while self.ready.is_empty() {
            self.poll()?;
            wait.count_poll(on_tick)?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Error> {
        let done = self.test_lane.poll()?;
        let ops = done.drain(..).map(|completion| Op { op_id: 0, work: completion.work });
        self.ready.extend(ops);
        Ok(())
    }
}

/// Sends messages, and receives the other end's.
struct Sender<'t> {
    test_lane: &'t mut TestLane,
    ready: VecDeque<Op>,
    received: u64,
    has_ended: bool,
    /// The time without an answer after which a datagram counts as lost; `None` for reliable messages.
    answer_timeout: Option<Duration>,
    lost: u64,
}

impl<'t> Sender<'t> {
    fn new(test_lane: &'t mut TestLane, plan: &Plan) -> Result<Self, Error> {
        let ready = VecDeque::from([test_lane.op(plan, 0)?]);
        let answer_timeout = plan.datagrams.then_some(ANSWER_TIMEOUT);
        Ok(Sender { test_lane, ready, received: 0, has_ended: false, answer_timeout, lost: 0 })
    }

    fn round(&mut self, on_tick: OnTick<'_>) -> Result<(), Error> {
        let wanted = self.received + 1;
        self.test_lane.lane.post(&mut self.ready);
        let mut wait = Wait::new();
        while self.received < wanted || self.ready.is_empty() {
            self.poll()?;
            wait.count_poll(on_tick)?;
            if self.answer_timeout.is_some_and(|answer_timeout| wait.is_longer(answer_timeout)) {
                self.lost += 1;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers every message until the last one.
    fn follow(&mut self, on_tick: OnTick<'_>) -> Result<(), Error> {
        let mut answered = 0;
        let mut wait = Wait::new();
        while !self.has_ended {
            self.poll()?;
            if self.received > answered && !self.ready.is_empty() && !self.has_ended {
                self.test_lane.lane.post(&mut self.ready);
                answered = self.received;
                wait = Wait::new();
            }
            wait.count_poll(on_tick)?;
        }
        Ok(())
    }

    /// Sends the last message; several if they are datagrams, since one may be lost.
    fn end(&mut self, on_tick: OnTick<'_>) -> Result<(), Error> {
        for _ in 0..if self.answer_timeout.is_some() { 3 } else { 1 } {
            if let Some(Op { work: Work::Send { imm, .. }, .. }) = self.ready.front_mut() {
                *imm = Some(LAST_MESSAGE);
            }
            self.test_lane.lane.post(&mut self.ready);
            let mut wait = Wait::new();
            while self.ready.is_empty() {
                self.poll()?;
                wait.count_poll(on_tick)?;
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Error> {
        let mut receives = VecDeque::new();
        let done = self.test_lane.poll()?;
        for completion in done.drain(..) {
            let op = Op { op_id: completion.op_id, work: completion.work };
            match completion.outcome {
                Ok(Done::Received { imm, .. }) => {
                    self.received += 1;
                    self.has_ended |= imm == Some(LAST_MESSAGE);
                    receives.push_back(op);
                }
                _ => self.ready.push_back(op),
            }
        }
        self.test_lane.lane.post(&mut receives);
        Ok(())
    }
}

/// A busy wait with a timeout.
struct Wait {
    started: Option<Instant>,
    polls_done: u32,
}

impl Wait {
    fn new() -> Wait {
        Wait { started: None, polls_done: 0 }
    }

    /// Counts a poll without a result. The clock is read rarely: it can cost as much as many polls.
    #[inline]
    fn count_poll(&mut self, on_tick: OnTick<'_>) -> Result<(), Error> {
        self.polls_done = self.polls_done.wrapping_add(1);
        // No spin hint: it takes 140 cycles on current CPUs, which would add to the latency.
        match self.polls_done.is_multiple_of(POLLS_PER_YIELD) {
            false => Ok(()),
            true => self.yield_and_check(on_tick),
        }
    }

    #[cold]
    fn yield_and_check(&mut self, on_tick: OnTick<'_>) -> Result<(), Error> {
        // If both ends share a CPU, the other end needs it now.
        std::thread::yield_now();
        if !self.polls_done.is_multiple_of(POLLS_PER_TICK) {
            return Ok(());
        }
        on_tick(0)?;
        if self.started.get_or_insert_with(Instant::now).elapsed() > STALL_TIMEOUT {
            return Err(Error::gone(
                "no progress for 10 s: check that the other end and the network are up",
            ));
        }
        Ok(())
    }

    fn is_longer(&self, than: Duration) -> bool {
        self.started.is_some_and(|started| started.elapsed() > than)
    }
}

/// The round number of the last round.
const LAST_ROUND: u64 = u64::MAX;
/// The immediate data of the last message.
const LAST_MESSAGE: u32 = u32::MAX;
/// Loads of memory per poll of a lane that needs no polling, polls per yield of the CPU, and polls per
/// check of the control connection.
const LOADS_PER_POLL: u32 = 32;
const POLLS_PER_YIELD: u32 = 1024;
const POLLS_PER_TICK: u32 = 4 * POLLS_PER_YIELD;
/// Datagrams without an answer after this time count as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
