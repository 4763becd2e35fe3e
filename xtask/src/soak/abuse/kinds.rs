//! What others do that they should not.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::faults::flood;
use super::super::load::Client;
use super::offender::Abuser;
use super::test_server::Place;
use crate::Failed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Honest,
    Noise,
    NeverReads,
    Vanishes,
    Crowd,
    FullPool,
    FullDisk,
    WrongScope,
    ExpiredCertificate,
    Replay,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::Honest,
        Kind::Noise,
        Kind::NeverReads,
        Kind::Vanishes,
        Kind::Crowd,
        Kind::FullPool,
        Kind::FullDisk,
        Kind::WrongScope,
        Kind::ExpiredCertificate,
        Kind::Replay,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Honest => "one client that does nothing wrong",
            Kind::Noise => "noise on the ports of links and HTTP",
            Kind::NeverReads => "eight that ask and do not read",
            Kind::Vanishes => "one after the other killed in mid-transfer",
            Kind::Crowd => "1000 that come at once, and stay",
            Kind::FullPool => "one that writes into a full pool",
            Kind::FullDisk => "one that writes to a full disk",
            Kind::WrongScope => "one whose token is for other keys",
            Kind::ExpiredCertificate => "one whose certificate has expired",
            Kind::Replay => "one that replays a handshake",
        }
    }

    /// The bystander only reads there.
    pub(super) fn lets_nobody_write(self) -> bool {
        matches!(self, Kind::FullPool | Kind::FullDisk)
    }

    /// What must be so before.
    pub(super) fn prepare(self, place: &Place) -> Result<(), Failed> {
        if self.lets_nobody_write() {
            let (writer, begun) = (writer(place)?, Instant::now());
            while writer.take().errors == 0 {
                if begun.elapsed() > Duration::from_secs(60) {
                    return Err(format!("{}: it is not full", self.name()));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    pub(super) fn begin(self, place: &Place) -> Result<Abuser, Failed> {
        let links = place.server.links.clone();
        Ok(match self {
            Kind::Honest => Abuser::of(vec![Client::start(&links, "tcp", 50)?]),
            Kind::Noise => {
                let http = place.server.http.clone();
                Abuser::of(Vec::new()).again(move || {
                    flood(&links);
                    flood(&http);
                    600
                })
            }
            Kind::NeverReads => never_read(place)?,
            Kind::Vanishes => Abuser::of(Vec::new()).again(move || {
                let client = Client::start(&links, "tcp", 51);
                std::thread::sleep(Duration::from_millis(100));
                drop(client);
                1
            }),
            Kind::Crowd => {
                Abuser::of(vec![Client::start_with(&links, "tcp", 52, &["idlers=1000"])?])
            }
            Kind::FullPool | Kind::FullDisk => Abuser::of(vec![writer(place)?]),
            Kind::WrongScope => {
                let token = place.token("other").ok_or("there is no token")?;
                let told = format!("token={token}");
                Abuser::of(vec![Client::start_with(&links, "tcp", 53, &[&told])?])
            }
            Kind::ExpiredCertificate => {
                let [certificate, key] = ["late.pem", "late.key"].map(|name| place.path(name));
                Abuser::of(Vec::new()).again(move || {
                    let mut command = Command::new("openssl");
                    command.args(["s_client", "-alpn", "h2", "-connect", &links]);
                    command.arg("-cert").arg(&certificate).arg("-key").arg(&key);
                    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
                    let _ = quiet.stderr(Stdio::null()).status();
                    1
                })
            }
            Kind::Replay => {
                let recorded = record(place)?;
                Abuser::of(Vec::new()).again(move || replay(&links, &recorded))
            }
        })
    }
}

/// One that writes what there is no room for.
fn writer(place: &Place) -> Result<Client, Failed> {
    Client::start_with(&place.server.links, "tcp", 54, &["space=2", "reads=0", "bytes=131072"])
}

/// Four clients that stand still in the middle of what they do, and four callers of HTTP.
fn never_read(place: &Place) -> Result<Abuser, Failed> {
    let start = |way: &&str| Client::start(&place.server.links, way, 55);
    let clients = ["shm", "tcp", "tcp", "grpc"].iter().map(start).collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(Duration::from_millis(300));
    clients.iter().try_for_each(|client| client.signal("STOP"))?;
    let mut abuser = Abuser::of(clients);
    for _ in 0..4 {
        let Ok(mut caller) = TcpStream::connect(&place.server.http) else { continue };
        let _ = caller.set_write_timeout(Some(Duration::from_millis(100)));
        abuser = abuser.again(move || {
            let asked = caller.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\n\r\n");
            // It is full, or closed in our face.
            asked.map_or_else(|_| std::thread::sleep(Duration::from_millis(50)), drop);
            1
        });
    }
    Ok(abuser)
}

/// What a client says in the first half second.
fn record(place: &Place) -> Result<Vec<u8>, Failed> {
    let failed = |error: std::io::Error| format!("record a handshake: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.to_string();
    let token = place.token("root").ok_or("there is no token")?;
    let _client = Client::start_with(&address, "tcp", 56, &[&format!("token={token}")])?;
    let (mut near, _) = listener.accept().map_err(failed)?;
    let mut far = TcpStream::connect(&place.server.links).map_err(failed)?;
    let (mut back, mut to) = (far.try_clone().map_err(failed)?, near.try_clone().map_err(failed)?);
    std::thread::spawn(move || std::io::copy(&mut back, &mut to));
    near.set_read_timeout(Some(Duration::from_millis(500))).map_err(failed)?;
    let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = near.read(&mut bytes)
        && said.len() < 16_384
    {
        said.extend(&bytes[..count]);
        far.write_all(&bytes[..count]).map_err(failed)?;
    }
    let _ = far.shutdown(Shutdown::Both);
    Ok(said)
}

/// Says it again, and hears the end.
fn replay(links: &str, recorded: &[u8]) -> u64 {
    let Ok(mut caller) = TcpStream::connect(links) else { return 0 };
    let _ = caller.set_read_timeout(Some(Duration::from_secs(1)));
    let _ = caller.write_all(recorded);
    let _ = caller.read_to_end(&mut Vec::new());
    1
}
