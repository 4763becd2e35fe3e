//! A simulated lane.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::end::{EndState, MAX_MESSAGE, MAX_SLICES};
use super::fabric::EndGuard;
use crate::error::{Error, ErrorKind};
use crate::lane::{Caps, Lane, PrivateMemoryPath};
use crate::op::{Completion, Failure, Op, OpKind};
use crate::packets::{Packet, PacketCounts, PacketReceiver, Packets};
use crate::region::Region;
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};
use crate::stats::Stats;

/// A handle to one end. All state is in the world.
pub(super) struct SimLane {
    end: EndGuard,
    caps: Caps,
    stats: Arc<Stats>,
    wakeup: Arc<OwnedFd>,
    packets_arrived: u64,
}

impl SimLane {
    pub(super) fn new(end: EndGuard, wakeup: Arc<OwnedFd>) -> Self {
        let config = end.world.lock().config;
        let caps = Caps {
            transport: "sim",
            datagram: false,
            ordered: config.ordered,
            max_message: MAX_MESSAGE,
            max_slices: MAX_SLICES,
            depth: config.depth,
            receives: config.receives,
            inline: 0,
            peer_must_poll: false,
            private_memory: PrivateMemoryPath::Direct,
            spins: true,
            wakes_by_timer: false,
            rdma: false,
        };
        SimLane { end, caps, stats: Arc::default(), wakeup, packets_arrived: 0 }
    }
}

impl Lane for SimLane {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let key = self.end.world.lock().end(self.end.number).grants.add(region)?;
        let length = region.len() as u64;
        Ok(RemoteRegion { lane: LaneKind::Sim, rights: region.rights(), length, address: 0, key })
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        if remote.lane != LaneKind::Sim {
            let why = format!("it was granted on a lane of another kind ({:?})", remote.lane);
            let fix = "grant it on the other end of this lane";
            return Err(Error::new(ErrorKind::Misuse, "import a region", why, fix));
        }
        let RemoteRegion { rights, length, key, .. } = *remote;
        let lane = self.end.world.lock().lane(self.end.number);
        Ok(Window::new(lane, length, rights, AccessMethod::Request { key }))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let mut state = self.end.world.lock();
        let count = state.post(self.end.number, ops);
        // Events without a delay happen now: the peer may be asleep and waiting for them.
        state.run_due();
        count
    }

    /// Returns what is finished now. Time does not advance.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let mut state = self.end.world.lock();
        state.run_due();
        let before = done.len();
        while let Some(finished) = state.next_completion(self.end.number) {
            self.stats.count(&finished.completion);
            match finished.completion.outcome {
                Ok(_) | Err(Failure::Unsupported) => {}
                // The first failure is the reason.
                Err(failure) => self.record_end(failure),
            }
            if let Some(took) = finished.took {
                self.stats.add_latency(took);
            }
            done.push(finished.completion);
        }
        done.len() - before
    }

    fn packets(&mut self) -> Option<&mut dyn Packets> {
        let has_packets = self.end.world.lock().config.packets;
        has_packets.then_some(self as &mut dyn Packets)
    }

    fn arm(&mut self) -> bool {
        let mut state = self.end.world.lock();
        state.run_due();
        state.end(self.end.number).clear_wakeup()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    fn close(&mut self) {
        self.record_end(Failure::Flushed);
        self.end.world.lock().end_lane(self.end.number);
    }
}

impl Packets for SimLane {
    fn accept(&mut self, max_length: usize) {
        self.end.world.lock().end(self.end.number).packets.accept(max_length);
    }

    fn send(&mut self, before: &mut VecDeque<Op>, packet: Packet<'_>) -> bool {
        packet.check();
        self.post(before);
        let mut bytes = Vec::new();
        packet.copy_to(&mut bytes);
        let sent = before.is_empty() && self.end.world.lock().send_packet(self.end.number, bytes);
        if sent {
            self.stats.succeeded(OpKind::Send, packet.total() as u64);
        }
        sent
    }

    fn flush(&mut self) {
        self.end.world.lock().run_due();
    }

    fn poll(
        &mut self,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> PacketCounts {
        Lane::poll(self, done);
        let mut state = self.end.world.lock();
        let end = state.end(self.end.number);
        for packet in end.packets.take_queue() {
            self.stats.succeeded(OpKind::Receive, packet.len() as u64);
            self.packets_arrived += 1;
            receiver.packet(&packet);
        }
        // The owner of a killed host notices nothing.
        let ended = end.failure.filter(|_| end.state != EndState::Killed);
        PacketCounts { arrived: self.packets_arrived, delivered: end.packets_delivered, ended }
    }
}

impl SimLane {
    fn record_end(&self, failure: Failure) {
        if self.stats.ended().is_none() {
            self.stats.set_ended(failure);
        }
    }
}
