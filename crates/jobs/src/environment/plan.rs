//! The environment of a job, with reasons.

use std::collections::BTreeMap;
use std::net::IpAddr;

use node::{Node, Tree};
use serde::Serialize;

use super::assigned::{self, AssignedDevices};
use super::gid::{self, GidPolicy};
use super::library::Library;
use super::resolve::{Selection, resolve};
use super::usable_port::{DeviceVerdict, PortKind, UsablePort, Verdict};
use super::variable::{Variable, Variables};
use super::version::Version;
use super::{affinity, route};

/// The job to plan for.
#[derive(Debug)]
pub struct Request<'r> {
    /// The environment of the job without our variables.
    pub environment: &'r BTreeMap<String, String>,
    /// With RDMA or without.
    pub mode: Mode,
    /// Addresses of the other hosts; empty: unknown.
    pub peers: &'r [IpAddr],
    /// How the user passes these addresses, for notes: `--peers`; empty: not at all.
    pub peers_option: &'r str,
    /// The job's NCCL, if the user gives it.
    pub nccl: Option<Version>,
}

/// With RDMA or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// With RDMA, or refused.
    Rdma,
    /// Without RDMA.
    Tcp,
    /// With RDMA where it can be used; without it only where the platform assigned none.
    Auto,
}

/// The environment of a job, with reasons.
#[derive(Debug, Serialize)]
pub struct EnvironmentPlan {
    /// The transport of its data: `rdma` or `tcp`.
    pub mode: Mode,
    /// The verdict on every device.
    pub devices: Vec<DeviceVerdict>,
    /// Variables to set, and the user's own that are kept.
    pub variables: Vec<Variable>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Variables that help only on some hosts, and so are not set.
    pub hints: Vec<String>,
    /// The assumed NCCL.
    pub nccl: Library,
    /// RoCE: the address family of connections, and RoCE's version.
    #[serde(skip)]
    pub(crate) gids: Option<(&'static str, u8)>,
}

impl EnvironmentPlan {
    /// The ports that the job uses, as `mlx5_0 port 1`.
    pub fn ports(&self) -> Vec<String> {
        let kept = self.devices.iter().filter(|device| device.verdict == Verdict::Kept);
        kept.filter_map(|device| Some(format!("{} port {}", device.device, device.port?))).collect()
    }
}

/// Why there is no plan.
#[derive(Debug)]
pub struct Refusal {
    /// What is wrong, and what to do.
    pub reason: String,
    /// The verdict on every device that was checked.
    pub devices: Vec<DeviceVerdict>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Plans the environment of a job on this host.
pub fn plan(node: &Node, tree: &Tree, request: &Request) -> Result<EnvironmentPlan, Box<Refusal>> {
    let nccl = Library::find(tree, request.environment, request.nccl);
    let mut builder = PlanBuilder { node, tree, request, nccl, notes: Vec::new() };
    if request.mode == Mode::Tcp {
        return Ok(builder.tcp(Vec::new()));
    }
    let assigned_devices = assigned::gather(request.environment, tree);
    builder.notes.extend(assigned_devices.warnings.iter().cloned());
    let mut resolved = builder.resolve(&assigned_devices)?;
    builder.notes.append(&mut resolved.notes);
    let policy = builder.choose_gids(&mut resolved)?;
    if !resolved.usable_ports.is_empty() {
        return Ok(builder.rdma(&resolved, policy.as_ref()));
    }
    let devices = resolved.verdicts();
    if request.mode == Mode::Rdma || resolved.is_assigned {
        return Err(builder.refuse(nothing_usable(&resolved), devices));
    }
    builder.notes.push("no RDMA device can be used here: the job uses TCP".to_owned());
    Ok(builder.tcp(devices))
}

/// An unfinished plan.
struct PlanBuilder<'d> {
    node: &'d Node,
    tree: &'d Tree,
    request: &'d Request<'d>,
    nccl: Library,
    notes: Vec<String>,
}

impl<'d> PlanBuilder<'d> {
    fn resolve(
        &mut self,
        assigned_devices: &AssignedDevices,
    ) -> Result<Selection<'d>, Box<Refusal>> {
        if let Some(error) = assigned_devices.errors.first() {
            return Err(self.refuse(format!("{error}; mode tcp works without RDMA"), Vec::new()));
        }
        resolve(self.node, self.tree, assigned_devices, self.request).map_err(|reason| {
            self.refuse(format!("{reason}; mode tcp works without RDMA"), Vec::new())
        })
    }

    /// RoCE only: which addresses NCCL uses. Ports without an address of the common kind are dropped.
    fn choose_gids(&mut self, resolved: &mut Selection) -> Result<Option<GidPolicy>, Box<Refusal>> {
        let roce = |usable: &UsablePort| usable.kind == PortKind::Roce;
        let usable_ports: Vec<UsablePort> =
            resolved.usable_ports.iter().filter(|usable| roce(usable)).copied().collect();
        if usable_ports.is_empty() {
            return Ok(None);
        }
        let node = self.node;
        let Some(kind) = gid::common(node, &usable_ports.iter().collect::<Vec<_>>()) else {
            let why = |_: &UsablePort| {
                "its GIDs are link-local: its net device has no address".to_owned()
            };
            resolved.drop_where(roce, why);
            return Ok(None);
        };
        let other = |usable: &UsablePort| roce(usable) && !gid::has(node, usable, kind);
        let why = |_: &UsablePort| {
            format!("it has no {} address for RoCE v{}, unlike others", kind.family(), kind.version)
        };
        resolved.drop_where(other, why);
        let left: Vec<&UsablePort> =
            resolved.usable_ports.iter().filter(|usable| roce(usable)).collect();
        let policy =
            gid::decide(node, &left, kind, self.nccl.selects_gids_by_address(), self.request.peers);
        policy.map(Some).map_err(|reason| self.refuse(reason, resolved.verdicts()))
    }

