//! A link without its descriptors and clocks: it is told the time, and owns no descriptor.
//!
//! What a core knows is in its parts, each of which keeps its own fields in order: the control connection, the rails,
//! the operations, the messages, the regions, the completions. What is here and in the files beside it coordinates
//! them. [`Core::post`] and [`Core::poll`] are the hot path; [`Core::attend`] does everything else.

mod completion_queue;
mod completions;
mod control;
mod control_connection;
mod end;
mod fast_path;
mod fence;
mod pieces;
mod post;
mod receive;
mod regions;
mod send;
mod setup;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use self::completion_queue::Completions;
use self::control_connection::ControlConnection;
use super::config::Config;
use super::event::{Journal, Listener};
use super::messages::Messages;
use super::operations::Operations;
use super::protocol::control::Plan;
use super::protocol::header::Stream;
use super::rails::Rails;
use super::rails::connector::Connector;
use super::regions::Regions;
use crate::lane::Caps;
use crate::op::{Completion, Failure, Op};
use crate::region::Slice;
use crate::remote::{Reach, Window};
use crate::stats::Stats;

pub(crate) use self::control_connection::Connection;

pub(crate) struct Core {
    config: Config,
    caps: Caps,
    control: ControlConnection,
    rails: Rails,
    operations: Operations,
    messages: Messages,
    regions: Regions,
    completions: Completions,
    ended: Option<Ended>,
    now: Duration,
    journal: Journal,
}

/// Why a link is over.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) failure: Failure,
    pub(crate) why: String,
}

/// What a core is made of.
pub(crate) struct CoreSetup {
    pub(crate) config: Config,
    /// Whether this end decides which rails there are, and begins them.
    pub(crate) leads: bool,
    /// Names this life of ours, and the peer's.
    pub(crate) epochs: [u64; 2],
    /// The payload of one message that the peer takes.
    pub(crate) peer_message_limit: usize,
    /// How many regions the peer takes.
    pub(crate) peer_regions: usize,
    pub(crate) connection: Box<dyn Connection>,
    pub(crate) connector: Box<dyn Connector>,
    pub(crate) plans: Vec<Plan>,
    pub(crate) now: Duration,
}

impl Core {
    pub(crate) fn new(setup: CoreSetup) -> Self {
        let CoreSetup { config, epochs, now, .. } = setup;
        let region_limits = [config.regions.min(setup.peer_regions), config.regions];
        Core {
            caps: caps(&config),
            control: ControlConnection::new(setup.connection, now),
            rails: Rails::new(setup.plans, setup.connector, setup.leads, now),
            operations: Operations::new(),
            messages: Messages::new(setup.peer_message_limit),
            regions: Regions::new(epochs, region_limits),
            completions: Completions::new(),
            ended: None,
            now,
            journal: Journal::default(),
            config,
        }
    }

    // The hot path.

