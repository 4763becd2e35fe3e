//! Arguments of `env` and `exec`: the job and the host.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use jobs::environment::{DeviceVerdict, EnvironmentPlan, Mode, Refusal, Request, Version};
use node::{Node, Tree};

use crate::arguments::host::check_devices;
use crate::output;
use crate::output::{Failure, wrap};
use crate::timeout::with_timeout;

#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// Read this directory tree or snapshot file instead of the running machine
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: PathBuf,

    /// Require RDMA, disable it, or use it if available
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeArg,

    /// Other hosts of the job, to find the network interface that reaches them
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    peers: Vec<String>,

    /// Version of the NCCL that the job loads (default: that of the library found)
    #[arg(long, value_name = "VERSION")]
    nccl: Option<Version>,

    /// Do not print on stderr why each device is used or not
    #[arg(long, short)]
    quiet: bool,

    /// The option that the peers come from.
    #[arg(skip = "--peers")]
    peers_option: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    Rdma,
    Tcp,
    Auto,
}

/// A plan, and the environment that it runs in.
pub(crate) struct Planned {
    pub(crate) plan: EnvironmentPlan,
    pub(crate) confinement: Confinement,
}

/// The container and user namespace of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confinement {
    pub(crate) is_container: bool,
    /// Whether its user namespace is the host's.
    pub(crate) is_host_user_namespace: bool,
}

impl JobArgs {
    /// For a job with the hosts of `--hosts`, on this machine or that of `root`.
    pub(crate) fn with_hosts(root: PathBuf, mode: ModeArg, hosts: Vec<String>) -> Self {
        JobArgs { root, mode, peers: hosts, nccl: None, quiet: false, peers_option: "--hosts" }
    }

    /// Plans the job; a refusal is printed with the reasons.
    pub(crate) fn plan(&self) -> Result<Planned, Failure> {
        self.try_plan()?.map_err(|refusal| {
            self.report(&refusal.devices, &refusal.notes);
            Failure::no(refusal.reason)
        })
    }

    /// The ports that a job uses (`mlx5_0 port 1`); `None` if none can be used.
    pub(crate) fn ports(root: PathBuf) -> Result<Option<Vec<String>>, Failure> {
        let planned = JobArgs::with_hosts(root, ModeArg::Auto, Vec::new()).try_plan()?;
        let ports = planned.map_or_else(|_| Vec::new(), |planned| planned.plan.ports());
        Ok(Some(ports).filter(|ports| !ports.is_empty()))
    }

    fn try_plan(&self) -> Result<Result<Planned, Box<Refusal>>, Failure> {
        let tree = self.tree()?;
        check_devices(&tree)?;
        let node = Node::read(&tree);
        // A snapshot of a pod contains the pod's variables.
        let environment = match tree.environment().is_empty() {
            true => environment(),
            false => tree.environment().clone(),
        };
        let peers = self.addresses()?;
        let request = Request {
            environment: &environment,
            mode: self.mode.into(),
            peers: &peers,
            peers_option: self.peers_option,
            nccl: self.nccl,
        };
        let plan = jobs::environment::plan(&node, &tree, &request);
        Ok(plan.map(|plan| Planned { plan, confinement: Confinement::of(&node) }))
    }

    /// Prints why each device is used or not, and notes.
    pub(crate) fn report(&self, devices: &[DeviceVerdict], notes: &[String]) {
        if self.quiet {
            return;
        }
        let row = |verdict: &DeviceVerdict| {
            let port = verdict.port.map(|port| format!(":{port}")).unwrap_or_default();
            let device = format!("{}{port}", verdict.device);
            [device, verdict.verdict.name().to_owned(), verdict.why.clone(), verdict.read.clone()]
        };
        let rows: Vec<[String; 4]> = devices.iter().map(row).collect();
        if !rows.is_empty() {
            output::note(&wrap::table(&rows, wrap::columns()));
        }
        for note in notes {
            output::note(&format!("note: {note}"));
        }
    }

    fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    fn tree(&self) -> Result<Tree, Failure> {
        if self.is_here() {
            return Ok(Tree::live(None));
        }
        Tree::at(&self.root).map_err(|error| Failure::failed(format!("--root {error}")))
    }

    fn addresses(&self) -> Result<Vec<IpAddr>, Failure> {
        self.peers.iter().map(|peer| self.address(peer.trim())).collect()
    }

    fn address(&self, peer: &str) -> Result<IpAddr, Failure> {
        let option = self.peers_option;
        if let Ok(address) = peer.parse() {
            return Ok(address);
        }
        if !self.is_here() {
            return Err(Failure::usage(format!(
                "{option} {peer}: with --root of another machine, pass an address instead of a name"
            )));
        }
        let name = peer.to_owned();
        let resolved = with_timeout(
            RESOLVE_TIMEOUT,
            || format!("looking up {peer}"),
            move || (name.as_str(), 0).to_socket_addrs().map(|mut found| found.next()),
        )?;
        match resolved {
            Some(Ok(Some(address))) => Ok(address.ip()),
            Some(Ok(None)) => {
                Err(Failure::failed(format!("{option} {peer}: the name has no address")))
            }
            Some(Err(error)) => Err(Failure::failed(format!("{option} {peer}: {error}"))),
            None => Err(Failure::failed(format!("{option} {peer}: the resolver does not answer"))),
        }
    }
}

impl Confinement {
    fn of(node: &Node) -> Self {
        Confinement {
            is_container: node.host.container.is_some(),
            is_host_user_namespace: node.process.initial_user_namespace != Some(false),
        }
    }
}

/// The variables that are UTF-8; the command inherits the others too.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Mode {
        match mode {
            ModeArg::Rdma => Mode::Rdma,
            ModeArg::Tcp => Mode::Tcp,
            ModeArg::Auto => Mode::Auto,
        }
    }
}

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
