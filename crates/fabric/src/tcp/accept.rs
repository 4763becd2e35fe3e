//! The accepting end: lets in who proves to be the peer. Unknown peers may call too, and say nothing: they cost
//! a place among the callers, never the lane.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Config;
use super::connection_router::Expected;
use super::dial::left;
use super::pending_connection::{Caller, Received};
use super::terms::{Met, Terms};
use crate::error::{Error, Kind};

/// Where connections come in.
pub(super) enum Entrance {
    Listener(TcpListener),
    Acceptor(Expected),
}

impl Entrance {
    pub(super) fn listen(config: &Config) -> Result<Self, Error> {
        let listener = TcpListener::bind((config.address, 0)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map(Entrance::Listener).map_err(|error| {
            let fix = "give an address of this machine, see `ip address`";
            Error::new(Kind::System, format!("listen on {}", config.address), error, fix)
        })
    }

    /// Waits until every stream of the lane is there.
    pub(super) fn accept_all(&self, terms: &Terms, deadline: Instant) -> Result<Vec<Met>, Error> {
        let mut streams: Vec<Option<Met>> = (0..terms.streams).map(|_| None).collect();
        let mut callers: Vec<Caller> = Vec::new();
        while streams.iter().any(Option::is_none) {
            let Ok(left) = left(deadline) else { return Err(self.nobody_came()) };
            self.rest(&callers, left);
            self.let_in(&mut callers);
            for at in (0..callers.len()).rev() {
                match callers[at].receive(terms) {
                    Received::Nothing => {}
                    Received::UnknownPeer => drop(callers.remove(at)),
                    Received::Peer(stream) => {
                        let caller = callers.remove(at);
                        let free = &mut streams[usize::from(stream)];
                        // One stream, one connection: whoever repeats what the peer said comes late.
                        if free.is_none() {
                            *free = caller.welcome(terms);
                        }
                    }
                }
            }
            // After all were read: the peer sends as soon as it is there, so the oldest of those who
            // said least is not it.
            if callers.len() > MAX_CALLERS {
                let least = (0..callers.len()).min_by_key(|at| callers[*at].progress());
                callers.remove(least.unwrap_or(0));
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }

    fn let_in(&self, callers: &mut Vec<Caller>) {
        match self {
            Entrance::Acceptor(expected) => callers.extend(
                expected
                    .take()
                    .into_iter()
                    .filter_map(|(hello, socket)| Caller::with_hello(socket, &hello)),
            ),
            Entrance::Listener(listener) => match listener.accept() {
                Ok((socket, _)) => callers.extend(Caller::new(socket)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Without descriptors the caller stays outside, and we stay awake.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            },
        }
    }

    /// Sleeps until somebody calls or says something.
    fn rest(&self, callers: &[Caller], limit: Duration) {
        let fds = std::iter::once(self.as_fd()).chain(callers.iter().map(AsFd::as_fd));
        let mut fds: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
    }

    fn nobody_came(&self) -> Error {
        let call = match self {
            Entrance::Listener(listener) => match listener.local_addr() {
                Ok(address) => format!("accept on {address}"),
                Err(_) => "accept".to_owned(),
            },
            Entrance::Acceptor(_) => "accept by the listener".to_owned(),
        };
        let fix = "see that the peer dials and that no firewall stands between";
        Error::new(Kind::Gone, call, "the peer did not come in time", fix)
    }
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Entrance::Listener(listener) => listener.as_fd(),
            Entrance::Acceptor(expected) => expected.as_fd(),
        }
    }
}

/// How many may be connected before they have said who they are.
const MAX_CALLERS: usize = 64;
