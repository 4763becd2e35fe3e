//! `wirelane hosts check`: all hosts of a job in one table.

use std::path::Path;

use clap::Args;
use doctor::CheckInput;
use jobs::inventory::{Host, Table};
use node::{Node, Tree};

use super::{HostListArgs, text};
use crate::output;
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
Hosts are read over ssh with your keys and configuration, never with a password. To a host without wirelane this
program is copied, and removed afterwards. A snapshot file can be given instead of a host.

Exit codes: 0 no relevant difference, 1 a relevant difference, 3 a host could not be read.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    hosts: HostListArgs,

    /// Print JSON: every host with its facts, and the differences
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let hosts = args.hosts.inventory()?.hosts;
    output::progress(&format!("reading {} hosts…", hosts.len()));
    let found = remote::in_parallel(&hosts, |host| read(host).map_err(|why| why.to_string()));
    let table = compare(&hosts, &found);
    if args.json {
        output::json(&table)?;
    } else {
        output::text(&text::render(&table))?;
    }
    match table.unreached() {
        0 if table.has_relevant() => Ok(Exit::No),
        0 => Ok(Exit::Done),
        some => Err(Failure::failed(format!(
            "{some} of {} hosts could not be read, see above",
            hosts.len()
        ))),
    }
}

/// Reads a host, over ssh or from a snapshot.
fn read(host: &Host) -> Result<(Tree, Node), Failure> {
    let name = host.destination();
    let tree = if remote::is_file(name) {
        Tree::at(Path::new(name)).map_err(|error| Failure::failed(error.to_string()))?
    } else {
        remote::snapshot(&remote::Shell::on(name)?, &output::progress)?
    };
    let node = Node::read(&tree);
    Ok((tree, node))
}

fn compare(hosts: &[Host], found: &[Result<(Tree, Node), String>]) -> Table {
    let named = hosts.iter().zip(found);
    let rows: Vec<_> = named.map(|(host, found)| (host.name.clone(), input(found))).collect();
    Table::new(&rows)
}

fn input(found: &Result<(Tree, Node), String>) -> Result<CheckInput<'_>, String> {
    let (tree, node) = found.as_ref().map_err(Clone::clone)?;
    Ok(CheckInput::new(node, tree))
}
