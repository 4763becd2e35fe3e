//! Waiting on lanes, and the passive end of a measurement.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fabric::{Op, SPIN_TIME, busy_wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Error;
use crate::control_connection::{ControlConnection, unexpected};
use crate::end::TestLane;
use crate::message::Message;
use report::Plan;

/// Polls until the other end sends that it has finished. Returns the number of slots it used, and adds the received messages.
pub(crate) fn serve_until_end(
    test_lanes: &mut [TestLane],
    plan: &Plan,
    control: &mut ControlConnection,
    received: &mut u64,
) -> Result<usize, Error> {
    let mut busy = Instant::now();
    let mut polls = 0_u32;
    let limit = plan.limit.time() + plan.warm_up.time() + IDLE_TIMEOUT;
    loop {
        polls = polls.wrapping_add(1);
        let idle = busy.elapsed();
        if polls.is_multiple_of(POLLS_PER_CONTROL_CHECK) || idle > SPIN_TIME {
            match control.try_receive()? {
                Some(Message::Finished { used_slots }) => return Ok(used_slots),
                Some(other) => return Err(unexpected(&other)),
                None => {}
            }
        }
        if idle > limit {
            return Err(Error::gone(
                "the other end was idle for too long: check that it is running and reachable",
            ));
        }
        if collect(test_lanes, received) {
            busy = Instant::now();
        } else {
            pause(test_lanes, idle, Some(control));
        }
    }
}

/// Counts received messages and posts their receives again. Failures are ignored: the other end reports them.
fn collect(test_lanes: &mut [TestLane], received: &mut u64) -> bool {
    let mut any = false;
    for test_lane in test_lanes {
        let mut again = VecDeque::new();
        any |= test_lane.lane.poll(&mut test_lane.done) > 0;
        for completion in test_lane.done.drain(..).filter(|completion| completion.outcome.is_ok()) {
            *received += 1;
            again.push_back(Op { op_id: completion.op_id, work: completion.work });
        }
        test_lane.lane.post(&mut again);
    }
    any
}

/// A pause between polls: busy-waits for a short time, then sleeps until a lane or the control connection is readable.
pub(crate) fn pause(
    test_lanes: &mut [TestLane],
    idle: Duration,
    control: Option<&ControlConnection>,
) {
    if busy_wait(idle) {
        return;
    }
    if !test_lanes.iter_mut().all(|test_lane| test_lane.lane.arm()) {
        return;
    }
    let lanes = test_lanes
        .iter()
        .map(|test_lane| PollFd::from_borrowed_fd(test_lane.lane.fd(), PollFlags::IN));
    let others =
        control.map(|control| PollFd::from_borrowed_fd(control.session().as_fd(), PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = lanes.chain(others).collect();
    let _ = poll(&mut fds, Timespec::try_from(MAX_SLEEP).ok().as_ref());
}

/// Polls between two checks of the control connection, while lanes are busy.
const POLLS_PER_CONTROL_CHECK: u32 = 256;
/// Sleeps are short, since an event of one lane does not wake another.
const MAX_SLEEP: Duration = Duration::from_millis(20);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
