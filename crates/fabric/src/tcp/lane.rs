//! The TCP lane.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;

use super::Config;
use crate::error::{Error, ErrorKind};
use crate::lane::{Caps, Lane, PrivateMemoryPath, next_lane_id};
use crate::op::{Completion, Failure, Op};
use crate::packets::{Packet, PacketCounts, PacketReceiver, Packets};
use crate::region::Region;
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};
use crate::stats::Stats;
use crate::stream_engine::{Stream, StreamEngine};
use crate::timer::Timer;

/// Over plain or encrypted sockets.
pub(super) struct TcpLane<S> {
    id: u64,
    caps: Caps,
    pub(super) engine: StreamEngine<S>,
    timer: Timer,
    epoll: OwnedFd,
    /// For which sockets epoll also waits for writability.
    writing: Vec<bool>,
}

impl<S: Stream + AsFd> TcpLane<S> {
    pub(super) fn new(sockets: Vec<S>, config: &Config) -> Result<Self, Error> {
        let system = |error| {
            let fix = "see the limits of this process: `ulimit -n`";
            Error::new(ErrorKind::System, "prepare a TCP lane", error, fix)
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let timer = Timer::new().map_err(system)?;
        let watch = |fd, at: usize| {
            let data = epoll::EventData::new_u64(at as u64);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system)
        };
        for (at, socket) in sockets.iter().enumerate() {
            watch(socket.as_fd(), at)?;
        }
        watch(timer.as_fd(), sockets.len())?;
        let writing = vec![false; sockets.len()];
        // Frames stay in order on one stream, and so do messages that wait for receives; streams
        // overtake each other.
        let caps = Caps { ordered: sockets.len() == 1, ..CAPS };
        let engine = StreamEngine::new(sockets, config.receive_timeout);
        Ok(TcpLane { id: next_lane_id(), caps, engine, timer, epoll, writing })
    }

    /// Starts operations until the lane is full.
    fn start(&mut self, ops: &mut VecDeque<Op>) {
        while ops.front().is_some_and(|op| self.engine.state.has_capacity(op, &self.caps)) {
            let Some(op) = ops.pop_front() else { break };
            match self.caps.allow(&op.work, self.id) {
                Ok(()) => self.engine.start(op),
                Err(failure) => self.engine.state.complete(op, Err(failure)),
            }
        }
    }

    /// Removes the sockets of a dead lane from epoll: a closed socket would stay readable forever.
    fn stop_watching(&mut self) {
        for (at, socket) in self.engine.streams().enumerate() {
            let data = epoll::EventData::new_u64(at as u64);
            // Only a reason that is not sent yet is left to do. Removing
            // a socket twice fails, which is harmless.
            let _ = match self.engine.has_backlog(at) {
                true => epoll::modify(&self.epoll, socket, data, epoll::EventFlags::OUT),
                false => epoll::delete(&self.epoll, socket),
            };
        }
    }

    /// Waits for writability of the sockets that have a backlog.
    fn watch_writing(&mut self) {
        for (at, socket) in self.engine.streams().enumerate() {
            let wanted = self.engine.has_backlog(at);
            if wanted == self.writing[at] {
                continue;
            }
            self.writing[at] = wanted;
            let events = if wanted { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(at as u64);
            // Cannot fail: the socket is registered.
            let _ = epoll::modify(&self.epoll, socket, data, events | epoll::EventFlags::IN);
        }
    }
}

impl<S: Stream + AsFd> Lane for TcpLane<S> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.engine.state.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let (rights, length) = (region.rights(), region.len() as u64);
        let key = self.engine.state.grants.add(region)?;
        Ok(RemoteRegion { lane: LaneKind::Tcp, rights, length, address: 0, key })
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        let RemoteRegion { rights, length, key, .. } = *remote;
        remote.expect(LaneKind::Tcp)?;
        Ok(Window::new(self.id, length, rights, AccessMethod::Request { key }))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        self.start(ops);
        self.engine.flush();
        before - ops.len()
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.engine.poll(done)
    }

    fn packets(&mut self) -> Option<&mut dyn Packets> {
        Some(self)
    }

    fn arm(&mut self) -> bool {
        self.engine.report_now();
        self.timer.set(self.engine.state.deadline());
        let dead = self.engine.state.dead().is_some();
        if dead {
            self.stop_watching();
        } else {
            self.watch_writing();
        }
        // Epoll reports data in the sockets, but not what was read from
        // them already. A dead lane reads nothing.
        let unread = !dead && self.engine.streams().any(Stream::has_unread);
        !self.engine.state.has_done() && !unread
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn close(&mut self) {
        self.engine.close(Failure::Flushed);
    }
}

impl<S: Stream + AsFd> Packets for TcpLane<S> {
    fn accept(&mut self, max_length: usize) {
        self.engine.state.accept_packets(max_length);
    }

    fn send(&mut self, before: &mut VecDeque<Op>, packet: Packet<'_>) -> bool {
        self.start(before);
        self.engine.send_packet(before, &packet)
    }

    fn flush(&mut self) {
        self.engine.flush();
    }

    fn poll(
        &mut self,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> PacketCounts {
        self.engine.poll_packets(receiver, done)
    }
}

const CAPS: Caps = Caps {
    transport: "tcp",
    datagram: false,
    ordered: false,
    max_message: 1 << 40,
    max_slices: 32,
    depth: 1024,
    receives: 4096,
    inline: 0,
    peer_must_poll: true,
    private_memory: PrivateMemoryPath::Direct,
    spins: true,
    wakes_by_timer: false,
    rdma: false,
};
