//! `wirelane token check`: the names and permissions of a token file.

use std::path::PathBuf;

use access::{Holder, Proof};
use clap::Args;
use serde_json::json;

use crate::output;
use crate::output::{Exit, Failure};
use access::files::token::{file, line};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The token file
    file: PathBuf,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let holders = file::holders(&args.file)?;
    if args.json {
        output::json(&holders.iter().map(object).collect::<Vec<_>>())?;
    } else {
        output::answer(&output::columns(&holders.iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(Exit::Done)
}

fn row(holder: &Holder) -> [String; 3] {
    let options = line::scope_options(&holder.scope).join(" ");
    let permissions = if options.is_empty() { "everything".to_owned() } else { options };
    [holder.name.clone(), proof(holder).to_owned(), permissions]
}

fn object(holder: &Holder) -> serde_json::Value {
    let scope = &holder.scope;
    let prefix = access::files::token::escape::escaped(scope.prefix());
    json!({"name": holder.name, "by": proof(holder), "writes": scope.writes(), "prefix": prefix})
}

fn proof(holder: &Holder) -> &'static str {
    match holder.proof {
        Proof::Certificate => "certificate",
        Proof::Key(_) => "token",
        Proof::Nothing => "nothing",
    }
}
