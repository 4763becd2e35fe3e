//! `wirelane nfs client`.

use std::net::ToSocketAddrs;
use std::time::Duration;

use change::nfs::client::{self, Route};
use change::nfs::{Mounting, PORT, Source, folder};
use clap::{Args, Subcommand};

use super::COMMAND;
use super::make::{How, no};
use crate::output;
use crate::output::{Exit, Failure};
use crate::within::within;

#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Show what would be changed, as a diff; changes nothing
    Plan(What),
    /// Mount it; `wirelane nfs remove` takes it back
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
    /// The server, by its address on the fabric, and its folder
    #[arg(value_name = "HOST:/DIR")]
    source: Source,

    /// Where to mount it; made if it is not there
    #[arg(value_name = "MOUNTPOINT", value_parser = folder)]
    point: String,

    /// The server's port for RDMA
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// NFS's version
    #[arg(long, value_name = "VERSION", default_value = "4.2", value_parser = ["3", "4.0", "4.1", "4.2"])]
    vers: String,

    /// Connections to the server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    nconnect: Option<u8>,

    /// Mount it for reading alone
    #[arg(long)]
    read_only: bool,

    /// Mount it again after a restart: a line of /etc/fstab
    #[arg(long)]
    persist: bool,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &ClientArgs) -> Result<Exit, Failure> {
    let (what, apply) = match &args.command {
        ClientCommand::Plan(what) => (what, None),
        ClientCommand::Apply(args) => (&args.what, Some(args.yes)),
    };
    let how = &what.how;
    let here = how.look()?;
    let mounting = what.mounting();
    // Without the program there is nobody to be reached.
    client::plan(&here.node, &here.tree, &mounting, None).map_err(no)?;
    let route = if here.tree.is_live() { Some(route(&what.source.host)?) } else { None };
    let plan = client::plan(&here.node, &here.tree, &mounting, route).map_err(no)?;
    let plan = how.trim(plan)?;
    let Some(yes) = apply else { return how.show(&plan, here.tree) };
    let command = format!("{COMMAND} client apply {} {}", what.source, what.point);
    let exit = how.apply(&plan, &here, &command, yes)?;
    output::note(&format!("`wirelane nfs verify {}` proves that RDMA carries it", what.point));
    Ok(exit)
}

/// Where the server is, and from which address of ours it is reached. Nothing is sent.
fn route(host: &str) -> Result<Route, Failure> {
    let name = host.to_owned();
    let waiting = || format!("looking for {host}");
    let found = within(RESOLVING, waiting, move || (name.as_str(), PORT).to_socket_addrs())?;
    let failed = |why: String| Failure::failed(format!("find a way to {host}: {why}"));
    let mut addresses = found
        .ok_or_else(|| failed("its name is not resolved in time".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    let to = addresses.next().ok_or_else(|| failed("it has no address".to_owned()))?;
    let from = crate::route::from_here(to).map_err(|error| failed(error.to_string()))?;
    Ok(Route { to: to.ip(), from })
}

impl What {
    fn mounting(&self) -> Mounting {
        Mounting {
            source: self.source.clone(),
            point: self.point.clone(),
            port: self.port,
            version: self.vers.clone(),
            connections: self.nconnect,
            read_only: self.read_only,
            persist: self.persist,
        }
    }
}

const RESOLVING: Duration = Duration::from_secs(15);
