//! `wirelane nfs server`.

use change::nfs::{Clients, PORT, Serving, folder, server};
use clap::{Args, Subcommand};

use super::COMMAND;
use super::make::{How, no};
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Debug, Subcommand)]
enum ServerCommand {
    /// Show what would be changed, as a diff; changes nothing
    Plan(What),
    /// Make it, all or nothing; `wirelane nfs remove` takes it back
    Apply(ApplyArgs),
}

#[derive(Debug, Args)]
struct ApplyArgs {
    #[command(flatten)]
    what: What,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct What {
    /// The folder to serve
    #[arg(value_name = "DIR", value_parser = folder)]
    dir: String,

    /// Who may mount it: hosts, addresses, networks (a,b or 10.0.0.0/24); everybody (*) is refused
    #[arg(long, value_name = "CLIENTS")]
    clients: Clients,

    /// The port for RDMA
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Clients may not write
    #[arg(long)]
    read_only: bool,

    /// Root of a client is root here too, instead of nobody
    #[arg(long)]
    no_root_squash: bool,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &ServerArgs) -> Result<Exit, Failure> {
    let (what, apply) = match &args.command {
        ServerCommand::Plan(what) => (what, None),
        ServerCommand::Apply(args) => (&args.what, Some(args.yes)),
    };
    let how = &what.how;
    let here = how.look()?;
    let plan = how.trim(server::plan(&here.node, &here.tree, &what.serving()).map_err(no)?)?;
    match apply {
        None => how.show(&plan, here.tree),
        Some(yes) => how.apply(&plan, &here, &format!("{COMMAND} server apply {}", what.dir), yes),
    }
}

impl What {
    fn serving(&self) -> Serving {
        Serving {
            dir: self.dir.clone(),
            clients: self.clients.clone(),
            port: self.port,
            read_only: self.read_only,
            trust_root: self.no_root_squash,
        }
    }
}
