//! A rail: one way to the peer, and the lane on it while there is one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::half::{Fabric, Half};
use crate::lane::Lane;
use crate::link::messages::message_queue::MessageQueue;
use crate::link::operations::part::Part;
use crate::link::protocol::control::Plan;
use crate::op::{Failure, Op, Work};
use crate::region::Region;
use crate::remote::{RemoteRegion, Window};

pub(in crate::link) struct Rail {
    pub(in crate::link) plan: Plan,
    /// Counts the lanes that were made or tried on it.
    pub(in crate::link) generation: u32,
    pub(in crate::link) state: State,
    pub(in crate::link) connection: Option<RailConnection>,
    /// A lane in the making.
    pub(in crate::link) making: Making,
    /// Whether a thread makes a lane for it: that one, or one that was given up because a device does not answer.
    pub(in crate::link) busy: bool,
    /// The end of a lane.
    pub(in crate::link) ending: Ending,
    /// What died with the last lane, until it is known what came of it.
    pub(in crate::link) unconfirmed: Vec<Lost>,
    /// How often in a row it died soon after it came up.
    pub(in crate::link) flaps: u32,
    /// When it was last seen to that nothing lost is held.
    pub(in crate::link) tidied: Duration,
    /// Why it is as it is.
    pub(in crate::link) why: String,
}

/// Where a rail stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum State {
    /// Left alone until then.
    Standby { until: Duration },
    /// A lane is being made and probed, since and until then.
    Trying { since: Duration, until: Duration },
    /// In use, or ready to be.
    Up { since: Duration },
    /// The lane is dead, since then: nothing of it is done again before both ends have closed it.
    Fencing { since: Duration },
}

#[derive(Default)]
pub(in crate::link) struct Making {
    pub(in crate::link) half: Option<(Box<dyn Half>, Arc<dyn Fabric>)>,
    /// What the peer said before our end was ready for it.
    pub(in crate::link) offer: Option<Vec<u8>>,
    pub(in crate::link) connected: Option<([u16; 2], RemoteRegion)>,
    pub(in crate::link) keys: Vec<(u64, Option<RemoteRegion>)>,
    /// Whether the peer's end is connected.
    pub(in crate::link) heard: bool,
    /// Whether each end has probed the other: ours, theirs.
    pub(in crate::link) proven: [bool; 2],
    /// Whether the peer knows of this generation.
    pub(in crate::link) known: bool,
}

#[derive(Default)]
pub(in crate::link) struct Ending {
    /// Whether we have told the peer that our end is closed.
    pub(in crate::link) told: bool,
    /// How many messages had come when the peer closed its end.
    pub(in crate::link) received: Option<u64>,
    /// How many messages came to us.
    pub(in crate::link) counted: u64,
    /// Whether the lane kept order, and how many of our messages had surely arrived.
    pub(in crate::link) ordered: bool,
    pub(in crate::link) arrived: u64,
}

/// An operation of a dead lane.
pub(in crate::link) struct Lost {
    pub(in crate::link) part: Part,
    pub(in crate::link) failure: Failure,
    pub(in crate::link) work: Work,
}

/// A lane and all that belongs to it.
pub(in crate::link) struct RailConnection {
    pub(in crate::link) lane: Box<dyn Lane>,
    pub(in crate::link) messages: MessageQueue,
    /// By the numbers of the peer's regions: how to reach them here.
    pub(in crate::link) keys: Vec<Option<(u64, Key)>>,
    /// What the lane had no room for yet.
    pub(in crate::link) queue: VecDeque<Op>,
    /// How many operations are in the queue or with the lane, receives apart, and their bytes.
    pub(in crate::link) out: u32,
    pub(in crate::link) bytes_out: u64,
    /// When something was last completed, while something is out; `None` until time is next told.
    pub(in crate::link) progress: Option<Duration>,
    /// Messages sent, arrived for sure, and received.
    pub(in crate::link) sent: u64,
    pub(in crate::link) arrived: u64,
    pub(in crate::link) received: u64,
    pub(in crate::link) probe: Probe,
    /// From the lane's capabilities, for the hot path.
    pub(in crate::link) ordered: bool,
    pub(in crate::link) depth: u32,
    pub(in crate::link) closed: bool,
}

