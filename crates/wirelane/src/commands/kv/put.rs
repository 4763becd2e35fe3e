//! `wirelane kv put`: stores a value.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::connector::StoreArgs;
use super::put_options::PutOptionArgs;
use super::source::Input;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct PutArgs {
    /// The key
    key: OsString,

    /// The value; `-` reads it from stdin (put `--` before a value that starts with a dash)
    #[arg(
        required_unless_present = "file",
        conflicts_with = "file",
        allow_negative_numbers = true
    )]
    value: Option<OsString>,

    /// Read the value from this file
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    options: PutOptionArgs,

    /// Print one JSON object: version, length, whether it replaced a value
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    version: u64,
    length: u64,
    replaced: bool,
}

pub(super) fn run(global: &Global, store: &StoreArgs, args: &PutArgs) -> Result<Exit, Failure> {
    let key = store.key(&args.key)?;
    let input = match (&args.file, &args.value) {
        (Some(file), _) => Input::open(file)?,
        (None, Some(value)) if value == "-" => Input::stdin()?,
        (None, value) => Input::Bytes(value.clone().unwrap_or_default().into_vec()),
    };
    let (connector, client) = store.connect(global)?;
    let max = client.limits().map_or(u64::MAX, |limits| limits.value);
    let (mut client, source) = match input.may_wait() {
        false => (client, input.read(max)?),
        true => {
            // Nobody polls the connection while the input is read: the store would take this client for lost.
            drop(client);
            let source = input.read(max)?;
            (connector.connect()?, source)
        }
    };
    let length = source.length();
    let stored = source.store(&mut client, &key, &args.options.options())?;
    let report = Report { version: stored.version, length, replaced: stored.replaced };
    let name = key.name();
    let text = format!("stored {name}: {length} bytes, version {}", report.version);
    connector.report_interactive(&client, &text);
    if args.json {
        output::json(&report)?;
    }
    Ok(Exit::Done)
}
