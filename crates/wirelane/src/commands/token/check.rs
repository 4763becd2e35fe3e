//! `wirelane token check`: the names and permissions of a token file.

use std::path::PathBuf;

use access::{Credential, Identity};
use clap::Args;
use serde_json::json;

use crate::output;
use crate::output::{Exit, Failure, wrap};
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
    let identities = file::identities(&args.file)?;
    if args.json {
        output::json(&identities.iter().map(object).collect::<Vec<_>>())?;
    } else {
        let rows: Vec<_> = identities.iter().map(row).collect();
        output::answer(&wrap::table(&rows, wrap::columns()))?;
    }
    Ok(Exit::Done)
}

fn row(identity: &Identity) -> [String; 3] {
    let options = line::scope_options(&identity.scope).join(" ");
    let permissions = if options.is_empty() { "everything".to_owned() } else { options };
    [identity.name.clone(), credential(identity).to_owned(), permissions]
}

fn object(identity: &Identity) -> serde_json::Value {
    let scope = &identity.scope;
    let prefix = access::files::token::escape::escaped(scope.prefix());
    json!({"name": identity.name, "by": credential(identity), "writes": scope.writes(), "prefix": prefix})
}

fn credential(identity: &Identity) -> &'static str {
    match identity.credential {
        Credential::Certificate => "certificate",
        Credential::Key(_) => "token",
        Credential::Nothing => "nothing",
    }
}
