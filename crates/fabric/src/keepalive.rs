//! How a TCP connection finds out that the peer's host is gone.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};

/// Lets the connection fail when the peer's host was silent, or the peer left its buffers full, for so
/// long.
pub(crate) fn keep(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    // The kernel counts milliseconds in a signed number; none would mean its own default.
    let most = silence.as_millis().clamp(1, i32::MAX as u128) as u32;
    set_tcp_user_timeout(socket, most)?;
    // Without anything to acknowledge a lost host is found by asking.
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, (silence / 2).clamp(SECOND, 32_000 * SECOND))?;
    Ok(set_tcp_keepintvl(socket, SECOND)?)
}

const SECOND: Duration = Duration::from_secs(1);
