//! The local address that reaches another host.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The source address of packets to `to`. Sends nothing.
pub(crate) fn source_address(to: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}
