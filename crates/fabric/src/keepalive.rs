//! Detecting that the host at the other end of a TCP connection is gone.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};

/// Lets the connection fail if the peer's host does not answer, or the peer leaves its receive buffer full, for
/// `timeout`.
pub(crate) fn enable(socket: &TcpStream, timeout: Duration) -> io::Result<()> {
    // The kernel's value is signed milliseconds; zero would mean its default.
    let milliseconds = timeout.as_millis().clamp(1, i32::MAX as u128) as u32;
    set_tcp_user_timeout(socket, milliseconds)?;
    // On an idle connection only keepalive probes find a lost host.
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, (timeout / 2).clamp(SECOND, 32_000 * SECOND))?;
    Ok(set_tcp_keepintvl(socket, SECOND)?)
}

const SECOND: Duration = Duration::from_secs(1);
