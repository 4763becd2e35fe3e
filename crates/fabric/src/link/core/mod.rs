//! A link without descriptors and clocks: calls take the time as an argument.
//!
//! The state of a core is in its parts, each of which maintains its own invariants: the control connection, the rails,
//! the operations, the messages, the regions, the completions. This folder coordinates
//! them. [`Core::post`] and [`Core::poll`] are the hot path; [`Core::maintain`] does everything else.

mod chunks;
mod completion_queue;
mod completions;
mod control;
mod control_connection;
mod ending;
mod fast_path;
mod fence;
mod inbound_packets;
#[cfg(test)]
mod misbehaving_peers;
mod post;
mod receive;
mod regions;
mod send;
mod setup;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use self::completion_queue::CompletionQueue;
use self::control_connection::ControlConnection;
use self::inbound_packets::KeptPackets;
use super::config::Config;
use super::event::{EventLog, Handler};
use super::messages::Messages;
use super::operations::Operations;
use super::protocol::control::RailPlan;
use super::protocol::header::MessageClass;
use super::rails::Rails;
use super::rails::connector::{Connector, NewPlan};
use super::regions::Regions;
use crate::lane::{Caps, MappedInto};
use crate::op::{Completion, Failure, Op, Work};
use crate::remote::{AccessMethod, Window};
use crate::stats::Stats;

pub(crate) use self::control_connection::MessageChannel;

pub(crate) struct Core {
    config: Config,
    caps: Caps,
    control: ControlConnection,
    rails: Rails,
    operations: Operations,
    messages: Messages,
    regions: Regions,
    completions: CompletionQueue,
    packets: KeptPackets,
    ended: Option<LinkEnd>,
    now: Duration,
    event_log: EventLog,
}

/// Why a link ended.
#[derive(Debug, Clone)]
pub(crate) struct LinkEnd {
    pub(crate) failure: Failure,
    pub(crate) why: String,
    /// Whether its owner, here or at the peer, closed it.
    pub(crate) orderly: bool,
}

/// The arguments of [`Core::new`].
pub(crate) struct CoreSetup {
    pub(crate) config: Config,
    /// Whether this end plans the rails and starts them.
    pub(crate) is_initiator: bool,
    /// The epochs of this process and of the peer's.
    pub(crate) epochs: [u64; 2],
    /// The maximum payload of one message to the peer, in bytes.
    pub(crate) peer_max_payload: usize,
    /// The maximum number of regions that may be granted to the peer.
    pub(crate) peer_max_regions: usize,
    pub(crate) channel: Box<dyn MessageChannel>,
    pub(crate) connector: Box<dyn Connector>,
    pub(crate) plans: Vec<RailPlan>,
    /// Whether rails may be planned again, because this end may get devices later.
    pub(crate) can_plan_again: bool,
    pub(crate) now: Duration,
}

impl Core {
    pub(crate) fn new(setup: CoreSetup) -> Self {
        let CoreSetup { config, epochs, now, .. } = setup;
        let region_limits = [config.max_regions.min(setup.peer_max_regions), config.max_regions];
        // Up to half of the pause, by the peer: its epoch is random.
        let plan_spread = config.max_retry_pause * (epochs[1] % 256) as u32 / 512;
        Core {
            caps: caps(&config),
            control: ControlConnection::new(setup.channel, now),
            rails: Rails::new(
                setup.plans,
                setup.connector,
                setup.is_initiator,
                setup.can_plan_again,
                plan_spread,
                now,
            ),
            operations: Operations::new(),
            // No longer than our own send buffers either.
            messages: Messages::new(setup.peer_max_payload.min(config.max_payload)),
            regions: Regions::new(epochs, region_limits),
            completions: CompletionQueue::new(),
            packets: KeptPackets::default(),
            ended: None,
            now,
            event_log: EventLog::default(),
            config,
        }
    }

    // The hot path.

