//! The server: its process and metrics.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Failure, shell};

/// A release build of `wirelane serve` on free ports, killed on drop.
pub(super) struct Server {
    child: Child,
    pub(super) links: String,
    pub(super) http: String,
}

impl Server {
    pub(super) fn start(more: &str) -> Result<Self, Failure> {
        Server::start_within(&[], more)
    }

    /// Starts it with wrapper programs, such as taskset, which execute it.
    pub(super) fn start_within(within: &[&str], more: &str) -> Result<Self, Failure> {
        Server::spawn(within, more)?.ready()
    }

    fn ready(self) -> Result<Self, Failure> {
        let started = Instant::now();
        while self.get("/readyz").is_none_or(|answer| answer != "ready\n") {
            if started.elapsed() > Duration::from_secs(30) {
                return Err("wirelane serve is not ready: see target/xtask/soak-serve.log".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(self)
    }

    /// Starts one with TLS, or whose status needs credentials: it is ready when its port listens.
    pub(super) fn start_guarded(within: &[&str], more: &str) -> Result<Self, Failure> {
        let server = Server::spawn(within, more)?;
        let started = Instant::now();
        while TcpStream::connect(&server.links).is_err() {
            if started.elapsed() > Duration::from_secs(30) {
                return Err(
                    "wirelane serve does not listen: see target/xtask/soak-serve.log".into()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn spawn(within: &[&str], more: &str) -> Result<Self, Failure> {
        let [links, http] = [free_address()?, free_address()?];
        let folder = shell::target().join("xtask");
        std::fs::create_dir_all(&folder).map_err(|error| format!("create {folder:?}: {error}"))?;
        let log = folder.join("soak-serve.log");
        let log = File::create(&log).map_err(|error| format!("write {log:?}: {error}"))?;
        let program = shell::target().join("release/wirelane");
        let mut command = killed_with_us(within.first().map_or(program.as_os_str(), OsStr::new));
        if let Some((_, within)) = within.split_first() {
            command.args(within).arg(program);
        }
        command.args(["serve", "--prefault", "--log-level", "warn"]);
        // For all that the clients write, or with a disk for a part of it, so that values are evicted and loaded.
        if !more.contains("--memory") {
            command
                .args(["--memory", if more.contains("--data-dir") { "64MiB" } else { "512MiB" }]);
        }
        command.args(["--listen", &links, "--http", &http]).args(more.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("start wirelane serve: {error}"))?;
        Ok(Server { child, links, http })
    }

    /// Every metric, by its name with labels and without prefix.
    pub(super) fn metrics(&self) -> Result<HashMap<String, f64>, Failure> {
        let text = self.get("/metrics").ok_or("the server does not answer /metrics")?;
        let row = |line: &str| {
            let (name, value) = line.strip_prefix("wirelane_")?.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter_map(row).collect())
    }

    /// Its resources without clients.
    pub(super) fn idle_state(&self) -> Result<IdleState, Failure> {
        let now = self.metrics()?;
        let value = |name: &str| now.get(name).copied().unwrap_or(f64::NAN);
        let held = ["store_clients", "store_pins", "pool_reserved_bytes", "store_in_flight_bytes"];
        let held = held.into_iter().filter(|name| value(name) != 0.0);
        Ok(IdleState {
            descriptors: value("process_open_fds"),
            threads: value("process_threads"),
            held: held.map(|name| format!("{name} {}", value(name))).collect(),
        })
    }

    /// The same after all clients have left; waits up to a minute for the state before.
    pub(super) fn idle_state_after(&self, before: &IdleState) -> Result<IdleState, Failure> {
        let started = Instant::now();
        loop {
            let rest = self.idle_state()?;
            if rest.is_like(before) || started.elapsed() > Duration::from_secs(60) {
                return Ok(rest);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.http).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.split_once("\r\n\r\n")?.1.to_owned())
    }
}

/// The resources of a server without clients.
#[derive(Debug, Default, Clone)]
pub(super) struct IdleState {
    pub(super) descriptors: f64,
    pub(super) threads: f64,
    /// Metrics that should be 0 then, and are not.
    pub(super) held: Vec<String>,
}

impl IdleState {
    /// Tolerance: threads of a pool that were not needed before, and their descriptors.
    pub(super) const TOLERANCE: f64 = 8.0;

    pub(super) fn is_like(&self, before: &IdleState) -> bool {
        self.held.is_empty()
            && self.descriptors <= before.descriptors + IdleState::TOLERANCE
            && self.threads <= before.threads + IdleState::TOLERANCE
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that the kernel kills when we exit.
pub(super) fn killed_with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

fn free_address() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.to_string()).map_err(|error| format!("a free port: {error}"))
}
