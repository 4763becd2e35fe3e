//! One connection that keeps requests in flight and checks every value it reads, since other
//! generators check none.
//!
//! It fills the keys, measures reads, measures writes, and reads all keys back. Every reply is known
//! beforehand, so replies are compared in the receive buffer and never copied. It runs as a separate,
//! optimised process, bound to the clients' CPU. Start at `Generator::drive`.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::super::build::Build;
use super::super::tools;
use super::memcached::Text;
use super::pattern::Pattern;
use super::redis::Resp;
use crate::{Failure, shell};

#[derive(Args, Clone)]
pub(in super::super) struct GeneratorArgs {
    #[arg(long)]
    pub(super) dialect: Dialect,
    #[arg(long)]
    pub(super) port: String,
    /// Bytes of a value
    #[arg(long)]
    pub(super) size: usize,
    /// Requests in flight
    #[arg(long)]
    pub(super) depth: usize,
    /// Reads to measure, and writes; with 0 the keys are only filled and checked
    #[arg(long)]
    pub(super) ops: usize,
    #[arg(long)]
    pub(super) keys: usize,
}

#[derive(ValueEnum, Clone, Copy)]
pub(super) enum Dialect {
    Redis,
    Memcached,
}

/// A wire protocol. All replies except errors are known beforehand.
pub(super) trait Protocol {
    fn send(&self, out: &mut impl Write, op: Op, key: &str, value: &[u8]) -> io::Result<()>;
    fn check(&self, from: &mut impl BufRead, op: Op, key: &str, value: &[u8]) -> io::Result<()>;
}

#[derive(Clone, Copy)]
pub(super) enum Op {
    Get,
    Set,
}

/// Runs it as a process: reads and writes per second.
pub(super) fn measure(args: &GeneratorArgs) -> Result<Vec<f64>, Failure> {
    let mut command = tools::bound(0, &Build::ours().program("xtask"));
    let dialect = args.dialect.to_possible_value().expect("no dialect is skipped");
    command.args(["compare", "generator", "--dialect", dialect.get_name(), "--port", &args.port]);
    command.args(["--size", &args.size.to_string(), "--depth", &args.depth.to_string()]);
    command.args(["--ops", &args.ops.to_string(), "--keys", &args.keys.to_string()]);
    let output = shell::output(&mut tools::limited(command))?;
    output.split_whitespace().map(tools::number).collect()
}

/// Runs in that process.
pub(in super::super) fn generate(args: &GeneratorArgs) -> Result<(), Failure> {
    let rates = match args.dialect {
        Dialect::Redis => Generator::connect(Resp::new(args.size), args).and_then(Generator::run),
        Dialect::Memcached => {
            Generator::connect(Text::new(args.size), args).and_then(Generator::run)
        }
    };
    let [gets, sets] = rates.map_err(|error| format!("port {}: {error}", args.port))?;
    println!("{gets:.1} {sets:.1}");
    Ok(())
}

struct Generator<W> {
    protocol: W,
    reader: BufReader<TcpStream>,
    writer: BufWriter<TcpStream>,
    depth: usize,
    /// More requests are sent when at most this many are in flight. Small values are best requested in whole batches, as
    /// in redis-benchmark; with large ones the server should work while we read.
    refill_at: usize,
    ops: usize,
    keys: Vec<String>,
    /// Number of writes of each key, on which its value depends.
    writes: Vec<u32>,
    pattern: Pattern,
}

impl<W: Protocol> Generator<W> {
    fn connect(protocol: W, args: &GeneratorArgs) -> io::Result<Self> {
        let stream = TcpStream::connect(format!("127.0.0.1:{}", args.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Generator {
            protocol,
            reader: BufReader::with_capacity(BUFFER, stream.try_clone()?),
            writer: BufWriter::with_capacity(BUFFER, stream),
            depth: args.depth,
            refill_at: if args.size <= 4096 { 0 } else { args.depth / 2 },
            ops: args.ops,
            keys: (0..args.keys).map(|key| format!("key:{key:012}")).collect(),
            writes: vec![0; args.keys],
            pattern: Pattern::new(args.keys, args.size),
        })
    }

    fn run(mut self) -> io::Result<[f64; 2]> {
        let keys = self.keys.len();
        self.drive(Op::Set, 0..keys)?;
        let rates = match self.ops {
            0 => [0.0; 2],
            ops => [self.rate(Op::Get, ops)?, self.rate(Op::Set, ops)?],
        };
        self.drive(Op::Get, 0..keys)?;
        Ok(rates)
    }

    /// Operations per second, over keys in mixed order.
    fn rate(&mut self, op: Op, ops: usize) -> io::Result<f64> {
        let keys = self.keys.len();
        let started = Instant::now();
        self.drive(op, (0..ops).map(|op| op.wrapping_mul(STRIDE) % keys))?;
        Ok(ops as f64 / started.elapsed().as_secs_f64())
    }

    /// Keeps up to `depth` requests in flight. Requests are sent in batches.
    fn drive(&mut self, op: Op, keys: impl Iterator<Item = usize>) -> io::Result<()> {
        let mut keys = keys;
        let mut in_flight = VecDeque::with_capacity(self.depth);
        loop {
            if in_flight.len() <= self.refill_at {
                for key in keys.by_ref().take(self.depth - in_flight.len()) {
                    in_flight.push_back((key, self.send(op, key)?));
                }
                self.writer.flush()?;
            }
            let Some((key, writes)) = in_flight.pop_front() else { return Ok(()) };
            let value = self.pattern.value(key, writes);
            self.protocol.check(&mut self.reader, op, &self.keys[key], value)?;
        }
    }

    fn send(&mut self, op: Op, key: usize) -> io::Result<u32> {
        self.writes[key] += u32::from(matches!(op, Op::Set));
        let value = self.pattern.value(key, self.writes[key]);
        self.protocol.send(&mut self.writer, op, &self.keys[key], value)?;
        Ok(self.writes[key])
    }
}

/// Reads the expected bytes; others are an error.
pub(super) fn expect(from: &mut impl BufRead, mut expected: &[u8]) -> io::Result<()> {
    while !expected.is_empty() {
        let received = from.fill_buf()?;
        let count = received.len().min(expected.len());
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received[..count] != expected[..count] {
            let [received, expected] = [received, expected].map(excerpt);
            return Err(io::Error::other(format!("received {received:?}, expected {expected:?}")));
        }
        from.consume(count);
        expected = &expected[count..];
    }
    Ok(())
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned()
}

/// Larger writes go to the system without a copy.
const BUFFER: usize = 128 << 10;
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// A prime: successive requests are not for neighbouring keys.
const STRIDE: usize = 7919;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_answer_is_reported() {
        let output = expect(&mut &b"-ERR no memory\r\n"[..], b"+OK\r\n").unwrap_err().to_string();
        assert!(output.contains("-ERR no memory"), "{output}");
        assert!(expect(&mut &b"+O"[..], b"+OK\r\n").is_err());
    }

    #[test]
    fn an_answer_may_arrive_in_pieces() {
        let mut pieces = BufReader::with_capacity(2, &b"+OK\r\n+OK\r\n"[..]);
        assert!(expect(&mut pieces, b"+OK\r\n").is_ok());
        assert!(expect(&mut pieces, b"+OK\r\n").is_ok());
        assert!(expect(&mut pieces, b"+OK\r\n").is_err());
    }
}
