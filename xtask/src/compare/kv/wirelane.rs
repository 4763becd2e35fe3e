//! Ours: `wirelane serve`, and `wirelane kv bench`, which checks every value that it reads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::build::Build;
use super::super::tools::{self, Cpus};
use super::server::Server;
use crate::{Failure, shell};

/// Starts the store of a build with this much memory, and waits until it is healthy.
pub(in super::super) fn start(program: &str, memory: &str) -> Result<Server, Failure> {
    start_program(program, memory, &[])
}

/// As [`start`], with our build, on one RDMA device only.
pub(super) fn start_on(memory: &str, device: Option<&str>) -> Result<Server, Failure> {
    let settings = device.map(settings).transpose()?;
    let settings: Vec<&str> =
        settings.iter().flat_map(|file| ["--config", file.as_str()]).collect();
    start_with(memory, &settings)
}

/// As [`start`], with our build and more arguments.
pub(super) fn start_with(memory: &str, more: &[&str]) -> Result<Server, Failure> {
    start_program(&ours(), memory, more)
}

/// As [`start`], with our build, on all CPUs.
pub(super) fn start_on_all_cpus(memory: &str) -> Result<Server, Failure> {
    start_on_cpus(Cpus::All, &ours(), memory, &[])
}

fn start_program(program: &str, memory: &str, more: &[&str]) -> Result<Server, Failure> {
    start_on_cpus(Cpus::One, program, memory, more)
}

