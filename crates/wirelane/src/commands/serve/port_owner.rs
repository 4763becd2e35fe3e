//! Which process listens on a port, from /proc, for the error that the port is in use.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// A process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner {
    name: String,
    pid: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// The process whose listener conflicts with `address`, if this user can see it in /proc.
pub(super) fn find(address: SocketAddr) -> Option<Owner> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, address))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|pid| has_socket(*pid, &sockets))
        .map(|pid| Owner { name: name(pid), pid })
}

/// Inodes of the sockets that listen on `address` or on every address of this machine, from a table
/// such as /proc/net/tcp.
fn listeners(table: &str, address: SocketAddr) -> Vec<String> {
    const LISTEN: &str = "0A";
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let local = words.nth(1)?;
            let state = words.nth(1)?;
            let inode = words.nth(5)?;
            (conflicts(local, address)? && state == LISTEN).then(|| inode.to_owned())
        })
        .collect()
}

/// Whether a local address as the kernel writes it (hexadecimal words in host byte order, colon,
/// port) is `address` or covers it.
fn conflicts(local: &str, address: SocketAddr) -> Option<bool> {
    let (host, port) = local.split_once(':')?;
    let unspecified = host.bytes().all(|digit| digit == b'0');
    let words = |bytes: &[u8]| -> String {
        let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.chunks_exact(4).map(|bytes| format!("{:08X}", word(bytes))).collect()
    };
    let ours = match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    let same_port = u16::from_str_radix(port, 16).ok()? == address.port();
    Some(same_port && (unspecified || host == ours))
}

fn has_socket(pid: u32, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or("a process".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let owner = find(listener.local_addr().unwrap()).unwrap();
        assert_eq!(owner.pid, std::process::id());
        let other = SocketAddr::from(([127, 0, 0, 77], listener.local_addr().unwrap().port()));
        assert_eq!(find(other), None, "another address with the same port does not conflict");
        let unspecified = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let port = unspecified.local_addr().unwrap().port();
        assert!(find(SocketAddr::from(([127, 0, 0, 1], port))).is_some());
    }

    #[test]
    fn a_connected_socket_is_not_a_listener() {
        let table = "header\n   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 \
                     00000000     0        0 4711 1\n";
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        assert!(listeners(table, address).is_empty());
        assert_eq!(listeners(&table.replace(" 01 ", " 0A "), address), ["4711"]);
    }
}
