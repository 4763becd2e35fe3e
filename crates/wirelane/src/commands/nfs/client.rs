//! `wirelane nfs client`.

use std::net::ToSocketAddrs;
use std::time::Duration;

use change::nfs::client::{self, Route};
use change::nfs::{MountRequest, PORT, Source, folder};
use clap::Args;

use super::COMMAND;
use super::plan_apply::{EndArgs, PlanOrApply, no};
use crate::output;
use crate::output::{Exit, Failure};
use crate::timeout::with_timeout;

#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    #[command(subcommand)]
    command: PlanOrApply<ClientOptions>,
}

#[derive(Debug, Args)]
struct ClientOptions {
    /// The server, by its address on the fabric, and its directory
    #[arg(value_name = "HOST:/DIR")]
    source: Source,

    /// Mount point; created if missing
    #[arg(value_name = "MOUNTPOINT", value_parser = folder)]
    point: String,

    /// RDMA port of the server
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// NFS version
    #[arg(long, value_name = "VERSION", default_value = "4.2", value_parser = ["3", "4.0", "4.1", "4.2"])]
    vers: String,

    /// Number of connections to the server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    nconnect: Option<u8>,

    /// Mount read-only
    #[arg(long)]
    read_only: bool,

    /// Also mount at boot: adds a line to /etc/fstab
    #[arg(long)]
    persist: bool,

    #[command(flatten)]
    end: EndArgs,
}

pub(super) fn run(args: &ClientArgs) -> Result<Exit, Failure> {
    let (options, apply) = args.command.parts();
    let machine = options.end.read()?;
    let mounting = options.mounting();
    // Fails without mount.nfs, before the server's name is resolved.
    client::plan(&machine.node, &machine.tree, &mounting, None).map_err(no)?;
    let route = if machine.tree.is_live() { Some(route(&options.source.host)?) } else { None };
    let plan = client::plan(&machine.node, &machine.tree, &mounting, route).map_err(no)?;
    let plan = options.end.without_skipped(plan)?;
    let command = format!("{COMMAND} client apply {} {}", options.source, options.point);
    let exit = options.end.run(&plan, machine, &command, apply)?;
    if apply.is_some() {
        output::note(&format!(
            "run `wirelane nfs verify {}` to check that it uses RDMA",
            options.point
        ));
    }
    Ok(exit)
}

/// The address of the server, and the local address that reaches it. Sends nothing.
fn route(host: &str) -> Result<Route, Failure> {
    let name = host.to_owned();
    let waiting = || format!("looking up {host}");
    let found =
        with_timeout(RESOLVE_TIMEOUT, waiting, move || (name.as_str(), PORT).to_socket_addrs())?;
    let failed = |why: String| Failure::failed(format!("find a route to {host}: {why}"));
    let mut addresses = found
        .ok_or_else(|| failed("looking up its name timed out".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    let to = addresses.next().ok_or_else(|| failed("it has no address".to_owned()))?;
    let from = crate::route::source_address(to).map_err(|error| failed(error.to_string()))?;
    Ok(Route { to: to.ip(), from })
}

impl ClientOptions {
    fn mounting(&self) -> MountRequest {
        MountRequest {
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

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(15);
