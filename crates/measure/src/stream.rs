//! Many operations in flight: the hot loop of bandwidth and rate tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::Op;

use crate::Error;
use crate::end::{RECEIVE, Track};
use crate::latency_recorder::Clock;
use crate::ticks::ticks;
use crate::wait;
use report::{Limit, Plan};

/// What was streamed.
pub(crate) struct Streamed {
    pub(crate) operations: u64,
    pub(crate) took: Duration,
    /// Messages that came meanwhile.
    pub(crate) received: u64,
}

/// One lane's operations that wait to be posted, and when those in flight were, in ticks.
struct LaneQueue {
    standby: VecDeque<Op>,
    batch: VecDeque<Op>,
    posted: Vec<u64>,
}

/// Streams over all lanes until the limit, and until everything is over. `tend` is called now and then with how many are
/// over; what it says ends the stream.
pub(crate) fn run(
    tracks: &mut [Track],
    plan: &Plan,
    limit: Limit,
    clock: &mut Clock,
    mut tend: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Streamed, Error> {
    let mut queues =
        tracks.iter().map(|track| LaneQueue::new(track, plan)).collect::<Result<Vec<_>, _>>()?;
    // A quarter at a time: a post is over as a whole, and the lane must not run dry meanwhile.
    let batch = plan.depth.div_ceil(4) as usize;
    let begun = Instant::now();
    let (mut left, mut over, mut in_flight, mut received) = (allowed(limit), 0, 0, 0);
    let (mut moved, mut tended) = (begun, begun);
    let mut last = begun;
    loop {
        let now = Instant::now();
        if matches!(limit, Limit::Milliseconds(_)) && now - begun >= limit.time() {
            left = 0;
        }
        let mut progress = 0;
        for (track, queue) in tracks.iter_mut().zip(&mut queues) {
            let posted = queue.post(track, batch, left);
            left -= posted;
            in_flight += posted;
            let ended = queue.poll(track, clock)?;
            over += ended.operations;
            in_flight -= ended.operations;
            received += ended.received;
            progress += ended.operations;
        }
        if progress > 0 {
            last = Instant::now();
            moved = last;
        }
        if left == 0 && in_flight == 0 {
            tend(over)?;
            return Ok(Streamed { operations: over, took: last - begun, received });
        }
        if now - tended > TEND {
            tend(over)?;
            tended = now;
        }
        if progress == 0 {
            let idle = now.saturating_duration_since(moved);
            if idle > STUCK {
                return Err(Error::gone(
                    "nothing has moved for 10 s: the other end hangs, or the network does",
                ));
            }
            wait::rest(tracks, idle, None);
        }
    }
}

/// What ended on a lane.
struct Ended {
    operations: u64,
    received: u64,
}

impl LaneQueue {
    fn new(track: &Track, plan: &Plan) -> Result<LaneQueue, Error> {
        let depth = track.lane.caps().depth.min(plan.depth as usize);
        let standby = (0..depth).map(|place| track.op(plan, place)).collect::<Result<_, _>>()?;
        Ok(LaneQueue { standby, batch: VecDeque::new(), posted: vec![0; depth] })
    }

    /// Posts a batch, if there is one or nothing else to wait for. Says how many.
    #[inline]
    fn post(&mut self, track: &mut Track, most: usize, left: u64) -> u64 {
        let enough = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = enough.saturating_sub(self.batch.len()).min(self.standby.len());
        self.batch.extend(self.standby.drain(..count));
        if self.batch.is_empty() || left == 0 {
            self.standby.append(&mut self.batch);
            return 0;
        }
        let now = ticks();
        for op in &self.batch {
            self.posted[op.token as usize] = now;
        }
        track.lane.post(&mut self.batch) as u64
    }

    #[inline]
    fn poll(&mut self, track: &mut Track, clock: &mut Clock) -> Result<Ended, Error> {
        let mut ended = Ended { operations: 0, received: 0 };
        let mut receives = VecDeque::new();
        let done = track.poll()?;
        if done.is_empty() {
            return Ok(ended);
        }
        let now = ticks();
        for completion in done.drain(..) {
            let op = Op { token: completion.token, work: completion.work };
            if op.token == RECEIVE {
                ended.received += 1;
                receives.push_back(op);
            } else {
                clock.record(now.saturating_sub(self.posted[op.token as usize]));
                ended.operations += 1;
                self.standby.push_back(op);
            }
        }
        track.lane.post(&mut receives);
        Ok(ended)
    }
}

fn allowed(limit: Limit) -> u64 {
    match limit {
        Limit::Count(count) => count,
        Limit::Milliseconds(_) => u64::MAX,
    }
}

/// How often the other things are looked after.
pub(crate) const TEND: Duration = Duration::from_millis(50);
/// Nothing on any lane for so long means that nothing will come.
pub(crate) const STUCK: Duration = Duration::from_secs(10);
