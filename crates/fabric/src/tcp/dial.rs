//! The dialling end: opens the connections, and authenticates on each.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::lane_parameters::{AuthenticatedSocket, LaneParameters};
use super::noise;
use crate::error::{Error, ErrorKind};
use crate::setup::Side;

pub(super) fn dial_all(
    address: SocketAddr,
    lane_parameters: &LaneParameters,
    deadline: Instant,
) -> Result<Vec<AuthenticatedSocket>, Error> {
    let dial = |stream| {
        dial(address, stream, lane_parameters, deadline).map_err(|error| {
            let fix = "check that the peer is running, that its address is reachable, and \
            that no firewall blocks the connection";
            Error::new(ErrorKind::Gone, format!("connect to {address}"), error, fix)
        })
    };
    (0..lane_parameters.streams).map(dial).collect()
}

fn dial(
    address: SocketAddr,
    stream: u8,
    lane_parameters: &LaneParameters,
    deadline: Instant,
) -> io::Result<AuthenticatedSocket> {
    let socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
    match lane_parameters.encrypted {
        true => authenticate_encrypted(socket, stream, lane_parameters, deadline),
        false => authenticate_plain(socket, stream, lane_parameters, deadline),
    }
}

fn authenticate_plain(
    mut socket: TcpStream,
    stream: u8,
    lane_parameters: &LaneParameters,
    deadline: Instant,
) -> io::Result<AuthenticatedSocket> {
    let first_bytes =
        [&lane_parameters.stream_header(stream)[..], &lane_parameters.accept_secret.to_le_bytes()]
            .concat();
    socket.write_all(&first_bytes)?;
    let answer = read(&mut socket, deadline)?;
    if u128::from_le_bytes(answer) != lane_parameters.dial_secret {
        return Err(noise::unknown_peer());
    }
    Ok(AuthenticatedSocket { socket, noise: None })
}

fn authenticate_encrypted(
    mut socket: TcpStream,
    stream: u8,
    lane_parameters: &LaneParameters,
    deadline: Instant,
) -> io::Result<AuthenticatedSocket> {
    let mut handshake = noise::start(lane_parameters, stream, Side::Dial)?;
    let first_bytes =
        [&lane_parameters.stream_header(stream)[..], &noise::write(&mut handshake)?].concat();
    socket.write_all(&first_bytes)?;
    let answer: [u8; noise::MESSAGE_BYTES] = read(&mut socket, deadline)?;
    noise::read(&mut handshake, &answer)?;
    let mut transport = handshake.into_transport_mode().map_err(io::Error::other)?;
    socket.write_all(&noise::confirm(&mut transport)?)?;
    Ok(AuthenticatedSocket { socket, noise: Some(transport) })
}

/// Reads exactly `N` bytes until the deadline.
fn read<const N: usize>(socket: &mut TcpStream, deadline: Instant) -> io::Result<[u8; N]> {
    let (mut bytes, mut count) = ([0; N], 0);
    while count < N {
        socket.set_read_timeout(Some(left(deadline)?))?;
        match socket.read(&mut bytes[count..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
