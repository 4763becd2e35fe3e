//! Arguments of `wirelane setup`.

use change::setup::{self, IpoibMode, PortAddress, Purpose, SetupRequest};
use clap::{Args, Subcommand, ValueEnum};
use jobs::inventory::Host;

use crate::arguments::hosts;
use crate::commands::plans::apply::{ApplyArgs, PlanTarget};
use crate::commands::tune::ProfileArg;
use crate::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    #[command(subcommand)]
    purpose: PurposeCommand,
}

#[derive(Debug, Subcommand)]
enum PurposeCommand {
    /// For programs that use RDMA: packages, kernel modules, limits and fabric ports
    Rdma(ActionArgs),
    /// The same plus Open MPI with UCX
    Mpi(ActionArgs),
}

#[derive(Debug, Args)]
struct ActionArgs {
    #[command(subcommand)]
    action: ActionCommand,
}

#[derive(Debug, Subcommand)]
enum ActionCommand {
    /// Show what would be changed, as a diff, and why; changes nothing
    Plan(SetupOptions),
    /// Make the changes, as root; `wirelane revert` reverts them
    Apply(ApplyArgs<SetupOptions>),
}

/// What to set up, and where.
#[derive(Debug, Args)]
pub(super) struct SetupOptions {
    /// Run on these hosts over ssh instead, as root: root@a,root@b or root@gpu[001-032]
    #[arg(long, value_name = "HOST,…")]
    hosts: Option<String>,

    /// IP address for a fabric port, as in mlx5_0=10.0.0.1/24; can be repeated
    #[arg(long, value_name = "DEVICE=ADDRESS", long_help = ADDRESS_HELP)]
    address: Vec<PortAddress>,

    /// Mode of IP over InfiniBand, if the driver supports both
    #[arg(long, value_name = "MODE")]
    ipoib: Option<IpoibArg>,

    /// What to optimize rings and interrupts for
    #[arg(long, value_name = "PROFILE", default_value = "throughput")]
    profile: ProfileArg,

    /// Only these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',', long_help = items_help())]
    only: Vec<String>,

    /// All but these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',')]
    skip: Vec<String>,

    #[command(flatten)]
    pub(super) target: PlanTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IpoibArg {
    Datagram,
    Connected,
}

/// The requested action.
pub(super) struct Task<'a> {
    pub(super) purpose: Purpose,
    pub(super) action: Action,
    pub(super) options: &'a SetupOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Plan,
    Apply { yes: bool },
}

impl SetupArgs {
    pub(super) fn task(&self) -> Task<'_> {
        let (purpose, action) = match &self.purpose {
            PurposeCommand::Rdma(args) => (Purpose::Rdma, &args.action),
            PurposeCommand::Mpi(args) => (Purpose::Mpi, &args.action),
        };
        let (action, options) = match action {
            ActionCommand::Plan(options) => (Action::Plan, options),
            ActionCommand::Apply(args) => (Action::Apply { yes: args.yes }, &args.plan),
        };
        Task { purpose, action, options }
    }
}

impl Task<'_> {
    pub(super) fn request(&self) -> SetupRequest {
        let options = self.options;
        SetupRequest {
            profile: options.profile.into(),
            only: options.only.clone(),
            skip: options.skip.clone(),
            addresses: options.address.clone(),
            ipoib: options.ipoib.map(IpoibArg::mode),
            ..SetupRequest::of(self.purpose)
        }
    }

    /// The hosts of --hosts; none: this host. Each address must be for one of them.
    pub(super) fn hosts(&self) -> Result<Vec<Host>, Failure> {
        let list = self.options.hosts.as_deref().map(|list| hosts::parse("setup", list));
        let hosts = list.transpose()?.unwrap_or_default();
        for address in &self.options.address {
            let text = address.without_host();
            match &address.host {
                Some(name) if hosts.iter().all(|host| host.name != *name) => {
                    return Err(Failure::usage(format!(
                        "setup: --address {text} is for the host {name:?}, which is not in --hosts"
                    )));
                }
                None if hosts.len() > 1 => {
                    return Err(Failure::usage(format!(
                        "setup: --address {text} would be the address of several hosts: prefix it with the host, as in {}/{text}",
                        hosts[0].name
                    )));
                }
                _ => {}
            }
        }
        Ok(hosts)
    }

    /// The arguments of `wirelane` for this action on one of the hosts.
    pub(super) fn arguments(&self, host: &str, action: Action) -> Vec<String> {
        let options = self.options;
        let mut arguments: Vec<String> = ["setup", self.purpose.name()].map(str::to_owned).to_vec();
        arguments.push(if action == Action::Plan { "plan" } else { "apply" }.to_owned());
        arguments.push("--json".to_owned());
        if action != Action::Plan {
            arguments.push("--yes".to_owned());
        }
        let mut option = |flag: &str, value: String| arguments.push(format!("--{flag}={value}"));
        for address in &options.address {
            if address.host.as_deref().is_none_or(|of| of == host) {
                option("address", address.without_host());
            }
        }
        if let Some(mode) = options.ipoib {
            option("ipoib", mode.mode().name().to_owned());
        }
        option("profile", change::tune::Profile::from(options.profile).name().to_owned());
        options.only.iter().for_each(|item| option("only", item.clone()));
        options.skip.iter().for_each(|item| option("skip", item.clone()));
        option("root", options.target.root.display().to_string());
        arguments
    }
}

impl IpoibArg {
    fn mode(self) -> IpoibMode {
        match self {
            IpoibArg::Datagram => IpoibMode::Datagram,
            IpoibArg::Connected => IpoibMode::Connected,
        }
    }
}

/// The items, one per line, for `--help`.
fn items_help() -> String {
    let line = |item: &setup::Item| format!("\n  {:14}{}", item.name, item.what);
    let items: String = setup::ITEMS.iter().map(line).collect();
    format!("Only these items:{items}")
}

const ADDRESS_HELP: &str = "\
IP address for a fabric port: [HOST/]DEVICE[:PORT][@VLAN]=ADDRESS/PREFIX; can be repeated

DEVICE is an RDMA device (the address goes to its net device) or a net device. The address is set now, and after a
restart by systemd-networkd, NetworkManager or ifupdown, whichever this machine uses. If that cannot be determined, or
the device is already configured, the plan has instructions instead.

  --address mlx5_0=10.0.0.1/24
  --address mlx4_0:2@100=10.0.1.1/24           port 2, on VLAN 100
  --hosts a,b --address a/mlx5_0=10.0.0.1/24 --address b/mlx5_0=10.0.0.2/24";
