//! memcached: its server, and its text protocol for our generator.

use std::io::{self, BufRead, Write};

use super::super::tools;
use super::generator::{Op, Protocol, expect};
use super::server::Server;
use crate::Failure;

/// With a larger item limit: the default of 1 MiB for an item is too small for values of 1 MiB.
pub(super) fn start() -> Result<Server, Failure> {
    start_with(&["-I", "8m"])
}

/// With defaults: a larger item limit means larger pages of memory.
pub(super) fn start_plain() -> Result<Server, Failure> {
    start_with(&[])
}

fn start_with(more: &[&str]) -> Result<Server, Failure> {
    let port = tools::free_port()?;
    // Root must name a user to run as; for others the option is ignored.
    let mut arguments = vec!["-l", "127.0.0.1", "-p", &port, "-U", "0", "-m", "4096", "-u", "root"];
    arguments.extend(more);
    Server::start("memcached", &arguments, port.clone())
}

/// The text protocol; flags and time to live are 0. memcached 1.6.18 sends the reply to each `get`
/// separately, even for pipelined requests; the replies to `set` are sent together.
pub(super) struct Text {
    length: Vec<u8>,
}

impl Text {
    pub(super) fn new(size: usize) -> Self {
        Text { length: format!("{size}\r\n").into_bytes() }
    }
}

impl Protocol for Text {
    fn send(&self, out: &mut impl Write, op: Op, key: &str, value: &[u8]) -> io::Result<()> {
        out.write_all(if let Op::Get = op { b"get " } else { b"set " })?;
        out.write_all(key.as_bytes())?;
        if let Op::Set = op {
            out.write_all(b" 0 0 ")?;
            out.write_all(&self.length)?;
            out.write_all(value)?;
        }
        out.write_all(b"\r\n")
    }

    fn check(&self, from: &mut impl BufRead, op: Op, key: &str, value: &[u8]) -> io::Result<()> {
        let Op::Get = op else { return expect(from, b"STORED\r\n") };
        expect(from, b"VALUE ")?;
        expect(from, key.as_bytes())?;
        expect(from, b" 0 ")?;
        expect(from, &self.length)?;
        expect(from, value)?;
        expect(from, b"\r\nEND\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_memcacheds_documentation() {
        let mut out = Vec::new();
        Text::new(3).send(&mut out, Op::Set, "k", b"abc").unwrap();
        Text::new(3).send(&mut out, Op::Get, "k", b"abc").unwrap();
        assert_eq!(out, b"set k 0 0 3\r\nabc\r\nget k\r\n");
    }

    #[test]
    fn a_wrong_value_is_an_error() {
        let check = |output: &[u8]| Text::new(3).check(&mut &output[..], Op::Get, "k", b"abc");
        assert!(check(b"VALUE k 0 3\r\nabc\r\nEND\r\n").is_ok());
        assert!(check(b"VALUE k 0 3\r\nabd\r\nEND\r\n").is_err());
        assert!(check(b"END\r\n").is_err());
    }
}
