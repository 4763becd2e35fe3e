//! `wirelane kv mput`: several values with one request.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use serde::Serialize;

use super::connector::StoreArgs;
use super::key::Key;
use super::put_options::PutOptionArgs;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct MputArgs {
    /// Keys and values, separated by the first `=`
    #[arg(required = true, value_name = "KEY=VALUE")]
    items: Vec<OsString>,

    #[command(flatten)]
    options: PutOptionArgs,

    /// Print a JSON array: each key with its version, or its error
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    key: Key,
    version: Option<u64>,
    error: Option<String>,
}

pub(super) fn run(global: &Global, store: &StoreArgs, args: &MputArgs) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    for item in &args.items {
        let (key, value) = split(item)?;
        items.push((store.key(key)?, value));
    }
    let (connector, mut client) = store.connect(global)?;
    let entries: Vec<_> = items.iter().map(|(key, value)| (key.bytes(), *value)).collect();
    let outcomes = client.put_many(&entries, &args.options.options());
    let (mut rows, mut worst) = (Vec::new(), None);
    for ((key, _), outcome) in items.into_iter().zip(outcomes) {
        let (version, error) = match outcome {
            Ok(stored) => (Some(stored.version), None),
            Err(error) => (None, Some(Failure::from(error))),
        };
        rows.push(Row { key, version, error: error.as_ref().map(Failure::to_string) });
        worst = Failure::worse(worst, error);
    }
    let stored = rows.iter().filter(|row| row.version.is_some()).count();
    connector.report_interactive(&client, &format!("stored {stored} of {} values", rows.len()));
    if args.json {
        output::json(&rows)?;
    }
    worst.map_or(Ok(Exit::Done), Err)
}

fn split(item: &OsStr) -> Result<(&OsStr, &[u8]), Failure> {
    let bytes = item.as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
        let item = item.to_string_lossy();
        return Err(Failure::usage(format!("`{item}` has no value — write KEY=VALUE")));
    };
    Ok((OsStr::from_bytes(&bytes[..at]), &bytes[at + 1..]))
}
