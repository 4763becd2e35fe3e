//! `wirelane kv delete`: deletes keys.

use std::ffi::OsString;

use clap::Args;
use kv_client::Condition;
use serde::Serialize;

use super::connector::StoreArgs;
use super::get::missing;
use super::key::Key;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,

    /// Delete only if the key has this version
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    if_version: Option<u64>,

    /// Print a JSON array: each key with the deleted version
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    key: Key,
    deleted: bool,
    version: Option<u64>,
}

pub(super) fn run(global: &Global, store: &StoreArgs, args: &DeleteArgs) -> Result<Exit, Failure> {
    let keys = store.keys(&args.keys)?;
    let condition = args.if_version.map_or(Condition::Always, Condition::IfVersion);
    let (connector, mut client) = store.connect(global)?;
    let mut rows = Vec::new();
    for key in keys {
        let version = client.delete(key.bytes(), condition)?;
        match version {
            Some(version) => {
                connector.report(&client, &format!("deleted {}: version {version}", key.name()));
            }
            None => output::error(&missing(&key)),
        }
        rows.push(Row { key, deleted: version.is_some(), version });
    }
    if args.json {
        output::json(&rows)?;
    }
    Ok(if rows.iter().all(|row| row.deleted) { Exit::Done } else { Exit::No })
}
