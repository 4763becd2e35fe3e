//! `wirelane kv exists`: whether a key exists.

use std::ffi::OsString;

use clap::Args;
use serde::Serialize;

use super::connector::StoreArgs;
use super::key::Key;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct ExistsArgs {
    /// The key
    key: OsString,

    /// Also print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    key: Key,
    exists: bool,
}

pub(super) fn run(global: &Global, store: &StoreArgs, args: &ExistsArgs) -> Result<Exit, Failure> {
    let key = store.key(&args.key)?;
    let (connector, mut client) = store.connect(global)?;
    let exists = client.stat(key.bytes())?.is_some();
    let word = if exists { "exists" } else { "does not exist" };
    connector.report(&client, &format!("{} {word}", key.name()));
    if args.json {
        output::json(&Report { key, exists })?;
    }
    Ok(if exists { Exit::Done } else { Exit::No })
}
