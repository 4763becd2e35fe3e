//! `wirelane kv stat`: length, version and expiry of a value, without its bytes.

use std::ffi::OsString;

use clap::Args;
use kv_client::Metadata;
use serde::Serialize;

use super::connector::StoreArgs;
use super::expiry;
use super::get::missing;
use super::key::Key;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct StatArgs {
    /// The key
    key: OsString,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A key and its properties as JSON, also for listings.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    key: Key,
    length: u64,
    version: u64,
    /// `null`: never.
    expires_in_ms: Option<u64>,
}

impl Row {
    pub(super) fn new(key: Key, metadata: &Metadata) -> Self {
        let Metadata { length, version, expires_in, .. } = *metadata;
        Row { key, length, version, expires_in_ms: expiry::milliseconds(expires_in) }
    }
}

pub(super) fn run(global: &Global, store: &StoreArgs, args: &StatArgs) -> Result<Exit, Failure> {
    let key = store.key(&args.key)?;
    let (connector, mut client) = store.connect(global)?;
    let metadata = client.stat(key.bytes())?.ok_or_else(|| missing(&key))?;
    connector.report(&client, &format!("read the properties of {}", key.name()));
    match args.json {
        true => output::json(&Row::new(key, &metadata))?,
        false => output::answer(&text(&key, &metadata))?,
    }
    Ok(Exit::Done)
}

fn text(key: &Key, metadata: &Metadata) -> String {
    output::columns(&[
        ["key".to_owned(), key.to_string()],
        ["length".to_owned(), metadata.length.to_string()],
        ["version".to_owned(), metadata.version.to_string()],
        ["expires".to_owned(), expiry::format(metadata.expires_in)],
    ])
}
