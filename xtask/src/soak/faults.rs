//! Faults injected into clients and the port, one after the other, at regular intervals.

use std::fmt;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use super::load::Client;
use super::proxy::Proxy;
use super::server::Server;
use crate::Failure;

/// The disturbed clients, and the faults so far.
pub(super) struct Faults {
    links: String,
    /// One is killed and replaced, one is stopped for a while, one loses its connection.
    killed: Client,
    stopped: Client,
    cut: Client,
    proxy: Proxy,
    is_stopped: bool,
    next: Duration,
    count: FaultCounts,
}

/// The number of faults of each kind.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct FaultCounts {
    pub(super) kills: u32,
    pub(super) stops: u32,
    pub(super) cuts: u32,
    pub(super) floods: u32,
}

impl Faults {
    pub(super) fn start(server: &Server) -> Result<Self, Failure> {
        let links = server.links.clone();
        let proxy = Proxy::start(&links)?;
        Ok(Faults {
            killed: Client::start(&links, "shm", 101)?,
            stopped: Client::start(&links, "shm", 102)?,
            cut: Client::start(&proxy.address.to_string(), "tcp", 103)?,
            links,
            proxy,
            is_stopped: false,
            next: FAULT_INTERVAL,
            count: FaultCounts::default(),
        })
    }

    /// Injects the next fault if it is due; returns its name.
    pub(super) fn step(&mut self, now: Duration) -> Result<&'static str, Failure> {
        if now < self.next {
            return Ok("");
        }
        self.next = now + FAULT_INTERVAL;
        let FaultCounts { kills, stops, cuts, floods } = &mut self.count;
        let total = *kills + *stops + *cuts + *floods;
        if std::mem::take(&mut self.is_stopped) {
            self.stopped.signal("CONT")?;
        }
        Ok(match total % 4 {
            0 => {
                *kills += 1;
                let (transport, seed) = (TRANSPORTS[*kills as usize % 3], 200 + u64::from(*kills));
                // The previous client is killed when it is replaced.
                self.killed = Client::start(&self.links, transport, seed)?;
                "a client was killed"
            }
            1 => {
                *stops += 1;
                if *stops > 1 {
                    let transport = TRANSPORTS[*stops as usize % 3];
                    self.stopped = Client::start(&self.links, transport, 1000 + u64::from(*stops))?;
                    std::thread::sleep(Duration::from_millis(300));
                }
                self.stopped.signal("STOP")?;
                self.is_stopped = true;
                "a client was stopped"
            }
            2 => {
                *cuts += 1;
                self.proxy.cut();
                "a connection was cut"
            }
            _ => {
                *floods += 1;
                flood(&self.links);
                "random bytes on the port"
            }
        })
    }

    /// Kills the clients; returns the faults, and the error of the client whose connection was cut. Its
    /// writes may have an unknown outcome; all other requests are retried.
    pub(super) fn end(self) -> (FaultCounts, Option<String>) {
        let wrong = self.cut.take().first_error;
        (self.count, wrong.map(|why| format!("the disconnected client: {why}")))
    }
}

/// Connections with no data, or invalid data.
pub(super) fn flood(address: &str) {
    let random: Vec<u8> =
        (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let connections: Vec<TcpStream> =
        (0..300).filter_map(|_| TcpStream::connect(address).ok()).collect();
    for (at, mut connection) in connections.iter().enumerate() {
        // The server closes it sooner or later.
        let _ = connection.write_all(&random[..at * 13 % random.len()]);
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultCounts { kills, stops, cuts, floods } = self;
        write!(
            f,
            "injected: {kills} clients killed, {stops} stopped for {} s, {cuts} connections cut, {floods} floods of random bytes",
            FAULT_INTERVAL.as_secs()
        )
    }
}

/// The transports of the disturbed clients, one after the other.
const TRANSPORTS: [&str; 3] = ["shm", "tcp", "grpc"];
/// The time between two faults.
const FAULT_INTERVAL: Duration = Duration::from_secs(4);
