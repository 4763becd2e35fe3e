//! The memory of a server for a million small values.

use super::generator::{self, Dialect, GeneratorArgs};
use super::server::Server;
use super::{memcached, redis, wirelane};
use crate::Failure;

/// Redis, counted by the system (`Server::resident`) or by itself.
pub(super) fn redis(count: fn(&Server) -> Result<f64, Failure>) -> Result<Vec<f64>, Failure> {
    growth(redis::start()?, count, |server| fill(server, Dialect::Redis))
}

pub(super) fn memcached() -> Result<Vec<f64>, Failure> {
    growth(memcached::start_plain()?, Server::resident, |server| fill(server, Dialect::Memcached))
}

pub(super) fn wirelane() -> Result<Vec<f64>, Failure> {
    growth(wirelane::start_with(wirelane::MEMORY, &[])?, Server::resident, |server| {
        wirelane::fill(server, VALUES, SIZE)
    })
}

/// The growth in megabytes.
fn growth(
    server: Server,
    count: fn(&Server) -> Result<f64, Failure>,
    fill: impl Fn(&Server) -> Result<(), Failure>,
) -> Result<Vec<f64>, Failure> {
    let before = count(&server)?;
    fill(&server)?;
    match count(&server)? - before {
        more if more > 0.0 => Ok(vec![more]),
        // Memory that was touched before it was needed cannot be measured in this way.
        _ => Err(format!("its memory did not grow from {before:.0} MB")),
    }
}

/// Every value is read back.
fn fill(server: &Server, dialect: Dialect) -> Result<(), Failure> {
    let port = server.port.clone();
    let args = GeneratorArgs { dialect, port, size: SIZE, depth: 16, ops: 0, keys: VALUES };
    generator::measure(&args).map(drop)
}

const VALUES: usize = 1_000_000;
const SIZE: usize = 100;
