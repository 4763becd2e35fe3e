//! `wirelane kv mget`: several values with one request.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kv_client::{Client, ErrorKind};
use serde::Serialize;

use super::connector::StoreArgs;
use super::get::missing;
use super::key::Key;
use super::sink::Sink;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct MgetArgs {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,

    /// Write each value to a file in this directory, named after its key (`%XX` for special characters)
    #[arg(short, long, value_name = "DIR", conflicts_with = "json")]
    directory: Option<PathBuf>,

    /// Print a JSON array, with values in base64; `null` for missing keys
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    key: Key,
    version: Option<u64>,
    value_base64: Option<String>,
}

/// A value and its version, if there is one.
type Found = Option<(Vec<u8>, u64)>;

pub(super) fn run(global: &Global, store: &StoreArgs, args: &MgetArgs) -> Result<Exit, Failure> {
    let keys = store.keys(&args.keys)?;
    let (connector, mut client) = store.connect(global)?;
    let found = get_all(&mut client, &keys)?;
    connector.report(
        &client,
        &format!("read {} of {} values", found.iter().flatten().count(), keys.len()),
    );
    let all = found.iter().all(Option::is_some);
    let absent = keys.iter().zip(&found).filter(|(_, found)| found.is_none());
    absent.for_each(|(key, _)| output::error(&missing(key)));
    match (&args.directory, args.json) {
        (Some(directory), _) => write_files(directory, &keys, &found)?,
        (None, true) => output::json(&rows(keys, found))?,
        (None, false) => print_text(&keys, &found)?,
    }
    Ok(if all { Exit::Done } else { Exit::No })
}

/// With one request, or one by one if the values do not fit into the buffer.
fn get_all(client: &mut Client, keys: &[Key]) -> Result<Vec<Found>, Failure> {
    let keys: Vec<&[u8]> = keys.iter().map(Key::bytes).collect();
    match client.get_many(&keys) {
        Ok(values) => {
            let found = values.into_iter();
            let found = found.map(|value| value.map(|it| (it.to_vec(), it.metadata().version)));
            Ok(found.collect())
        }
        Err(error) if matches!(error.kind(), ErrorKind::ClientLimit | ErrorKind::TooLong) => {
            keys.iter().map(|key| get_one(client, key)).collect()
        }
        Err(error) => Err(error.into()),
    }
}

fn get_one(client: &mut Client, key: &[u8]) -> Result<Found, Failure> {
    let Some(mut reader) = client.open(key, 0, None)? else { return Ok(None) };
    let version = reader.metadata().version;
    let mut bytes = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        bytes.extend(chunk.to_vec());
    }
    Ok(Some((bytes, version)))
}

fn write_files(directory: &Path, keys: &[Key], found: &[Found]) -> Result<(), Failure> {
    for (key, found) in keys.iter().zip(found) {
        let Some((bytes, _)) = found else { continue };
        let mut sink = Sink::create(&directory.join(key.file_name()))?;
        sink.write(bytes)?;
        sink.finish()?;
    }
    Ok(())
}

fn rows(keys: Vec<Key>, found: Vec<Found>) -> Vec<Row> {
    let row = |(key, found): (Key, Found)| match found {
        Some((bytes, version)) => {
            Row { key, version: Some(version), value_base64: Some(STANDARD.encode(bytes)) }
        }
        None => Row { key, version: None, value_base64: None },
    };
    keys.into_iter().zip(found).map(row).collect()
}

/// One per line, if all of them are text.
fn print_text(keys: &[Key], found: &[Found]) -> Result<(), Failure> {
    let mut text = String::new();
    for (key, found) in keys.iter().zip(found) {
        let Some((bytes, _)) = found else { continue };
        let value = std::str::from_utf8(bytes).ok().filter(|value| !value.contains('\0'));
        let Some(value) = value else {
            return Err(Failure::usage(format!(
                "print the value of {}: not text — use --json or --directory DIR",
                key.name()
            )));
        };
        text.push_str(value);
        text.push('\n');
    }
    output::answer(&text)
}
