//! One operation in flight: the hot loop of latency tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::{Done, Op, Work};

use crate::Error;
use crate::end::{Track, lead};
use crate::latency_recorder::Clock;
use crate::stream::{STUCK, TEND};
use crate::ticks::{Stopwatch, ticks};
use report::{Limit, Operation, Plan};

/// What came of it.
#[derive(Default)]
pub(crate) struct Exchanged {
    pub(crate) operations: u64,
    pub(crate) took: Duration,
    /// Datagrams that no answer came for.
    pub(crate) lost: u64,
    /// CPU time of what was counted.
    pub(crate) cpu_seconds: f64,
}

/// Goes back and forth until the limit, after a warm-up.
pub(crate) fn lead_on(
    track: &mut Track,
    plan: &Plan,
    clock: &mut Clock,
    mut tend: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Exchanged, Error> {
    match plan.operation {
        Operation::Write => {
            let mut player = Writer::new(track, plan)?;
            let exchanged =
                play(plan, clock, 2, &mut tend, |round, tend| player.round(round, tend))?;
            player.say(END)?;
            player.settle(&mut tend)?;
            Ok(exchanged)
        }
        Operation::Send => {
            track.receive(plan);
            let mut player = Sender::new(track, plan)?;
            let exchanged = play(plan, clock, 2, &mut tend, |_, tend| player.round(tend))?;
            let lost = player.lost;
            player.end(&mut tend)?;
            Ok(Exchanged { lost, ..exchanged })
        }
        Operation::Read | Operation::Atomic => {
            let mut op = VecDeque::from([track.op(plan, 0)?]);
            play(plan, clock, 1, &mut tend, |_, tend| alone(track, &mut op, tend))
        }
    }
}

/// Answers until the other end has enough.
pub(crate) fn follow(
    track: &mut Track,
    plan: &Plan,
    mut tend: impl FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    if plan.operation == Operation::Send {
        return Sender::new(track, plan)?.follow(&mut tend);
    }
    let mut player = Writer::new(track, plan)?;
    let mut round = 1;
    while player.hear(round, &mut tend)? != END {
        player.say(round)?;
        player.settle(&mut tend)?;
        round += 1;
    }
    Ok(())
}

/// Something that is looked after now and then; what it says is the end.
type Tend<'t> = &'t mut dyn FnMut(u64) -> Result<(), Error>;

/// Rounds: those of the warm-up, then those that count.
fn play(
    plan: &Plan,
    clock: &mut Clock,
    ways: u64,
    tend: Tend<'_>,
    mut round: impl FnMut(u64, Tend<'_>) -> Result<(), Error>,
) -> Result<Exchanged, Error> {
    let mut number = 0;
    let mut exchanged = Exchanged::default();
    for (limit, counts) in [(plan.warm_up, false), (plan.limit, true)] {
        let cpu = crate::cpu::seconds();
        let mut pace = Pace { limit, counts, watch: Stopwatch::start(), look_at: 0 };
        let mut counted = 0;
        // One reading ends a round and begins the next.
        let mut from = ticks();
        while pace.goes_on(counted, from, &mut *tend)? {
            number += 1;
            round(number, &mut *tend)?;
            let now = ticks();
            if counts {
                clock.record(now.saturating_sub(from) / ways);
            }
            from = now;
            counted += 1;
        }
        let took = pace.watch.begun().elapsed();
        let cpu_seconds = crate::cpu::seconds() - cpu;
        exchanged = Exchanged { operations: counted, took, lost: 0, cpu_seconds };
    }
    Ok(exchanged)
}

/// How far a run has come. The system clock is read seldom.
struct Pace {
    limit: Limit,
    /// Whether anybody wants to know: nobody does of a warm-up.
    counts: bool,
    watch: Stopwatch,
    /// The tick from which on it is read again.
    look_at: u64,
}

impl Pace {
    #[inline]
    fn goes_on(&mut self, counted: u64, now: u64, tend: Tend<'_>) -> Result<bool, Error> {
        match self.limit {
            Limit::Count(count) if counted >= count => Ok(false),
            _ if now < self.look_at => Ok(true),
            _ => self.look(counted, now, tend),
        }
    }

    /// Reads the clock, and says when it has to be read again: half-way to the end, so that the end is not missed by much.
    #[cold]
    fn look(&mut self, counted: u64, now: u64, tend: Tend<'_>) -> Result<bool, Error> {
        tend(if self.counts { counted } else { 0 })?;
        let left = match self.limit {
            Limit::Count(_) => TEND,
            Limit::Milliseconds(_) => {
                let left = self.limit.time().saturating_sub(self.watch.begun().elapsed());
                if left.is_zero() {
                    return Ok(false);
                }
                TEND.min(left / 2)
            }
        };
        let pause = left.as_nanos() as f64 / self.watch.nanoseconds_per_tick();
        self.look_at = now.saturating_add(pause as u64);
        Ok(true)
    }
}

/// An operation that the other end's CPU has no part in.
fn alone(track: &mut Track, op: &mut VecDeque<Op>, tend: Tend<'_>) -> Result<(), Error> {
    track.lane.post(op);
    let mut wait = Wait::new();
    while op.is_empty() {
        let done = track.poll()?;
        op.extend(done.drain(..).map(|completion| Op { token: 0, work: completion.work }));
        wait.look(tend)?;
    }
    Ok(())
}

/// Writes a number as the last bytes, and watches for the other end's.
struct Writer<'t> {
    track: &'t mut Track,
    ready: VecDeque<Op>,
    /// Where the number is.
    mark: usize,
    /// Whether nothing arrives unless this end polls.
    polls: bool,
}

impl<'t> Writer<'t> {
    fn new(track: &'t mut Track, plan: &Plan) -> Result<Self, Error> {
        let ready = VecDeque::from([track.op(plan, 0)?]);
        let polls = track.lane.caps().peer_must_poll;
        Ok(Writer { track, ready, mark: lead(plan) + plan.size as usize - 8, polls })
    }

    fn round(&mut self, round: u64, tend: Tend<'_>) -> Result<(), Error> {
        self.say(round)?;
        self.hear(round, tend)?;
        self.settle(tend)
    }

    fn say(&mut self, round: u64) -> Result<(), Error> {
        self.track.source.memory().store(self.mark, round);
        self.track.lane.post(&mut self.ready);
        Ok(())
    }

    /// Waits for a round, or the end of all.
    fn hear(&mut self, round: u64, tend: Tend<'_>) -> Result<u64, Error> {
        let mut wait = Wait::new();
        loop {
            let seen = self.track.target.memory().load(self.mark);
            if seen == round || seen == END {
                return Ok(seen);
            }
            // Once the message is sent, a lane that works by itself has nothing to report but its end.
            if self.ready.is_empty() || self.polls || wait.looks.is_multiple_of(FEW) {
                self.take()?;
            }
            wait.look(tend)?;
        }
    }

    /// Waits until the last message can be sent again.
    fn settle(&mut self, tend: Tend<'_>) -> Result<(), Error> {
        let mut wait = Wait::new();
        while self.ready.is_empty() {
            self.take()?;
            wait.look(tend)?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let done = self.track.poll()?;
        let ops = done.drain(..).map(|completion| Op { token: 0, work: completion.work });
        self.ready.extend(ops);
        Ok(())
    }
}

/// Sends messages, and receives the other end's.
struct Sender<'t> {
    track: &'t mut Track,
    ready: VecDeque<Op>,
    heard: u64,
    has_ended: bool,
    /// How long an answer is waited for before the message counts as lost; reliable ones are never.
    patience: Option<Duration>,
    lost: u64,
}

impl<'t> Sender<'t> {
    fn new(track: &'t mut Track, plan: &Plan) -> Result<Self, Error> {
        let ready = VecDeque::from([track.op(plan, 0)?]);
        let patience = plan.datagrams.then_some(LOST);
        Ok(Sender { track, ready, heard: 0, has_ended: false, patience, lost: 0 })
    }

    fn round(&mut self, tend: Tend<'_>) -> Result<(), Error> {
        let wanted = self.heard + 1;
        self.track.lane.post(&mut self.ready);
        let mut wait = Wait::new();
        while self.heard < wanted || self.ready.is_empty() {
            self.take()?;
            wait.look(tend)?;
            if self.patience.is_some_and(|patience| wait.is_longer(patience)) {
                self.lost += 1;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers every message until one says that it was the last.
    fn follow(&mut self, tend: Tend<'_>) -> Result<(), Error> {
        let mut answered = 0;
        let mut wait = Wait::new();
        while !self.has_ended {
            self.take()?;
            if self.heard > answered && !self.ready.is_empty() && !self.has_ended {
                self.track.lane.post(&mut self.ready);
                answered = self.heard;
                wait = Wait::new();
            }
            wait.look(tend)?;
        }
        Ok(())
    }

    /// Says that it is over. Of datagrams several, since one may be lost.
    fn end(&mut self, tend: Tend<'_>) -> Result<(), Error> {
        for _ in 0..if self.patience.is_some() { 3 } else { 1 } {
            if let Some(Op { work: Work::Send { imm, .. }, .. }) = self.ready.front_mut() {
                *imm = Some(OVER);
            }
            self.track.lane.post(&mut self.ready);
            let mut wait = Wait::new();
            while self.ready.is_empty() {
                self.take()?;
                wait.look(tend)?;
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let mut receives = VecDeque::new();
        let done = self.track.poll()?;
        for completion in done.drain(..) {
            let op = Op { token: completion.token, work: completion.work };
            match completion.outcome {
                Ok(Done::Received { imm, .. }) => {
                    self.heard += 1;
                    self.has_ended |= imm == Some(OVER);
                    receives.push_back(op);
                }
                _ => self.ready.push_back(op),
            }
        }
        self.track.lane.post(&mut receives);
        Ok(())
    }
}

/// Looking for something that comes soon, or not at all.
struct Wait {
    begun: Option<Instant>,
    looks: u32,
}

impl Wait {
    fn new() -> Wait {
        Wait { begun: None, looks: 0 }
    }

    /// One poll without a result. The clock is read seldom: it can cost as much as many polls.
    #[inline]
    fn look(&mut self, tend: Tend<'_>) -> Result<(), Error> {
        self.looks = self.looks.wrapping_add(1);
        // No hint that we spin: it lasts 140 cycles on CPUs of today, which would be part of every answer's time.
        match self.looks.is_multiple_of(MANY) {
            false => Ok(()),
            true => self.look_up(tend),
        }
    }

    #[cold]
    fn look_up(&mut self, tend: Tend<'_>) -> Result<(), Error> {
        // Where both ends share a CPU, the other needs it now.
        std::thread::yield_now();
        if !self.looks.is_multiple_of(MANY_MORE) {
            return Ok(());
        }
        tend(0)?;
        if self.begun.get_or_insert_with(Instant::now).elapsed() > STUCK {
            return Err(Error::gone(
                "nothing has moved for 10 s: the other end hangs, or the network does",
            ));
        }
        Ok(())
    }

    fn is_longer(&self, than: Duration) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() > than)
    }
}

/// The mark of the last round.
const END: u64 = u64::MAX;
/// The number beside the last message.
const OVER: u32 = u32::MAX;
/// Looks after which a lane is polled that need not be, after which the CPU is given away for a moment, and after
/// which the other end is listened to.
const FEW: u32 = 32;
const MANY: u32 = 1024;
const MANY_MORE: u32 = 4 * MANY;
/// Datagrams that are not answered by then will not be.
const LOST: Duration = Duration::from_millis(200);