    fn rdma(mut self, resolved: &Selection, policy: Option<&GidPolicy>) -> EnvironmentPlan {
        let usable_ports = &resolved.usable_ports;
        let verbs: Vec<UsablePort> =
            usable_ports.iter().filter(|usable| usable.kind.is_verbs()).copied().collect();
        let interface = self.interface();
        let mut variables = Variables::new(self.request.environment);
        if verbs.len() < usable_ports.len() {
            variables.efa();
            self.notes.extend(efa_plugin(self.tree));
        }
        if !verbs.is_empty() {
            variables.verbs(&verbs, policy);
        }
        variables.socket(interface.as_deref());
        self.notes.extend(affinity::lines(self.node, usable_ports));
        self.notes.extend(cautions(usable_ports));
        let hints = hints(self.node, usable_ports);
        let kind = policy.map(GidPolicy::kind);
        let plan = self.finish(Mode::Rdma, resolved.verdicts(), variables, hints);
        EnvironmentPlan { gids: kind.map(|kind| (kind.family(), kind.version)), ..plan }
    }

    fn tcp(self, devices: Vec<DeviceVerdict>) -> EnvironmentPlan {
        let mut this = self;
        let interface = this.interface();
        let mut variables = Variables::new(this.request.environment);
        variables.tcp(this.node, interface.as_deref());
        variables.socket(interface.as_deref());
        this.finish(Mode::Tcp, devices, variables, Vec::new())
    }

    fn finish(
        mut self,
        mode: Mode,
        devices: Vec<DeviceVerdict>,
        variables: Variables,
        hints: Vec<String>,
    ) -> EnvironmentPlan {
        self.notes.extend(variables.notes);
        self.notes.extend(self.nccl.notes());
        let (notes, nccl) = (self.notes, self.nccl);
        EnvironmentPlan { mode, devices, variables: variables.list, notes, hints, nccl, gids: None }
    }

    /// The interface that leads to all peers, if there is exactly one.
    fn interface(&mut self) -> Option<String> {
        let peers = self.request.peers;
        if peers.is_empty() {
            let option = self.request.peers_option;
            if !option.is_empty() {
                self.notes.push(format!("NCCL_SOCKET_IFNAME is left to NCCL: pass the peers' addresses ({option}) to set the interface that leads to them"));
            }
            return None;
        }
        let mut interfaces: Vec<String> =
            peers.iter().filter_map(|peer| route::interface_to(self.tree, *peer)).collect();
        interfaces.sort();
        interfaces.dedup();
        match interfaces.as_slice() {
            [one] => Some(one.clone()),
            [] => {
                self.notes.push(
                    "no route of this host leads to the peers: NCCL_SOCKET_IFNAME is left to NCCL"
                        .to_owned(),
                );
                None
            }
            several => {
                let several = several.join(", ");
                self.notes.push(format!("several interfaces lead to the peers ({several}): NCCL_SOCKET_IFNAME is left to NCCL"));
                None
            }
        }
    }

    fn refuse(&mut self, reason: String, devices: Vec<DeviceVerdict>) -> Box<Refusal> {
        Box::new(Refusal { reason, devices, notes: std::mem::take(&mut self.notes) })
    }
}

fn nothing_usable(resolved: &Selection) -> String {
    let fix = "run `wirelane doctor` for details; mode tcp works without RDMA";
    if resolved.is_assigned {
        return format!(
            "RDMA devices were assigned to this pod, and none of them can be used; {fix}"
        );
    }
    format!("no RDMA device can be used here; {fix}")
}

fn efa_plugin(tree: &Tree) -> Option<String> {
    let found = EFA_PLUGIN.iter().any(|path| tree.exists(path));
    (!found).then(|| {
        "NCCL's plugin for EFA (libnccl-net.so of aws-ofi-nccl) is not in its usual folders: without it NCCL uses TCP".to_owned()
    })
}

fn cautions(usable_ports: &[UsablePort]) -> Option<String> {
    let many = usable_ports.len() > NCCL_MAX_PORTS;
    many.then(|| {
        format!("NCCL uses at most {NCCL_MAX_PORTS} ports, and there are {}", usable_ports.len())
    })
}

fn hints(node: &Node, usable_ports: &[UsablePort]) -> Vec<String> {
    if !affinity::crosses_sockets(node, usable_ports) {
        return Vec::new();
    }
    vec!["NCCL_NET_GDR_LEVEL=SYS lets GPUs access NICs of the other socket directly; measure before you set it".to_owned()]
}

/// MAX_IB_DEVS.
const NCCL_MAX_PORTS: usize = 32;
const EFA_PLUGIN: [&str; 4] = [
    "/opt/amazon/ofi-nccl/lib/libnccl-net.so",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so",
    "/opt/aws-ofi-nccl/lib/libnccl-net.so",
    "/usr/lib/x86_64-linux-gnu/libnccl-net.so",
];
