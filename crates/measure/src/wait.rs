//! Waiting on lanes while the other end uses this end's memory.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fabric::{Op, SPIN_TIME, busy_wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Error;
use crate::control_channel::{ControlChannel, out_of_turn};
use crate::end::Track;
use crate::message::Message;
use report::Plan;

/// Serves until the other end says that it is over. Says how many places it used, and adds the messages that came.
pub(crate) fn until_over(
    tracks: &mut [Track],
    plan: &Plan,
    talk: &mut ControlChannel,
    received: &mut u64,
) -> Result<usize, Error> {
    let mut busy = Instant::now();
    let mut looks = 0_u32;
    let limit = plan.limit.time() + plan.warm_up.time() + LONGEST_SILENCE;
    loop {
        looks = looks.wrapping_add(1);
        let idle = busy.elapsed();
        if looks.is_multiple_of(LOOKS) || idle > SPIN_TIME {
            match talk.overhear()? {
                Some(Message::Over { touched }) => return Ok(touched),
                Some(other) => return Err(out_of_turn(&other)),
                None => {}
            }
        }
        if idle > limit {
            return Err(Error::gone("no message from the other end for too long"));
        }
        if take(tracks, received) {
            busy = Instant::now();
        } else {
            rest(tracks, idle, Some(talk));
        }
    }
}

/// Takes what came. A lane that ended is the other end's to tell: what it asked last may have failed on purpose.
fn take(tracks: &mut [Track], received: &mut u64) -> bool {
    let mut some = false;
    for track in tracks {
        let mut again = VecDeque::new();
        some |= track.lane.poll(&mut track.done) > 0;
        for completion in track.done.drain(..).filter(|completion| completion.outcome.is_ok()) {
            *received += 1;
            again.push_back(Op { token: completion.token, work: completion.work });
        }
        track.lane.post(&mut again);
    }
    some
}

/// Passes a moment: looks again for a little while, then sleeps until a lane, or the other end, has something to say.
pub(crate) fn rest(tracks: &mut [Track], idle: Duration, talk: Option<&ControlChannel>) {
    if busy_wait(idle) {
        return;
    }
    if !tracks.iter_mut().all(|track| track.lane.arm()) {
        return;
    }
    let lanes = tracks.iter().map(|track| PollFd::from_borrowed_fd(track.lane.fd(), PollFlags::IN));
    let others = talk.map(|talk| PollFd::from_borrowed_fd(talk.session().as_fd(), PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = lanes.chain(others).collect();
    let _ = poll(&mut fds, Timespec::try_from(NAP).ok().as_ref());
}

/// How many looks go by before the other end is listened to, while there is much to do.
const LOOKS: u32 = 256;
/// Sleep is cut so short since one lane's bell does not ring for another.
const NAP: Duration = Duration::from_millis(20);
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
