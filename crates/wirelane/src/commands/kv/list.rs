//! `wirelane kv ls`: keys, page by page.

use std::ffi::OsString;

use clap::Args;
use kv_client::{Client, Cursor, Metadata};

use super::connector::StoreArgs;
use super::expiry;
use super::key::Key;
use super::stat::Row;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only keys with this prefix
    #[arg(default_value = "")]
    prefix: OsString,

    /// Also print length, version and expiry
    #[arg(short, long)]
    long: bool,

    /// Print keys unsorted as they arrive, without collecting them in memory
    #[arg(long)]
    unsorted: bool,

    /// Print a JSON array (with --unsorted: one object per line)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(global: &Global, store: &StoreArgs, args: &ListArgs) -> Result<Exit, Failure> {
    let prefix = match args.prefix.is_empty() {
        true => Vec::new(),
        false => store.key(args.prefix.as_os_str())?.bytes().to_vec(),
    };
    let (connector, mut client) = store.connect(global)?;
    let mut all = Vec::new();
    let count = pages(&mut client, &prefix, |page| match args.unsorted {
        true => args.print_page(page),
        false => {
            all.extend(page);
            Ok(true)
        }
    })?;
    connector.report(&client, &format!("listed {count} keys"));
    all.sort_by(|one, other| one.0.cmp(&other.0));
    match (args.unsorted, args.json) {
        (true, _) => {}
        (false, true) => {
            output::json(
                &all.into_iter()
                    .map(|(key, metadata)| Row::new(key, &metadata))
                    .collect::<Vec<_>>(),
            )?;
        }
        (false, false) => output::answer(&args.text(&all))?,
    }
    Ok(Exit::Done)
}

/// Calls `each` with every page, until it returns false.
fn pages(
    client: &mut Client,
    prefix: &[u8],
    mut each: impl FnMut(Vec<(Key, Metadata)>) -> Result<bool, Failure>,
) -> Result<usize, Failure> {
    let (mut count, mut next) = (0, Some(Cursor::START));
    while let Some(from) = next {
        let page = client.list(prefix, from)?;
        let keys: Vec<_> =
            page.keys.into_iter().map(|(key, metadata)| (Key::from_store(key), metadata)).collect();
        count += keys.len();
        next = if each(keys)? { page.next } else { None };
    }
    Ok(count)
}

impl ListArgs {
    fn print_page(&self, page: Vec<(Key, Metadata)>) -> Result<bool, Failure> {
        if !self.json {
            return output::part(&self.text(&page));
        }
        let line = |(key, metadata)| format!("{}\n", serde_json::json!(Row::new(key, &metadata)));
        output::json_text(&page.into_iter().map(line).collect::<String>())
    }

    fn text(&self, keys: &[(Key, Metadata)]) -> String {
        if !self.long {
            return keys.iter().map(|(key, _)| format!("{key}\n")).collect();
        }
        let row = |(key, metadata): &(Key, Metadata)| {
            let Metadata { length, version, expires_in, .. } = *metadata;
            [length.to_string(), version.to_string(), expiry::format(expires_in), key.to_string()]
        };
        output::columns(&keys.iter().map(row).collect::<Vec<_>>())
    }
}
