//! Many operations in flight: the hot loop of bandwidth and rate tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::Op;

use crate::Error;
use crate::end::{RECEIVE, TestLane};
use crate::latency_recorder::LatencyRecorder;
use crate::ticks::ticks;
use crate::wait;
use report::{Limit, Plan};

/// The result of a stream.
pub(crate) struct StreamResult {
    pub(crate) operations: u64,
    pub(crate) took: Duration,
    /// Messages received in that time.
    pub(crate) received: u64,
}

/// One lane's operations that wait to be posted, and when those in flight were posted, in ticks.
struct LaneQueue {
    standby: VecDeque<Op>,
    batch: VecDeque<Op>,
    posted: Vec<u64>,
}

/// Streams over all lanes until the limit, and until all operations are finished. Calls `on_tick` regularly with the number of
/// finished operations; its error ends the stream.
pub(crate) fn run(
    test_lanes: &mut [TestLane],
    plan: &Plan,
    limit: Limit,
    recorder: &mut LatencyRecorder,
    mut on_tick: impl FnMut(u64) -> Result<(), Error>,
) -> Result<StreamResult, Error> {
    let mut queues = test_lanes
        .iter()
        .map(|test_lane| LaneQueue::new(test_lane, plan))
        .collect::<Result<Vec<_>, _>>()?;
    // A quarter of the depth at a time: the operations of one post finish together, and the lane must stay busy.
    let batch = plan.depth.div_ceil(4) as usize;
    let started = Instant::now();
    let (mut left, mut finished, mut in_flight, mut received) = (allowed(limit), 0, 0, 0);
    let (mut last_progress, mut last_tick) = (started, started);
    let mut last = started;
    loop {
        let now = Instant::now();
        if matches!(limit, Limit::Milliseconds(_)) && now - started >= limit.time() {
            left = 0;
        }
        let mut progress = 0;
        for (test_lane, queue) in test_lanes.iter_mut().zip(&mut queues) {
            let posted = queue.post(test_lane, batch, left);
            left -= posted;
            in_flight += posted;
            let polled = queue.poll(test_lane, recorder)?;
            finished += polled.operations;
            in_flight -= polled.operations;
            received += polled.received;
            progress += polled.operations;
        }
        if progress > 0 {
            last = Instant::now();
            last_progress = last;
        }
        if left == 0 && in_flight == 0 {
            on_tick(finished)?;
            return Ok(StreamResult { operations: finished, took: last - started, received });
        }
        if now - last_tick > TICK_INTERVAL {
            on_tick(finished)?;
            last_tick = now;
        }
        if progress == 0 {
            let idle = now.saturating_duration_since(last_progress);
            if idle > STALL_TIMEOUT {
                return Err(Error::gone(
                    "no progress for 10 s: check that the other end and the network are up",
                ));
            }
            wait::pause(test_lanes, idle, None);
        }
    }
}

/// What one poll returned.
struct PollResult {
    operations: u64,
    received: u64,
}

impl LaneQueue {
    fn new(test_lane: &TestLane, plan: &Plan) -> Result<LaneQueue, Error> {
        let depth = test_lane.lane.caps().depth.min(plan.depth as usize);
        let standby =
            (0..depth).map(|place| test_lane.op(plan, place)).collect::<Result<_, _>>()?;
        Ok(LaneQueue { standby, batch: VecDeque::new(), posted: vec![0; depth] })
    }

    /// Posts a batch, and returns its size.
    #[inline]
    fn post(&mut self, test_lane: &mut TestLane, max_count: usize, left: u64) -> u64 {
        let enough = max_count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = enough.saturating_sub(self.batch.len()).min(self.standby.len());
        self.batch.extend(self.standby.drain(..count));
        if self.batch.is_empty() || left == 0 {
            self.standby.append(&mut self.batch);
            return 0;
        }
        let now = ticks();
        for op in &self.batch {
            self.posted[op.op_id as usize] = now;
        }
        test_lane.lane.post(&mut self.batch) as u64
    }

    #[inline]
    fn poll(
        &mut self,
        test_lane: &mut TestLane,
        recorder: &mut LatencyRecorder,
    ) -> Result<PollResult, Error> {
        let mut polled = PollResult { operations: 0, received: 0 };
        let mut receives = VecDeque::new();
        let done = test_lane.poll()?;
        if done.is_empty() {
            return Ok(polled);
        }
        let now = ticks();
        for completion in done.drain(..) {
            let op = Op { op_id: completion.op_id, work: completion.work };
            if op.op_id == RECEIVE {
                polled.received += 1;
                receives.push_back(op);
            } else {
                recorder.record(now.saturating_sub(self.posted[op.op_id as usize]));
                polled.operations += 1;
                self.standby.push_back(op);
            }
        }
        test_lane.lane.post(&mut receives);
        Ok(polled)
    }
}

fn allowed(limit: Limit) -> u64 {
    match limit {
        Limit::Count(count) => count,
        Limit::Milliseconds(_) => u64::MAX,
    }
}

/// The interval of `on_tick`.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(50);
/// A measurement without progress for this time fails.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(10);
