//! `wirelane kv get`: fetches a value.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::connector::StoreArgs;
use super::key::Key;
use super::sink::Sink;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// The key
    key: OsString,

    /// Write the value to this file, atomically (default: stdout)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// First byte to read
    #[arg(long, value_name = "BYTES", default_value = "0")]
    offset: u64,

    /// Maximum number of bytes
    #[arg(long, value_name = "BYTES")]
    length: Option<u64>,
}

pub(super) fn run(global: &Global, way: &StoreArgs, args: &GetArgs) -> Result<Exit, Failure> {
    let key = way.key(&args.key)?;
    let (way, mut client) = way.reach(global)?;
    let Some(mut reader) = client.open(key.bytes(), args.offset, args.length)? else {
        return Err(missing(&key));
    };
    let (facts, length) = (*reader.facts(), reader.length());
    if args.offset > facts.length {
        return Err(Failure::no(format!(
            "get {}: it has {} bytes, and --offset is {} — begin before its end",
            key.name(),
            facts.length,
            args.offset
        )));
    }
    let mut sink = match &args.output {
        Some(path) => Sink::create(path)?,
        None => Sink::Stdout,
    };
    // A reader of our stdout that has seen enough is no failure.
    if sink.drain(&mut reader)? {
        sink.finish()?;
    }
    drop(reader);
    let name = key.name();
    way.tell(&client, &format!("fetched {name}: {length} bytes, version {}", facts.version));
    Ok(Exit::Done)
}

/// The answer is no.
pub(super) fn missing(key: &Key) -> Failure {
    Failure::no(format!("no such key: {}", key.name()))
}