    /// Takes operations from the front while there is room.
    #[inline]
    pub(crate) fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        if let Some(count) = self.post_whole(ops) {
            return count;
        }
        let before = ops.len();
        while let Some(op) = ops.front().filter(|op| self.has_room(op)) {
            let refusal = self.refusal(&op.work);
            let Some(op) = ops.pop_front() else { break };
            match refusal {
                None => self.begin(op),
                Some(failure) => self.refuse(op, failure),
            }
        }
        self.pump();
        self.rails.ring();
        // Receives may have emptied slots. What was posted goes before that.
        self.refill_all();
        self.rails.ring();
        before - ops.len()
    }

    /// Appends what is over.
    #[inline]
    pub(crate) fn poll(&mut self, now: Duration, done: &mut Vec<Completion>) -> usize {
        self.now = now;
        let before = done.len();
        let direct = self.completions.collect_into(done);
        for place in 0..self.rails.live_count() {
            self.poll_rail(self.rails.live(place));
        }
        if self.rails.live_count() > 1 {
            self.refill_all();
        }
        self.pump();
        self.rails.ring();
        self.completions.give(done, direct);
        done.len() - before
    }

    /// What waits finds its rail: pieces first, then messages.
    #[inline]
    fn pump(&mut self) {
        if !self.operations.is_idle() {
            self.pump_pieces();
        }
        for stream in [Stream::Messages, Stream::Control] {
            if !self.messages.outgoing(stream).is_empty() {
                self.send_all(stream);
            }
        }
    }

    /// Reads the peer's memory now, if the one lane in use can.
    #[inline]
    pub(super) fn peek(&mut self, window: &Window, offset: u64, into: &Slice) -> bool {
        let Reach::Link { region } = window.reach() else { return false };
        self.rails.only_mut().is_some_and(|(_, lane)| lane.peek(*region, offset, into))
    }

    #[inline]
    pub(super) fn poke(
        &mut self,
        window: &Window,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        let Reach::Link { region } = window.reach() else { return false };
        self.rails.only_mut().is_some_and(|(_, lane)| lane.poke(*region, offset, bytes, word))
    }

    // Everything that is not urgent.

    /// Does what the peer's messages, finished work and the time ask for.
    pub(crate) fn attend(&mut self, now: Duration) {
        self.now = now;
        self.receive_control();
        self.take_finished();
        self.report_regions();
        self.check_rails();
        self.check_time();
        self.settle_end(); // after the rails: it waits until no lane is left
        self.pump();
        self.rails.ring();
    }

    // For who asks.

    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    pub(super) fn stats(&self) -> &Arc<Stats> {
        self.completions.stats()
    }

    pub(super) fn rails(&self) -> &Rails {
        &self.rails
    }

    pub(super) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(super) fn set_listener(&mut self, listener: Listener) {
        self.journal.set_listener(listener);
    }

    /// Why no rail is up.
    pub(super) fn obstacles(&self) -> String {
        self.rails.obstacles(self.now)
    }

    // For who sleeps.

    /// The descriptors of the control connection and of the connector.
    pub(super) fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.control.fd(), self.rails.connector_fd()]
    }

    pub(super) fn control(&self) -> &ControlConnection {
        &self.control
    }

    /// Whether nothing waits for the caller.
    pub(super) fn is_idle(&self) -> bool {
        self.completions.is_empty()
    }

    /// Whether a lane is ending, or the peer has sent more: that is not slept on.
    #[inline]
    pub(super) fn is_urgent(&self) -> bool {
        self.rails.is_ending() || self.control.has_more()
    }

    /// Prepares all lanes for sleep; `false` if one of them has something to do.
    pub(super) fn arm_lanes(&mut self) -> bool {
        self.rails.arm()
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.journal.has_news()
    }

    /// What is new is about to be published.
    pub(super) fn take_news(&mut self) {
        self.journal.take_news();
    }
}

#[cfg(test)]
impl Core {
    /// Where it stands, for who must find out why it stands still.
    pub(super) fn describe(&self) -> String {
        use std::fmt::Write;
        let leads = self.rails.leads();
        let mut text = format!("end {leads} at {:?}: {:?}\n", self.now, self.ended);
        for rail in self.rails.iter() {
            let lane = rail.lane().map(super::rails::RailLane::describe);
            let (name, state, why) = (rail.name(leads), rail.state(), rail.why());
            let _ = writeln!(text, "  {name} {state:?} {why} {}", lane.unwrap_or_default());
        }
        let _ = writeln!(text, "  {}", self.operations.describe());
        let _ = writeln!(text, "  {}", self.messages.describe());
        for event in self.journal.last() {
            let _ =
                writeln!(text, "  {:.4} {:?} {} {}", event.at, event.what, event.rail, event.why);
        }
        text
    }
}

fn caps(config: &Config) -> Caps {
    Caps {
        lane: "link",
        datagram: false,
        max_message: 1 << 40,
        // One less than the least of the lanes: the header of a message is a piece too.
        max_pieces: 15,
        depth: config.depth,
        receives: config.receives,
        inline: 0,
        peer_must_poll: true,
        borrowed: crate::lane::BorrowedPath::OneCopy,
        spins: true,
        naps: false,
        rdma: false,
        ordered: false,
    }
}
