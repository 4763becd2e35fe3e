//! `wirelane kv get`: reads a value.

use std::ffi::OsString;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kv_client::{Metadata, Reader};
use serde::Serialize;

use super::connector::StoreArgs;
use super::key::Key;
use super::sink::Sink;
use crate::output;
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

    /// Print one JSON object: key, length and version, and the value as text if it is UTF-8 (`encoding` is `utf-8`), else
    /// in base64 (`base64`)
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    key: Key,
    /// Of the whole value.
    length: u64,
    version: u64,
    encoding: &'static str,
    /// The bytes that were requested.
    value: String,
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
    let done = format!("read {}: {length} bytes, version {}", key.name(), metadata.version);
    if args.json {
        let (encoding, value) = encode(read(&mut reader, &key)?);
        let Metadata { length, version, .. } = metadata;
        output::json(&Report { key, length, version, encoding, value })?;
    } else {
        let mut sink = match &args.output {
            Some(path) => Sink::create(path)?,
            None => Sink::stdout(),
        };
        // A closed stdout is not an error.
        if sink.write_all(&mut reader)? {
            sink.finish()?;
        }
    }
    drop(reader);
    connector.report(&client, &done);
    Ok(Exit::Done)
}

/// Reads everything into memory.
fn read(reader: &mut Reader<'_>, key: &Key) -> Result<Vec<u8>, Failure> {
    if reader.length() > MAX_JSON_BYTES {
        return Err(Failure::usage(format!(
            "print {} as JSON: {} bytes, over the limit of {MAX_JSON_BYTES} — use --output FILE, or --offset and --length",
            key.name(),
            reader.length()
        )));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        bytes.extend(chunk.to_vec());
    }
    Ok(bytes)
}

/// Text if it is UTF-8, else base64; with the name of the encoding.
fn encode(bytes: Vec<u8>) -> (&'static str, String) {
    match String::from_utf8(bytes) {
        Ok(text) => ("utf-8", text),
        Err(error) => ("base64", STANDARD.encode(error.as_bytes())),
    }
}

/// The error for a key that does not exist.
pub(super) fn missing(key: &Key) -> Failure {
    Failure::no(format!("no such key: {}", key.name()))
}

/// A JSON object is rendered in memory.
const MAX_JSON_BYTES: u64 = 256 << 20;
