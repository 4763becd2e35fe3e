//! The dialling end: opens the connections, and says on each whom it calls and that it may.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::terms::Terms;
use crate::error::{Error, Kind};

pub(super) fn dial_all(
    address: SocketAddr,
    terms: &Terms,
    deadline: Instant,
) -> Result<Vec<TcpStream>, Error> {
    let dial = |stream| {
        dial(address, stream, terms, deadline).map_err(|error| {
            let remedy = "see that the peer is up, that its address can be reached from here, and \
                          that no firewall stands between";
            Error::new(Kind::Gone, format!("connect to {address}"), error, remedy)
        })
    };
    (0..terms.streams).map(dial).collect()
}

fn dial(
    address: SocketAddr,
    stream: u8,
    terms: &Terms,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
    let said = [&terms.hello(stream)[..], &terms.accept_token.to_le_bytes()].concat();
    socket.write_all(&said)?;
    let mut answer = [0; 16];
    read_until(&mut socket, &mut answer, deadline)?;
    if u128::from_le_bytes(answer) != terms.dial_token {
        return Err(io::Error::other("somebody else answers there"));
    }
    Ok(socket)
}

/// Fills `bytes`, however slowly they come, but not after the deadline.
fn read_until(socket: &mut TcpStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.set_read_timeout(Some(left(deadline)?))?;
        match socket.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
