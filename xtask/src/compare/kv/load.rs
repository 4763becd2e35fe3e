//! The load of one connection to Redis and memcached, by the programs that generate it.

use super::comparison::{Candidate, Peer};
use super::generator::{self, Dialect, GeneratorArgs};
use super::redis;
use super::server::Server;

/// Requests of one size, this many in flight.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) size: usize,
    pub(super) depth: usize,
}

impl Load {
    /// For about half a second.
    pub(super) fn ops(self) -> usize {
        match (self.size, self.depth) {
            (..=4096, 1) => 20_000,
            (..=4096, _) => 200_000,
            (4097..=65536, 1) => 10_000,
            (4097..=65536, _) => 20_000,
            (_, 1) => 1000,
            _ => 2000,
        }
    }

    /// Redis measured by its own program, and by ours, which checks values.
    pub(super) fn redis<'a>(self, server: &'a Server) -> [Candidate<'a>; 2] {
        [self.redis_benchmark(server, 1), self.checked("redis", Dialect::Redis, server)]
    }

    pub(super) fn redis_benchmark<'a>(self, server: &'a Server, clients: usize) -> Candidate<'a> {
        Candidate::new(benchmark_name(clients, self.depth), move || {
            redis::benchmark(server, (clients, 1), self.depth, self.size, self.ops())
        })
    }

    pub(super) fn checked<'a>(
        self,
        name: &str,
        dialect: Dialect,
        server: &'a Server,
    ) -> Candidate<'a> {
        let Load { size, depth } = self;
        let port = server.port.clone();
        let args = GeneratorArgs { dialect, port, size, depth, ops: self.ops(), keys: 1000 };
        Candidate::new(checked_name(name), move || generator::measure(&args))
    }

    /// The better of the two results counts.
    pub(super) fn redis_peer(self, aim: Option<f64>) -> Peer {
        let programs = vec![benchmark_name(1, self.depth), checked_name("redis")];
        Peer { name: "Redis", programs, aim }
    }
}

pub(super) fn benchmark_name(clients: usize, depth: usize) -> String {
    format!("redis-benchmark -c {clients} -P {depth}")
}

pub(super) fn checked_name(server: &str) -> String {
    format!("{server}, values checked")
}
