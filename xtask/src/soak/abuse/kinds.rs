//! The kinds of misbehaviour.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::faults::flood;
use super::super::load::Client;
use super::abuse_load::AbuseLoad;
use super::test_server::TestServer;
use crate::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbuseKind {
    WellBehaved,
    RandomBytes,
    NeverReads,
    Vanishes,
    ManyClients,
    FullPool,
    FullDisk,
    WrongScope,
    ExpiredCertificate,
    Replay,
}

impl AbuseKind {
    pub(super) const ALL: [AbuseKind; 10] = [
        AbuseKind::WellBehaved,
        AbuseKind::RandomBytes,
        AbuseKind::NeverReads,
        AbuseKind::Vanishes,
        AbuseKind::ManyClients,
        AbuseKind::FullPool,
        AbuseKind::FullDisk,
        AbuseKind::WrongScope,
        AbuseKind::ExpiredCertificate,
        AbuseKind::Replay,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            AbuseKind::WellBehaved => "one well-behaved client",
            AbuseKind::RandomBytes => "random bytes on the ports of links and HTTP",
            AbuseKind::NeverReads => "eight that send requests and do not read",
            AbuseKind::Vanishes => "clients killed during transfers",
            AbuseKind::ManyClients => "1000 idle clients",
            AbuseKind::FullPool => "one that writes into a full pool",
            AbuseKind::FullDisk => "one that writes to a full disk",
            AbuseKind::WrongScope => "one whose token is for other keys",
            AbuseKind::ExpiredCertificate => "one whose certificate has expired",
            AbuseKind::Replay => "one that replays a handshake",
        }
    }

    /// Whether the server is full: the measured client then only reads.
    pub(super) fn refuses_writes(self) -> bool {
        matches!(self, AbuseKind::FullPool | AbuseKind::FullDisk)
    }

    /// Prepares the server.
    pub(super) fn prepare(self, server: &TestServer) -> Result<(), Failure> {
        if self.refuses_writes() {
            let (writer, started) = (writer(server)?, Instant::now());
            while writer.take().errors == 0 {
                if started.elapsed() > Duration::from_secs(60) {
                    return Err(format!("{}: the server is not full", self.name()));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    pub(super) fn begin(self, server: &TestServer) -> Result<AbuseLoad, Failure> {
        let links = server.server.links.clone();
        Ok(match self {
            AbuseKind::WellBehaved => AbuseLoad::of(vec![Client::start(&links, "tcp", 50)?]),
            AbuseKind::RandomBytes => {
                let http = server.server.http.clone();
                AbuseLoad::of(Vec::new()).repeat(move || {
                    flood(&links);
                    flood(&http);
                    600
                })
            }
            AbuseKind::NeverReads => never_read(server)?,
            AbuseKind::Vanishes => AbuseLoad::of(Vec::new()).repeat(move || {
                let client = Client::start(&links, "tcp", 51);
                std::thread::sleep(Duration::from_millis(100));
                drop(client);
                1
            }),
            AbuseKind::ManyClients => {
                AbuseLoad::of(vec![Client::start_with(&links, "tcp", 52, &["idlers=1000"])?])
            }
            AbuseKind::FullPool | AbuseKind::FullDisk => AbuseLoad::of(vec![writer(server)?]),
            AbuseKind::WrongScope => {
                let token = server.token("other").ok_or("there is no token")?;
                let argument = format!("token={token}");
                AbuseLoad::of(vec![Client::start_with(&links, "tcp", 53, &[&argument])?])
            }
            AbuseKind::ExpiredCertificate => {
                let [certificate, key] = ["late.pem", "late.key"].map(|name| server.path(name));
                AbuseLoad::of(Vec::new()).repeat(move || {
                    let mut command = Command::new("openssl");
                    command.args(["s_client", "-alpn", "h2", "-connect", &links]);
                    command.arg("-cert").arg(&certificate).arg("-key").arg(&key);
                    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
                    let _ = quiet.stderr(Stdio::null()).status();
                    1
                })
            }
            AbuseKind::Replay => {
                let recorded = record(server)?;
                AbuseLoad::of(Vec::new()).repeat(move || replay(&links, &recorded))
            }
        })
    }
}

/// A client that writes values for which there is no space.
fn writer(server: &TestServer) -> Result<Client, Failure> {
    Client::start_with(&server.server.links, "tcp", 54, &["space=2", "reads=0", "bytes=131072"])
}

/// Four clients that are stopped during transfers, and four HTTP connections.
fn never_read(server: &TestServer) -> Result<AbuseLoad, Failure> {
    let start = |transport: &&str| Client::start(&server.server.links, transport, 55);
    let clients = ["shm", "tcp", "tcp", "grpc"].iter().map(start).collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(Duration::from_millis(300));
    clients.iter().try_for_each(|client| client.signal("STOP"))?;
    let mut abuse_load = AbuseLoad::of(clients);
    for _ in 0..4 {
        let Ok(mut caller) = TcpStream::connect(&server.server.http) else { continue };
        let _ = caller.set_write_timeout(Some(Duration::from_millis(100)));
        abuse_load = abuse_load.repeat(move || {
            let sent = caller.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\n\r\n");
            // The socket is full, or closed by the server.
            sent.map_or_else(|_| std::thread::sleep(Duration::from_millis(50)), drop);
            1
        });
    }
    Ok(abuse_load)
}

/// The bytes that a client sends in the first half second.
fn record(server: &TestServer) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| format!("record a handshake: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.to_string();
    let token = server.token("root").ok_or("there is no token")?;
    let _client = Client::start_with(&address, "tcp", 56, &[&format!("token={token}")])?;
    let (mut near, _) = listener.accept().map_err(failed)?;
    let mut far = TcpStream::connect(&server.server.links).map_err(failed)?;
    let (mut back, mut to) = (far.try_clone().map_err(failed)?, near.try_clone().map_err(failed)?);
    std::thread::spawn(move || std::io::copy(&mut back, &mut to));
    near.set_read_timeout(Some(Duration::from_millis(500))).map_err(failed)?;
    let (mut recorded, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = near.read(&mut bytes)
        && recorded.len() < 16_384
    {
        recorded.extend(&bytes[..count]);
        far.write_all(&bytes[..count]).map_err(failed)?;
    }
    let _ = far.shutdown(Shutdown::Both);
    Ok(recorded)
}

/// Sends them again, and reads to the end.
fn replay(links: &str, recorded: &[u8]) -> u64 {
    let Ok(mut caller) = TcpStream::connect(links) else { return 0 };
    let _ = caller.set_read_timeout(Some(Duration::from_secs(1)));
    let _ = caller.write_all(recorded);
    let _ = caller.read_to_end(&mut Vec::new());
    1
}
