//! The dialling end: opens the connections, and says on each whom it calls and that it may.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::noise;
use super::terms::{Met, Terms};
use crate::error::{Error, Kind};
use crate::setup::Side;

pub(super) fn dial_all(
    address: SocketAddr,
    terms: &Terms,
    deadline: Instant,
) -> Result<Vec<Met>, Error> {
    let dial = |stream| {
        dial(address, stream, terms, deadline).map_err(|error| {
            let fix = "see that the peer is up, that its address can be reached from here, and \
                          that no firewall stands between";
            Error::new(Kind::Gone, format!("connect to {address}"), error, fix)
        })
    };
    (0..terms.streams).map(dial).collect()
}

fn dial(address: SocketAddr, stream: u8, terms: &Terms, deadline: Instant) -> io::Result<Met> {
    let socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
    match terms.encrypted {
        true => meet_sealed(socket, stream, terms, deadline),
        false => meet_plain(socket, stream, terms, deadline),
    }
}

fn meet_plain(
    mut socket: TcpStream,
    stream: u8,
    terms: &Terms,
    deadline: Instant,
) -> io::Result<Met> {
    let greeting = [&terms.hello(stream)[..], &terms.accept_token.to_le_bytes()].concat();
    socket.write_all(&greeting)?;
    let answer = read(&mut socket, deadline)?;
    if u128::from_le_bytes(answer) != terms.dial_token {
        return Err(noise::unknown_peer());
    }
    Ok(Met { socket, noise: None })
}

fn meet_sealed(
    mut socket: TcpStream,
    stream: u8,
    terms: &Terms,
    deadline: Instant,
) -> io::Result<Met> {
    let mut begun = noise::begin(terms, stream, Side::Dial)?;
    let greeting = [&terms.hello(stream)[..], &noise::write(&mut begun)?].concat();
    socket.write_all(&greeting)?;
    let answer: [u8; noise::MESSAGE] = read(&mut socket, deadline)?;
    noise::read(&mut begun, &answer)?;
    let mut met = begun.into_transport_mode().map_err(io::Error::other)?;
    socket.write_all(&noise::confirm(&mut met)?)?;
    Ok(Met { socket, noise: Some(met) })
}

/// So many bytes, however slowly they come, but not after the deadline.
fn read<const N: usize>(socket: &mut TcpStream, deadline: Instant) -> io::Result<[u8; N]> {
    let (mut bytes, mut count) = ([0; N], 0);
    while count < N {
        socket.set_read_timeout(Some(left(deadline)?))?;
        match socket.read(&mut bytes[count..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