/// A way to a region of the peer's.
pub(in crate::link) enum Key {
    Open(Window),
    /// It cannot be reached by this lane.
    Refused,
}

/// Memory to prove that a lane works.
pub(in crate::link) struct Probe {
    /// The peer writes and reads here.
    pub(in crate::link) theirs: Region,
    /// What we write, and where we read it back to.
    pub(in crate::link) ours: Region,
    pub(in crate::link) window: Option<Window>,
    pub(in crate::link) reading: bool,
}

impl Rail {
    pub(in crate::link) fn new(plan: Plan) -> Self {
        let why = plan.why.clone();
        Rail {
            plan,
            generation: 0,
            state: State::Standby { until: Duration::ZERO },
            connection: None,
            making: Making::default(),
            busy: false,
            ending: Ending::default(),
            unconfirmed: Vec::new(),
            flaps: 0,
            tidied: Duration::ZERO,
            why,
        }
    }

    pub(in crate::link) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Its name for people: the two ways, ours first.
    pub(in crate::link) fn name(&self, leads: bool) -> String {
        let [leader, follower] = &self.plan.ways;
        let (ours, theirs) = if leads { (leader, follower) } else { (follower, leader) };
        match ours == theirs {
            true => ours.clone(),
            false => format!("{ours}–{theirs}"),
        }
    }
}

impl RailConnection {
    pub(in crate::link) fn new(lane: Box<dyn Lane>, messages: MessageQueue, probe: Probe) -> Self {
        let caps = lane.caps();
        RailConnection {
            ordered: caps.ordered,
            depth: caps.depth as u32,
            lane,
            messages,
            keys: Vec::new(),
            queue: VecDeque::new(),
            out: 0,
            bytes_out: 0,
            progress: None,
            sent: 0,
            arrived: 0,
            received: 0,
            probe,
            closed: false,
        }
    }

    /// The way to a region, if we know it.
    #[inline]
    pub(in crate::link) fn key(&self, region: u64) -> Option<&Key> {
        let (id, key) = self.keys.get(index(region))?.as_ref()?;
        (*id == region).then_some(key)
    }

    pub(in crate::link) fn set_key(&mut self, region: u64, key: Key) {
        let at = index(region);
        if self.keys.len() <= at {
            self.keys.resize_with(at + 1, || None);
        }
        self.keys[at] = Some((region, key));
    }

    /// A region is gone: its key is of no use.
    pub(in crate::link) fn refuse_key(&mut self, region: u64) {
        if let Some(Some((known, key))) = self.keys.get_mut(index(region))
            && *known == region
        {
            *key = Key::Refused;
        }
    }

    /// Ends the lane. What it never had comes back like what it had.
    pub(in crate::link) fn close(&mut self) {
        self.closed = true;
        self.lane.close();
        self.lane.post(&mut self.queue);
    }

    /// Whether it has nothing of ours any more.
    pub(in crate::link) fn is_drained(&self) -> bool {
        self.closed && self.out == 0 && !self.messages.has_posted()
    }

    #[inline]
    pub(in crate::link) fn has_room(&self, bytes: u64, window: u64) -> bool {
        self.out < self.depth && (self.out == 0 || self.bytes_out + bytes <= window)
    }
}

/// A region's place in tables: the lower bits of its id.
#[inline]
pub(in crate::link) fn index(region: u64) -> usize {
    (region & 0xffff) as usize
}

/// How much is written and read to prove a lane: more than one packet.
pub(in crate::link) const PROBE: usize = 16 << 10;
