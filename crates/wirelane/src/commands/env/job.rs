//! What `env` and `exec` ask alike: which job, on which host.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use jobs::job::{DeviceVerdict, Mode, Plan, Request, Version};
use node::{Node, Tree};

use crate::output;
use crate::output::Failure;
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    Rdma,
    Tcp,
    Auto,
}

/// A plan, and where it is for.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) place: Place,
}

/// Where a job runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) is_container: bool,
    /// Whether its user namespace is the host's.
    pub(crate) is_hosts: bool,
}

impl JobArgs {
    /// For a job over these hosts too, started from here or from the machine at `root`.
    pub(crate) fn over(root: PathBuf, mode: ModeArg, peers: Vec<String>) -> Self {
        JobArgs { root, mode, peers, nccl: None, quiet: false }
    }

    /// Works out the plan; a refusal is said with all its reasons.
    pub(crate) fn plan(&self) -> Result<Planned, Failure> {
        let tree = self.tree()?;
        let node = Node::read(&tree);
        // A snapshot of a pod tells what the pod was told.
        let environment = match tree.environment().is_empty() {
            true => environment(),
            false => tree.environment().clone(),
        };
        let peers = self.addresses()?;
        let request = Request {
            environment: &environment,
            mode: self.mode.into(),
            peers: &peers,
            nccl: self.nccl,
        };
        match jobs::job::plan(&node, &tree, &request) {
            Ok(plan) => Ok(Planned { plan, place: Place::of(&node) }),
            Err(refusal) => {
                self.tell(&refusal.devices, &refusal.notes);
                Err(Failure::no(refusal.reason))
            }
        }
    }

    /// Why each device was kept or dropped, and what else to know.
    pub(crate) fn tell(&self, devices: &[DeviceVerdict], notes: &[String]) {
        if self.quiet {
            return;
        }
        let row = |judged: &DeviceVerdict| {
            let port = judged.port.map(|port| format!(":{port}")).unwrap_or_default();
            let device = format!("{}{port}", judged.device);
            [device, judged.verdict.name().to_owned(), judged.why.clone(), judged.read.clone()]
        };
        let rows: Vec<[String; 4]> = devices.iter().map(row).collect();
        if !rows.is_empty() {
            output::note(&output::columns(&rows));
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
        if let Ok(address) = peer.parse() {
            return Ok(address);
        }
        if !self.is_here() {
            return Err(Failure::usage(format!(
                "--peers {peer}: names are looked up on this machine, and --root is another; give an address"
            )));
        }
        let name = peer.to_owned();
        let looked_up = with_timeout(
            RESOLVER,
            || format!("looking up {peer}"),
            move || (name.as_str(), 0).to_socket_addrs().map(|mut found| found.next()),
        )?;
        match looked_up {
            Some(Ok(Some(address))) => Ok(address.ip()),
            Some(Ok(None)) => Err(Failure::failed(format!("--peers {peer}: it has no address"))),
            Some(Err(error)) => Err(Failure::failed(format!("--peers {peer}: {error}"))),
            None => Err(Failure::failed(format!("--peers {peer}: the resolver does not answer"))),
        }
    }
}

impl Place {
    fn of(node: &Node) -> Self {
        Place {
            is_container: node.host.container.is_some(),
            is_hosts: node.process.initial_user_namespace != Some(false),
        }
    }
}

/// What can be read as text; the rest is handed on by the kernel unread.
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

/// How long a resolver may take.
const RESOLVER: Duration = Duration::from_secs(5);
