//! Which process listens on a port, by /proc: what a person looks up next when a port is taken.

use std::fmt;
use std::fs;

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

/// The listener on `port`, if /proc shows it to this user.
pub(super) fn find(port: u16) -> Option<Owner> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|pid| holds(*pid, &sockets))
        .map(|pid| Owner { name: name(pid), pid })
}

/// Inodes of the sockets that listen on `port`, from a table such as /proc/net/tcp.
fn listeners(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let local_port = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let local = words.nth(1)?;
            let state = words.nth(1)?;
            let inode = words.nth(5)?;
            (local.ends_with(&local_port) && state == LISTEN).then(|| inode.to_owned())
        })
        .collect()
}

fn holds(pid: u32, sockets: &[String]) -> bool {
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
    fn we_find_ourselves() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let owner = find(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(owner.pid, std::process::id());
    }

    #[test]
    fn a_connected_socket_is_not_a_listener() {
        let table = "header\n   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 \
                     00000000     0        0 4711 1\n";
        assert!(listeners(table, 8080).is_empty());
        assert_eq!(listeners(&table.replace(" 01 ", " 0A "), 8080), ["4711"]);
    }
}
