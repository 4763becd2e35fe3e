//! Redis, without persistence by default: its server, its own generator, and its protocol for ours.

use std::io::{self, BufRead, Write};
use std::process::Command;

use super::super::tools::{self, Cpus};
use super::generator::{Op, Protocol, expect};
use super::server::Server;
use crate::{Failure, shell};

pub(super) fn start() -> Result<Server, Failure> {
    start_on(Cpus::One, 1)
}

/// As [`start`], with this many threads that read and write sockets; one more executes all commands.
pub(super) fn start_on(cpus: Cpus, threads: usize) -> Result<Server, Failure> {
    let (port, threads) = (tools::free_port()?, threads.to_string());
    let mut arguments = vec!["--bind", "127.0.0.1", "--port", &port, "--save", ""];
    arguments.extend(["--appendonly", "no", "--io-threads", &threads]);
    arguments.extend(["--io-threads-do-reads", "yes"]);
    Server::start_on(cpus, "redis-server", &arguments, port.clone())
}

/// A server that syncs every write before it replies. By default it rewrites its log when that has doubled.
pub(super) fn start_durable(folder: &str, rewrites: bool) -> Result<Server, Failure> {
    let port = tools::free_port()?;
    let mut arguments = vec!["--bind", "127.0.0.1", "--port", &port, "--save", "", "--dir", folder];
    arguments.extend(["--appendonly", "yes", "--appendfsync", "always"]);
    if !rewrites {
        arguments.extend(["--auto-aof-rewrite-percentage", "0"]);
    }
    Server::start("redis-server", &arguments, port.clone())
}

/// redis-benchmark: GETs and SETs per second. It writes before it reads, always the same key, which is its
/// fastest mode. It checks no value, but the server counts keys that
/// it did not find.
pub(super) fn benchmark(
    server: &Server,
    (clients, threads): (usize, usize),
    depth: usize,
    size: usize,
    ops: usize,
) -> Result<Vec<f64>, Failure> {
    let mut command = server.client("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.port, "-t", "set,get", "--csv"]);
    command.args(["-c", &clients.to_string(), "-P", &depth.to_string()]);
    if threads > 1 {
        command.args(["--threads", &threads.to_string()]);
    }
    command.args(["-d", &size.to_string(), "-n", &ops.to_string()]);
    let missed_before = info(server, "stats", "keyspace_misses")?;
    let output = shell::output(&mut tools::limited(command))?;
    if info(server, "stats", "keyspace_misses")? > missed_before {
        return Err("redis-benchmark read missing keys".to_owned());
    }
    Ok(vec![rate(&output, "GET")?, rate(&output, "SET")?])
}

/// redis-benchmark: SETs per second of random keys.
pub(super) fn sets(
    server: &Server,
    clients: usize,
    depth: usize,
    size: usize,
    (ops, keys): (usize, usize),
) -> Result<Vec<f64>, Failure> {
    let mut command = server.client("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.port, "-t", "set", "--csv"]);
    command.args(["-c", &clients.to_string(), "-P", &depth.to_string()]);
    command.args(["-d", &size.to_string(), "-n", &ops.to_string(), "-r", &keys.to_string()]);
    Ok(vec![rate(&shell::output(&mut tools::limited(command))?, "SET")?])
}

/// Megabytes, counted by Redis itself.
pub(super) fn used_memory(server: &Server) -> Result<f64, Failure> {
    Ok(info(server, "memory", "used_memory")? / 1e6)
}

fn info(server: &Server, section: &str, field: &str) -> Result<f64, Failure> {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &server.port, "INFO", section]);
    let output = shell::output(&mut tools::limited(command))?;
    let field = output.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    tools::number(field.ok_or_else(|| format!("redis-cli output: {output}"))?.trim())
}

/// Each line: "test","rps", and latencies.
fn rate(output: &str, test: &str) -> Result<f64, Failure> {
    let line = output.lines().map(|line| line.replace('"', ""));
    let line = line.map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let mut line = line.filter(|columns| columns[0] == test);
    let rate = line.next().and_then(|columns| columns.get(1).cloned());
    tools::number(&rate.ok_or_else(|| format!("redis-benchmark output: {output}"))?)
}

/// RESP, for keys of 16 bytes.
pub(super) struct Resp {
    /// The length prefix, in both directions.
    length: Vec<u8>,
}

impl Resp {
    pub(super) fn new(size: usize) -> Self {
        Resp { length: format!("${size}\r\n").into_bytes() }
    }
}

impl Protocol for Resp {
    fn send(&self, out: &mut impl Write, op: Op, key: &str, value: &[u8]) -> io::Result<()> {
        match op {
            Op::Get => out.write_all(b"*2\r\n$3\r\nGET\r\n$16\r\n")?,
            Op::Set => out.write_all(b"*3\r\n$3\r\nSET\r\n$16\r\n")?,
        }
        out.write_all(key.as_bytes())?;
        out.write_all(b"\r\n")?;
        if let Op::Set = op {
            out.write_all(&self.length)?;
            out.write_all(value)?;
            out.write_all(b"\r\n")?;
        }
        Ok(())
    }

    fn check(&self, from: &mut impl BufRead, op: Op, _: &str, value: &[u8]) -> io::Result<()> {
        match op {
            Op::Get => {
                expect(from, &self.length)?;
                expect(from, value)?;
                expect(from, b"\r\n")
            }
            Op::Set => expect(from, b"+OK\r\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_from_the_table() {
        let output = "\"test\",\"rps\",\"avg_latency_ms\"\n\
                    \"SET\",\"421052.62\",\"0.034\"\n\"GET\",\"470588.22\",\"0.030\"\n";
        assert_eq!(rate(output, "GET"), Ok(470_588.22));
        assert_eq!(rate(output, "SET"), Ok(421_052.62));
        assert!(rate("Could not connect", "GET").is_err());
    }

    #[test]
    fn a_request_follows_rediss_documentation() {
        let mut out = Vec::new();
        Resp::new(3).send(&mut out, Op::Set, "key:000000000007", b"abc").unwrap();
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$3\r\nabc\r\n");
    }

    #[test]
    fn a_wrong_value_is_an_error() {
        let check = |output: &[u8]| Resp::new(3).check(&mut &output[..], Op::Get, "", b"abc");
        assert!(check(b"$3\r\nabc\r\n").is_ok());
        assert!(check(b"$3\r\nabd\r\n").is_err());
        assert!(check(b"$-1\r\n").is_err());
    }
}
