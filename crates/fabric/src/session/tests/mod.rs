//! Listeners and initiators over real sockets.

mod calls;
mod flood;
mod handover;
mod hostile;
mod messages;
mod tampering;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::HandshakeResult;
use super::initiator_handshake::InitiatorHandshake;
use super::{
    Config, Credentials, Key, ListenerConfig, Reason, Session, SessionError, SessionListener,
    connect,
};
use crate::error::Error;

fn key() -> Key {
    Key::from_hex("cluster", &"c7".repeat(32)).unwrap()
}

fn with_key() -> Credentials {
    Credentials::Key(key())
}

/// Accepts the cluster's key; its hello is `the listener`.
fn config() -> ListenerConfig {
    let config = ListenerConfig::new(|_, _| Ok(b"the listener".to_vec()));
    config.keyring.add(key()).unwrap();
    config
}

/// Accepts anonymous initiators too.
fn lenient() -> ListenerConfig {
    ListenerConfig { require_authentication: false, ..config() }
}

fn open(config: ListenerConfig) -> SessionListener {
    SessionListener::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config).unwrap()
}

fn call(listener: &SessionListener, credentials: &Credentials) -> Result<Session, Error> {
    connect(listener.address(), credentials, b"the initiator", &Config::default(), LIMIT)
}

/// Both ends of a session: the initiator's, then the listener's.
fn pair(listener: &SessionListener, credentials: &Credentials) -> (Session, Session) {
    let initiator = call(listener, credentials).unwrap();
    (initiator, listener.accept(LIMIT).expect("the initiator is accepted"))
}

/// The nonzero numbers of refusals by reason.
fn refusals(listener: &SessionListener) -> Vec<(&'static str, u64)> {
    let rows = Reason::ALL.map(|reason| (reason.name(), listener.counts().refused(reason)));
    rows.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Waits for the next message.
fn next(session: &mut Session) -> Result<Vec<u8>, SessionError> {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(message) = session.receive()? {
            return Ok(message);
        }
        assert!(Instant::now() < until, "no message arrives");
        let mut fds = [PollFd::from_borrowed_fd(session.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An initiator that sends bytes under the control of the test.
struct RawInitiator {
    socket: TcpStream,
    initiator: InitiatorHandshake,
    /// The bytes of the handshake so far.
    bytes: Vec<u8>,
}

impl RawInitiator {
    fn new(listener: &SessionListener, credentials: &Credentials) -> Self {
        let mut bytes = Vec::new();
        let initiator = InitiatorHandshake::new(credentials, b"the initiator", &mut bytes).unwrap();
        RawInitiator { socket: connect_raw(listener), initiator, bytes }
    }

    /// Performs the handshake, but sends at most `max_bytes` bytes. `None`: the handshake is not finished.
    fn shake_hands(&mut self, max_bytes: usize) -> Option<Box<HandshakeResult>> {
        let mut sent = 0;
        loop {
            let end = self.bytes.len().min(max_bytes);
            self.socket.write_all(&self.bytes[sent..end]).unwrap();
            sent = end;
            if sent < self.bytes.len() {
                return None;
            }
            let mut bytes = [0; 4096];
            let count = self.socket.read(&mut bytes).unwrap();
            if let Some(opened) = self.initiator.take(&bytes[..count], &mut self.bytes).unwrap() {
                return Some(opened);
            }
        }
    }
}

fn connect_raw(listener: &SessionListener) -> TcpStream {
    let socket = TcpStream::connect(listener.address()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// Sends these bytes, and returns all that the listener answers until it closes the connection.
fn answer(listener: &SessionListener, bytes: &[u8]) -> Vec<u8> {
    let mut socket = connect_raw(listener);
    socket.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    answer
}

/// Long enough for the slowest machine; a passing test does not wait for it.
const LIMIT: Duration = Duration::from_secs(30);
