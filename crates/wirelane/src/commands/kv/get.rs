//! `wirelane kv get`: reads a value.

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

pub(super) fn run(global: &Global, store: &StoreArgs, args: &GetArgs) -> Result<Exit, Failure> {
    let key = store.key(&args.key)?;
    let (connector, mut client) = store.connect(global)?;
    let Some(mut reader) = client.open(key.bytes(), args.offset, args.length)? else {
        return Err(missing(&key));
    };
    let (metadata, length) = (*reader.metadata(), reader.length());
    if args.offset > metadata.length {
        return Err(Failure::no(format!(
            "get {}: --offset is beyond the end: the value has {} bytes, --offset is {}",
            key.name(),
            metadata.length,
            args.offset
        )));
    }
    let mut sink = match &args.output {
        Some(path) => Sink::create(path)?,
        None => Sink::Stdout,
    };
    // A closed stdout is not an error.
    if sink.write_all(&mut reader)? {
        sink.finish()?;
    }
    drop(reader);
    let name = key.name();
    connector
        .report(&client, &format!("read {name}: {length} bytes, version {}", metadata.version));
    Ok(Exit::Done)
}

/// The error for a key that does not exist.
pub(super) fn missing(key: &Key) -> Failure {
    Failure::no(format!("no such key: {}", key.name()))
}
