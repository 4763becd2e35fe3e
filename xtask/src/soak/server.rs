//! The server: its process, and what it tells.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Failed, shell};

/// A release build of `wirelane serve` on ports of its own; it ends with its owner.
pub(super) struct Server {
    child: Child,
    pub(super) links: String,
    http: String,
}

impl Server {
    pub(super) fn start(more: &str) -> Result<Self, Failed> {
        let [links, http] = [free_address()?, free_address()?];
        let folder = shell::target().join("xtask");
        std::fs::create_dir_all(&folder).map_err(|error| format!("make {folder:?}: {error}"))?;
        let log = folder.join("soak-serve.log");
        let log = File::create(&log).map_err(|error| format!("write {log:?}: {error}"))?;
        let mut command = bound(shell::target().join("release/wirelane"));
        command.args(["serve", "--prefault", "--log-level", "warn"]);
        if !more.contains("--memory") {
            command.args(["--memory", "512MiB"]);
        }
        command.args(["--listen", &links, "--http", &http]).args(more.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("start wirelane serve: {error}"))?;
        let server = Server { child, links, http };
        let begun = Instant::now();
        while server.get("/readyz").is_none_or(|answer| answer != "ready\n") {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("wirelane serve is not ready: see target/xtask/soak-serve.log".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Every metric, by its name with labels and without prefix.
    pub(super) fn metrics(&self) -> Result<HashMap<String, f64>, Failed> {
        let text = self.get("/metrics").ok_or("the server does not answer /metrics")?;
        let row = |line: &str| {
            let (name, value) = line.strip_prefix("wirelane_")?.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter_map(row).collect())
    }

    /// What is still held once all clients are gone, by name; gives it time to come back.
    pub(super) fn at_rest(&self) -> Vec<String> {
        let held = ["store_clients", "store_pins", "pool_reserved_bytes", "store_in_flight_bytes"];
        let begun = Instant::now();
        loop {
            let now = self.metrics().unwrap_or_default();
            let value = |name: &str| now.get(name).copied();
            let left = held.iter().filter(|name| value(name) != Some(0.0));
            let left: Vec<String> = left.map(|name| format!("{name} {:?}", value(name))).collect();
            if left.is_empty() || begun.elapsed() > Duration::from_secs(60) {
                return left;
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

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that ends with us, however we end: the kernel sees to it.
pub(super) fn bound(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

fn free_address() -> Result<String, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.to_string()).map_err(|error| format!("a free port: {error}"))
}