    /// Takes operations from the front until the link is full.
    #[inline]
    pub(crate) fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        if let Some(Op { work: Work::Receive { .. }, .. }) = ops.front() {
            self.post_waiting_receives(ops);
        }
        match ops.front().map(|op| &op.work) {
            Some(Work::Send { .. }) => self.post_short_sends(ops),
            Some(Work::Write { imm: None, .. } | Work::Read { .. }) => self.post_whole(ops),
            _ => {}
        }
        if !ops.is_empty() {
            self.post_each(ops);
        }
        before - ops.len()
    }

    /// Posts operations one by one, as long as there is capacity.
    fn post_each(&mut self, ops: &mut VecDeque<Op>) {
        let (mut to_send, mut took_messages) = (false, false);
        while let Some(op) = ops.front().filter(|op| self.has_capacity(op)) {
            let refusal = self.refusal(&op.work);
            let Some(op) = ops.pop_front() else { break };
            match op.work {
                Work::Receive { .. } => took_messages |= self.messages.inbox().has_messages(),
                _ => to_send = true,
            }
            match refusal {
                None => self.start(op),
                Some(failure) => self.refuse(op, failure),
            }
        }
        if to_send || took_messages {
            self.post_queued();
            self.rails.post_queues();
        }
        if took_messages {
            // Slots are free again. Posted operations went first.
            self.refill_all();
            self.rails.post_queues();
        }
    }

    /// Appends completions.
    #[inline]
    pub(crate) fn poll(&mut self, now: Duration, done: &mut Vec<Completion>) -> usize {
        self.now = now;
        let before = done.len();
        let direct = self.completions.collect_into(done);
        for index in 0..self.rails.lane_count() {
            self.poll_rail(self.rails.rail_with_lane(index));
        }
        if self.rails.lane_count() > 1 {
            self.refill_all();
        }
        self.post_queued();
        self.rails.post_queues();
        self.completions.deliver_to(done, direct);
        done.len() - before
    }

    /// Posts what is queued: chunks first, then messages.
    #[inline]
    fn post_queued(&mut self) {
        if !self.operations.has_no_waiting_chunks() {
            self.post_chunks();
        }
        for class in [MessageClass::Caller, MessageClass::Internal] {
            if !self.messages.outgoing(class).is_empty() {
                self.send_all(class);
            }
        }
    }

    /// Reads the peer's memory without an operation, if the only lane in use supports it.
    #[inline]
    pub(super) fn read_mapped(
        &mut self,
        window: &Window,
        offset: u64,
        into: MappedInto<'_>,
    ) -> bool {
        let AccessMethod::Link { region } = window.access_method() else { return false };
        self.rails
            .single_active_mut()
            .is_some_and(|(_, lane)| lane.read_mapped(*region, offset, into))
    }

    #[inline]
    pub(super) fn write_mapped(
        &mut self,
        window: &Window,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        let AccessMethod::Link { region } = window.access_method() else { return false };
        self.rails
            .single_active_mut()
            .is_some_and(|(_, lane)| lane.write_mapped(*region, offset, bytes, word))
    }

    // Everything but posting and polling.

    /// Handles control messages, finished connector tasks and timers.
    pub(crate) fn maintain(&mut self, now: Duration) {
        self.now = now;
        self.receive_control();
        self.take_finished();
        self.report_regions();
        self.check_rails();
        self.check_time();
        self.finish_end(); // after the rails: it needs all lanes to be gone
        self.post_queued();
        self.rails.post_queues();
    }

    // Queries.

    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    pub(super) fn stats(&self) -> &Arc<Stats> {
        self.completions.stats()
    }

    pub(super) fn rails(&self) -> &Rails {
        &self.rails
    }

    /// A plan that the link's status does not have yet.
    pub(super) fn take_new_plan(&mut self) -> Option<Box<NewPlan>> {
        self.rails.take_new_plan()
    }

    pub(super) fn ended(&self) -> Option<&LinkEnd> {
        self.ended.as_ref()
    }

    pub(super) fn event_log(&self) -> &EventLog {
        &self.event_log
    }

    pub(super) fn set_event_handler(&mut self, handler: Handler) {
        self.event_log.set_handler(handler);
    }

    /// Why no rail is up.
    pub(super) fn rail_problems(&self) -> String {
        self.rails.rail_problems(self.now)
    }

    // Sleeping.

    /// The descriptors of the control connection and of the connector.
    pub(super) fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.control.fd(), self.rails.connector_fd()]
    }

    pub(super) fn control(&self) -> &ControlConnection {
        &self.control
    }

    /// Whether no completion waits for the caller.
    pub(super) fn has_no_completions(&self) -> bool {
        self.completions.is_empty()
    }

    /// Whether a lane is closing, or control messages wait: the caller must not sleep then.
    #[inline]
    pub(super) fn is_urgent(&self) -> bool {
        self.rails.is_ending() || self.control.has_more()
    }

    /// Arms all lanes; `false` if one of them has work to do.
    pub(super) fn arm_lanes(&mut self) -> bool {
        self.rails.arm()
    }

    #[inline]
    pub(super) fn has_new_events(&self) -> bool {
        self.event_log.has_new_events()
    }

    /// Marks all events as published.
    pub(super) fn mark_published(&mut self) {
        self.event_log.mark_published();
    }
}

#[cfg(test)]
impl Core {
    /// The number of buffers that are kept for packets.
    pub(super) fn spare_buffers(&self) -> usize {
        self.packets.buffers.len()
    }

    /// The state, for debugging a test that hangs.
    pub(super) fn describe(&self) -> String {
        use std::fmt::Write;
        let is_initiator = self.rails.is_initiator();
        let mut text = format!("end {is_initiator} at {:?}: {:?}\n", self.now, self.ended);
        for rail in self.rails.iter() {
            let lane = rail.lane().map(super::rails::RailLane::describe);
            let (name, state, why) = (rail.name(is_initiator), rail.state(), rail.why());
            let _ = writeln!(text, "  {name} {state:?} {why} {}", lane.unwrap_or_default());
        }
        let _ = writeln!(text, "  {}", self.operations.describe());
        let _ = writeln!(text, "  {}", self.messages.describe());
        for event in self.event_log.last() {
            let _ =
                writeln!(text, "  {:.4} {:?} {} {}", event.at, event.what, event.rail, event.why);
        }
        text
    }
}

fn caps(config: &Config) -> Caps {
    Caps {
        transport: "link",
        datagram: false,
        max_message: 1 << 40,
        // One less than the minimum of all lanes: the header of a message is a slice too.
        max_slices: 15,
        depth: config.depth,
        receives: config.max_receives,
        inline: 0,
        peer_must_poll: true,
        private_memory: crate::lane::PrivateMemoryPath::ExtraCopy,
        spins: true,
        wakes_by_timer: false,
        rdma: false,
        ordered: false,
    }
}
