//! The CPU time of the store: from its metrics over HTTP, or from /proc if it is local.

use std::fs;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::arguments::peer::Peer;
use crate::output::Failure;

/// The HTTP address of a store.
#[derive(Debug, Clone)]
pub(crate) struct HttpUrl(Peer);

impl FromStr for HttpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.split('/').next().unwrap_or(rest);
        rest.parse().map(HttpUrl).map_err(|_| "write http://HOST:PORT".to_owned())
    }
}

/// Reads the CPU time.
#[derive(Debug)]
pub(super) enum Meter {
    Http(SocketAddr),
    Process(u32),
    /// Not available.
    None,
}

impl Meter {
    /// With --http the address must answer; otherwise only a local store is measured.
    pub(super) fn new(url: Option<&HttpUrl>, store: Option<SocketAddr>) -> Result<Self, Failure> {
        let Some(HttpUrl(peer)) = url else {
            return Ok(store.and_then(listener).map_or(Meter::None, Meter::Process));
        };
        let addresses = peer.resolve()?;
        let answering = addresses.into_iter().find(|address| from_metrics(*address).is_some());
        answering.map(Meter::Http).ok_or_else(|| {
            Failure::failed(format!(
                "read process_cpu_seconds_total from http://{peer}/metrics: no such metric — pass the HTTP address \
                 of the store (its --metrics address if --http requires credentials), or omit --http"
            ))
        })
    }

    /// Seconds so far.
    pub(super) fn read(&self) -> Option<f64> {
        match self {
            Meter::Http(address) => from_metrics(*address),
            Meter::Process(pid) => from_proc(*pid),
            Meter::None => None,
        }
    }
}

/// From the metrics of the store.
fn from_metrics(address: SocketAddr) -> Option<f64> {
    cpu_seconds(&web::get(address, "/metrics", TIMEOUT, MAX_BYTES).ok()?)
}

fn cpu_seconds(metrics: &str) -> Option<f64> {
    metrics.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        name.ends_with("process_cpu_seconds_total").then(|| value.trim().parse().ok())?
    })
}

/// The sum of all threads of a process.
fn from_proc(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.filter_map(|thread| {
        let file = thread.ok()?.path().join("schedstat");
        fs::read_to_string(file).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    Some(times.sum::<u64>() as f64 / 1e9)
}

/// The local process that listens on an address.
fn listener(address: SocketAddr) -> Option<u32> {
    if !address.ip().is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let inode = tables.into_iter().find_map(|table| listening(&table, address.port()))?;
    let socket = format!("socket:[{inode}]");
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        targets.any(|target| target.as_os_str() == socket.as_str())
    };
    let processes = fs::read_dir("/proc").ok()?;
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(holds)
}

/// The inode of the socket that listens on a port.
fn listening(table: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = words.get(1)?.split_once(':')?;
        let ours = u16::from_str_radix(local, 16).ok()? == port && *words.get(3)? == LISTEN;
        ours.then(|| words.get(9).map(|inode| (*inode).to_owned()))?
    })
}

const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_listener_is_found_and_its_time_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let meter = Meter::new(None, listener.local_addr().ok()).unwrap();
        assert!(matches!(meter, Meter::Process(pid) if pid == std::process::id()), "{meter:?}");
        assert!(meter.read().is_some());
        let elsewhere = Meter::new(None, Some(SocketAddr::from(([192, 0, 2, 1], 1)))).unwrap();
        assert!(elsewhere.read().is_none());
    }

    #[test]
    fn the_metric_is_found_with_any_prefix() {
        let text = "# HELP x y\nwirelane_other 7\nwirelane_process_cpu_seconds_total 1.5\n";
        assert_eq!(cpu_seconds(text), Some(1.5));
        assert_eq!(cpu_seconds("nothing"), None);
    }
}
