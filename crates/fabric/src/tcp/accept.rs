//! The accepting end: accepts connections that prove to be the peer's. Others may connect too, and send nothing: they count
//! as pending, but cannot prevent the lane.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Config;
use super::connection_router::Expectation;
use super::dial::left;
use super::lane_parameters::{AuthenticatedSocket, LaneParameters};
use super::pending_connection::{PendingConnection, ReceiveResult};
use crate::error::{Error, Kind};

/// Where connections come from.
pub(super) enum ConnectionSource {
    OwnListener(TcpListener),
    SharedListener(Expectation),
}

impl ConnectionSource {
    pub(super) fn listen(config: &Config) -> Result<Self, Error> {
        let listener = TcpListener::bind((config.address, 0)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map(ConnectionSource::OwnListener).map_err(|error| {
            let fix = "set an address of this machine, see `ip address`";
            Error::new(Kind::System, format!("listen on {}", config.address), error, fix)
        })
    }

    /// Waits until every stream of the lane is connected.
    pub(super) fn accept_all(
        &self,
        lane_parameters: &LaneParameters,
        deadline: Instant,
    ) -> Result<Vec<AuthenticatedSocket>, Error> {
        let mut streams: Vec<Option<AuthenticatedSocket>> =
            (0..lane_parameters.streams).map(|_| None).collect();
        let mut pending: Vec<PendingConnection> = Vec::new();
        while streams.iter().any(Option::is_none) {
            let Ok(left) = left(deadline) else { return Err(self.timed_out()) };
            self.wait_readable(&pending, left);
            self.accept_pending(&mut pending);
            for at in (0..pending.len()).rev() {
                match pending[at].receive(lane_parameters) {
                    ReceiveResult::Nothing => {}
                    ReceiveResult::UnknownPeer => drop(pending.remove(at)),
                    ReceiveResult::Peer(stream) => {
                        let connection = pending.remove(at);
                        let free = &mut streams[usize::from(stream)];
                        // One connection for each stream: a replay of the peer's messages comes too late.
                        if free.is_none() {
                            *free = connection.finish(lane_parameters);
                        }
                    }
                }
            }
            // After all were read: the peer sends immediately, so the oldest of those with the least
            // progress is not the peer.
            if pending.len() > MAX_PENDING_CONNECTIONS {
                let least = (0..pending.len()).min_by_key(|at| pending[*at].progress());
                pending.remove(least.unwrap_or(0));
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }

    fn accept_pending(&self, pending: &mut Vec<PendingConnection>) {
        match self {
            ConnectionSource::SharedListener(expected) => pending.extend(
                expected
                    .take()
                    .into_iter()
                    .filter_map(|(header, socket)| PendingConnection::with_header(socket, &header)),
            ),
            ConnectionSource::OwnListener(listener) => match listener.accept() {
                Ok((socket, _)) => pending.extend(PendingConnection::new(socket)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Without descriptors the connection stays in the backlog, and the listener stays readable.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            },
        }
    }

    /// Sleeps until a connection or data arrives.
    fn wait_readable(&self, pending: &[PendingConnection], limit: Duration) {
        let fds = std::iter::once(self.as_fd()).chain(pending.iter().map(AsFd::as_fd));
        let mut fds: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
    }

    fn timed_out(&self) -> Error {
        let call = match self {
            ConnectionSource::OwnListener(listener) => match listener.local_addr() {
                Ok(address) => format!("accept on {address}"),
                Err(_) => "accept".to_owned(),
            },
            ConnectionSource::SharedListener(_) => "accept on the shared listener".to_owned(),
        };
        let fix = "check that the peer dials and that no firewall blocks the connection";
        Error::new(Kind::Gone, call, "the peer did not connect in time", fix)
    }
}

impl AsFd for ConnectionSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ConnectionSource::OwnListener(listener) => listener.as_fd(),
            ConnectionSource::SharedListener(expected) => expected.as_fd(),
        }
    }
}

/// The maximum number of unauthenticated connections.
const MAX_PENDING_CONNECTIONS: usize = 64;
