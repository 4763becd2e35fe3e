//! CPU time of an idle server.

use std::thread::sleep;
use std::time::Duration;

use super::generator::{self, Dialect, GeneratorArgs};
use super::server::Server;
use super::wirelane::{self, Bench};
use super::{memcached, redis};
use crate::Failure;

pub(super) fn redis() -> Result<Vec<f64>, Failure> {
    let server = redis::start()?;
    warm_up(&server, Dialect::Redis)?;
    ticks(&server)
}

pub(super) fn memcached() -> Result<Vec<f64>, Failure> {
    let server = memcached::start()?;
    warm_up(&server, Dialect::Memcached)?;
    ticks(&server)
}

pub(super) fn wirelane() -> Result<Vec<f64>, Failure> {
    let server = wirelane::start_with(wirelane::MEMORY, &[])?;
    Bench { transport: "shm", size: 4096, depth: 16, ops: 1000, device: None, clients: 1 }
        .get_and_put(&server)?;
    ticks(&server)
}

/// Uses the server first: one that was never used might be idle for that reason.
fn warm_up(server: &Server, dialect: Dialect) -> Result<(), Failure> {
    let port = server.port.clone();
    let args = GeneratorArgs { dialect, port, size: 4096, depth: 16, ops: 1000, keys: 1000 };
    generator::measure(&args).map(drop)
}

fn ticks(server: &Server) -> Result<Vec<f64>, Failure> {
    sleep(Duration::from_secs(2));
    let before = server.ticks()?;
    sleep(Duration::from_secs(10));
    Ok(vec![server.ticks()? - before])
}
