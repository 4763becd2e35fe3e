//! `wirelane nfs server`.

use change::nfs::{Clients, ExportRequest, PORT, folder, server};
use clap::Args;

use super::COMMAND;
use super::plan_apply::{EndArgs, PlanOrApply, no};
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    #[command(subcommand)]
    command: PlanOrApply<ServerOptions>,
}

#[derive(Debug, Args)]
struct ServerOptions {
    /// The directory to serve
    #[arg(value_name = "DIR", value_parser = folder)]
    dir: String,

    /// Clients that may mount it: hosts, addresses or networks (a,b or 10.0.0.0/24); * is refused
    #[arg(long, value_name = "CLIENTS")]
    clients: Clients,

    /// RDMA port
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Export read-only
    #[arg(long)]
    read_only: bool,

    /// Do not map root of clients to nobody
    #[arg(long)]
    no_root_squash: bool,

    #[command(flatten)]
    end: EndArgs,
}

pub(super) fn run(args: &ServerArgs) -> Result<Exit, Failure> {
    let (options, apply) = args.command.parts();
    let machine = options.end.read()?;
    let plan = server::plan(&machine.node, &machine.tree, &options.serving()).map_err(no)?;
    let plan = options.end.without_skipped(plan)?;
    options.end.run(&plan, machine, &format!("{COMMAND} server apply {}", options.dir), apply)
}

impl ServerOptions {
    fn serving(&self) -> ExportRequest {
        ExportRequest {
            dir: self.dir.clone(),
            clients: self.clients.clone(),
            port: self.port,
            read_only: self.read_only,
            trust_root: self.no_root_squash,
        }
    }
}