fn start_on_cpus(
    cpus: Cpus,
    program: &str,
    memory: &str,
    more: &[&str],
) -> Result<Server, Failure> {
    let http = tools::free_port()?;
    let server = spawn_with(cpus, program, memory, &http, more)?;
    let status = format!("127.0.0.1:{http}");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !healthy(&status) {
        if Instant::now() > deadline {
            return Err(format!("http://{status}/healthz did not return 200 in 10 s"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

/// Starts a store, and waits only until its port is open.
pub(super) fn spawn(memory: &str, more: &[&str]) -> Result<Server, Failure> {
    spawn_with(Cpus::One, &ours(), memory, &tools::free_port()?, more)
}

fn spawn_with(
    cpus: Cpus,
    program: &str,
    memory: &str,
    http: &str,
    more: &[&str],
) -> Result<Server, Failure> {
    let port = tools::free_port()?;
    let (listen, status) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{http}"));
    let mut arguments = vec!["serve", "--listen", &listen, "--http", &status, "--memory", memory];
    arguments.extend(more);
    Server::start_on(cpus, program, &arguments, port)
}

/// A settings file with the device: with both ends on one device the wire would not be used.
fn settings(device: &str) -> Result<String, Failure> {
    let file = std::env::temp_dir().join(format!("wirelane-compare-{device}.yaml"));
    std::fs::write(&file, format!("transport:\n  rdma_device: {device}\n"))
        .map_err(|error| format!("write {}: {error}", file.display()))?;
    Ok(file.to_string_lossy().into_owned())
}

fn healthy(status: &str) -> bool {
    let answer = || {
        let mut stream = TcpStream::connect(status)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: {status}\r\nConnection: close\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).map(|()| answer)
    };
    answer().is_ok_and(|answer: [u8; 12]| answer == *b"HTTP/1.1 200")
}

/// A run of `wirelane kv bench` with one client.
#[derive(Clone, Copy)]
pub(in super::super) struct Bench {
    pub(in super::super) transport: &'static str,
    pub(in super::super) size: usize,
    pub(in super::super) depth: usize,
    pub(in super::super) ops: usize,
    /// The RDMA device, where it matters.
    pub(in super::super) device: Option<&'static str>,
    /// Clients, each with this depth.
    pub(in super::super) clients: usize,
}

impl Bench {
    /// GETs and PUTs per second.
    pub(super) fn get_and_put(self, server: &Server) -> Result<Vec<f64>, Failure> {
        Ok(vec![self.run(server, "1.0", "ops_per_s")?, self.run(server, "0.0", "ops_per_s")?])
    }

    /// The 99th percentile of the time of GETs, in milliseconds.
    pub(super) fn get_tail(self, server: &Server) -> Result<Vec<f64>, Failure> {
        let output = self.bench(server, &["--read-ratio", "1.0", "--keys", "1000"])?;
        Ok(vec![answer(&output, self.transport, "/latency_us/p99")? / 1e3])
    }

    /// MB/s of GETs of values of which only the ends are compared, as programs do not look at what they copy or receive.
    pub(super) fn get_bandwidth_unread(self, server: &Server) -> Result<Vec<f64>, Failure> {
        Ok(vec![self.rate_unread(server, 1000)? * self.size as f64 / 1e6])
    }

    /// The same as GETs per second, over this many keys.
    pub(super) fn rate_unread(self, server: &Server, keys: usize) -> Result<f64, Failure> {
        let more = ["--read-ratio", "1.0", "--keys", &keys.to_string(), "--verify", "ends"];
        answer(&self.bench(server, &more)?, self.transport, "ops_per_s")
    }

    /// MB/s of GETs.
    pub(super) fn get_bandwidth(self, server: &Server) -> Result<Vec<f64>, Failure> {
        Ok(vec![self.run(server, "1.0", "bytes_per_s")? / 1e6])
    }

    /// Requests per second, over this many keys.
    pub(in super::super) fn rate_of(
        self,
        server: &Server,
        reads: &str,
        keys: usize,
    ) -> Result<f64, Failure> {
        let output = self.bench(server, &["--read-ratio", reads, "--keys", &keys.to_string()])?;
        answer(&output, self.transport, "ops_per_s")
    }

    fn run(self, server: &Server, read_ratio: &str, field: &str) -> Result<f64, Failure> {
        let more = ["--read-ratio", read_ratio, "--keys", "1000"];
        let output = self.bench(server, &more)?;
        answer(&output, self.transport, field)
    }

    fn bench(self, server: &Server, more: &[&str]) -> Result<String, Failure> {
        let mut command = server.client(&server.program);
        command.args(["kv", "--server", &format!("127.0.0.1:{}", server.port)]);
        if let Some(device) = self.device {
            command.args(["--config", &settings(device)?]);
        }
        command.args(["--transport", self.transport, "bench", "--json"]);
        command.args(["--clients", &self.clients.to_string()]);
        command.args(["--ops", &self.ops.to_string(), "--value-size", &self.size.to_string()]);
        command.args(["--depth", &self.depth.to_string()]).args(more);
        shell::output(&mut tools::limited(command))
    }
}

/// Writes this many keys, and reads and checks as many.
pub(super) fn fill(server: &Server, values: usize, size: usize) -> Result<(), Failure> {
    let bench = Bench { transport: "shm", size, depth: 16, ops: values, device: None, clients: 1 };
    let output = bench.bench(server, &["--read-ratio", "1.0", "--keys", &values.to_string()])?;
    answer(&output, "shm", "ops").map(drop)
}

/// Writes this many keys, many in flight.
pub(super) fn store(server: &Server, values: usize, size: usize) -> Result<(), Failure> {
    let bench = Bench { transport: "shm", size, depth: 256, ops: values, device: None, clients: 1 };
    bench.bench(server, &["--fill-only", "--keys", &values.to_string()]).map(drop)
}

pub(super) fn put(server: &Server, key: &str, value: &str) -> Result<(), Failure> {
    kv(server, &["put", key, value]).map(drop)
}

/// The value of an existing key.
pub(super) fn get(server: &Server, key: &str) -> Result<String, Failure> {
    kv(server, &["get", key])
}

fn kv(server: &Server, words: &[&str]) -> Result<String, Failure> {
    let mut command = server.client(&server.program);
    command.args(["kv", "--server", &format!("127.0.0.1:{}", server.port)]).args(words);
    shell::output(&mut tools::limited(command))
}

/// A field of the document that a bench prints, or the one at a JSON pointer, if it succeeded over the right transport.
fn answer(output: &str, transport: &str, field: &str) -> Result<f64, Failure> {
    let wrong = |what: &str| format!("{what} in the output of wirelane kv bench: {output}");
    let report: Value = serde_json::from_str(output).map_err(|_| wrong("no JSON"))?;
    if report["errors"] != 0 {
        return Err(wrong("errors"));
    }
    if report["transport"] != transport {
        return Err(wrong("another transport"));
    }
    let value = if field.starts_with('/') { report.pointer(field) } else { report.get(field) };
    value.and_then(Value::as_f64).ok_or_else(|| wrong(&format!("no {field}")))
}

fn ours() -> String {
    Build::ours().program("wirelane")
}

/// Enough for a thousand values of 1 MiB.
pub(super) const MEMORY: &str = "2GiB";

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"{"transport":"shm","op":"get","value_size":4096,"depth":16,"clients":1,
        "ops":1000,"seconds":0.5,"ops_per_s":2000.0,"bytes_per_s":8192000.0,
        "latency_us":{"p50":1.0,"p99":2.0,"p999":3.0,"max":4.0},"errors":0}"#;

    #[test]
    fn fields_are_read_from_the_output() {
        assert_eq!(answer(OUTPUT, "shm", "ops_per_s"), Ok(2000.0));
        assert_eq!(answer(OUTPUT, "shm", "ops"), Ok(1000.0));
        assert_eq!(answer(OUTPUT, "shm", "/latency_us/p99"), Ok(2.0));
    }

    #[test]
    fn errors_and_another_transport_are_refused() {
        assert!(answer(OUTPUT, "tcp", "ops_per_s").is_err());
        assert!(
            answer(&OUTPUT.replace("\"errors\":0", "\"errors\":1"), "shm", "ops_per_s").is_err()
        );
        assert!(answer("wirelane: cannot connect", "shm", "ops_per_s").is_err());
    }
}
