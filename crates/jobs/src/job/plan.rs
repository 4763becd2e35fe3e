//! A job's environment, and the reasons for it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use node::{Node, Tree};
use serde::Serialize;

use super::claim::{self, Claims};
use super::gid::{self, Policy};
use super::library::Library;
use super::rail::{Judged, Rail, RailKind};
use super::resolve::{Resolved, resolve};
use super::setting::{Setting, Settings};
use super::version::Version;
use super::{affinity, route};

/// What is wanted.
#[derive(Debug)]
pub struct Request<'r> {
    /// The environment that the job would have without us.
    pub environment: &'r BTreeMap<String, String>,
    /// With RDMA or without.
    pub mode: Mode,
    /// Addresses of the other hosts; none: they are not known.
    pub peers: &'r [IpAddr],
    /// The job's NCCL, if the user knows better than what is found.
    pub nccl: Option<Version>,
}

/// With RDMA or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// With it, or not at all.
    Rdma,
    /// Without it.
    Tcp,
    /// With it where there is some; without it only where none was promised.
    Auto,
}

/// The environment of a job, with its reasons.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// How its data moves: `rdma` or `tcp`.
    pub mode: Mode,
    /// What became of every device.
    pub devices: Vec<Judged>,
    /// Variables to set, and those of the user's that stay.
    pub settings: Vec<Setting>,
    /// What else to know.
    pub notes: Vec<String>,
    /// What is right on some hosts alone, and so is only said.
    pub hints: Vec<String>,
    /// Which NCCL it is for.
    pub nccl: Library,
    /// RoCE: the family of the addresses that connections are made between, and RoCE's version.
    #[serde(skip)]
    pub(crate) gids: Option<(&'static str, u8)>,
}

/// Why there is no plan.
#[derive(Debug)]
pub struct Refusal {
    /// What is wrong, and what to do.
    pub reason: String,
    /// What became of every device that was looked at.
    pub devices: Vec<Judged>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// Works out the environment of a job on this host.
pub fn plan(node: &Node, tree: &Tree, request: &Request) -> Result<Plan, Box<Refusal>> {
    let nccl = Library::find(tree, request.environment, request.nccl);
    let mut draft = Draft { node, tree, request, nccl, notes: Vec::new() };
    if request.mode == Mode::Tcp {
        return Ok(draft.tcp(Vec::new()));
    }
    let claims = claim::gather(request.environment, tree);
    draft.notes.extend(claims.doubts.iter().cloned());
    let mut resolved = draft.resolve(&claims)?;
    draft.notes.append(&mut resolved.notes);
    let policy = draft.choose_gids(&mut resolved)?;
    if !resolved.rails.is_empty() {
        return Ok(draft.rdma(&resolved, policy.as_ref()));
    }
    let devices = resolved.judged();
    if request.mode == Mode::Rdma || resolved.is_promised {
        return Err(draft.refuse(nothing_usable(&resolved), devices));
    }
    draft.notes.push("no RDMA device can be used here: the job goes over TCP".to_owned());
    Ok(draft.tcp(devices))
}

/// A plan in the making.
struct Draft<'d> {
    node: &'d Node,
    tree: &'d Tree,
    request: &'d Request<'d>,
    nccl: Library,
    notes: Vec<String>,
}

impl<'d> Draft<'d> {
    fn resolve(&mut self, claims: &Claims) -> Result<Resolved<'d>, Box<Refusal>> {
        if let Some(wrong) = claims.wrong.first() {
            return Err(self.refuse(format!("{wrong}; mode tcp does without RDMA"), Vec::new()));
        }
        resolve(self.node, self.tree, claims, self.request.peers).map_err(|reason| {
            self.refuse(format!("{reason}; mode tcp does without RDMA"), Vec::new())
        })
    }

    /// RoCE alone: which addresses NCCL uses. Rails that have none of the common kind are dropped.
    fn choose_gids(&mut self, resolved: &mut Resolved) -> Result<Option<Policy>, Box<Refusal>> {
        let roce = |rail: &Rail| rail.kind == RailKind::Roce;
        let rails: Vec<Rail> = resolved.rails.iter().filter(|rail| roce(rail)).copied().collect();
        if rails.is_empty() {
            return Ok(None);
        }
        let node = self.node;
        let Some(sort) = gid::common(node, &rails.iter().collect::<Vec<_>>()) else {
            let why = |_: &Rail| {
                "its GIDs are good on their own link alone: its net device has no address"
                    .to_owned()
            };
            resolved.drop_where(roce, why);
            return Ok(None);
        };
        let other = |rail: &Rail| roce(rail) && !gid::has(node, rail, sort);
        let why = |_: &Rail| {
            format!(
                "it has no address of {} for RoCE v{}, as others have",
                sort.family(),
                sort.version
            )
        };
        resolved.drop_where(other, why);
        let left: Vec<&Rail> = resolved.rails.iter().filter(|rail| roce(rail)).collect();
        let policy = gid::decide(node, &left, sort, self.nccl.chooses_gids(), self.request.peers);
        policy.map(Some).map_err(|reason| self.refuse(reason, resolved.judged()))
    }

    fn rdma(mut self, resolved: &Resolved, policy: Option<&Policy>) -> Plan {
        let rails = &resolved.rails;
        let verbs: Vec<Rail> = rails.iter().filter(|rail| rail.kind.is_verbs()).copied().collect();
        let interface = self.interface();
        let mut settings = Settings::new(self.request.environment);
        if verbs.len() < rails.len() {
            settings.efa();
            self.notes.extend(efa_plugin(self.tree));
        }
        if !verbs.is_empty() {
            settings.verbs(&verbs, policy);
        }
        settings.socket(interface.as_deref());
        self.notes.extend(affinity::lines(self.node, rails));
        self.notes.extend(cautions(rails));
        let hints = hints(self.node, rails);
        let sort = policy.map(Policy::sort);
        let plan = self.end(Mode::Rdma, resolved.judged(), settings, hints);
        Plan { gids: sort.map(|sort| (sort.family(), sort.version)), ..plan }
    }

    fn tcp(self, devices: Vec<Judged>) -> Plan {
        let mut this = self;
        let interface = this.interface();
        let mut settings = Settings::new(this.request.environment);
        settings.tcp(this.node, interface.as_deref());
        settings.socket(interface.as_deref());
        this.end(Mode::Tcp, devices, settings, Vec::new())
    }

    fn end(
        mut self,
        mode: Mode,
        devices: Vec<Judged>,
        settings: Settings,
        hints: Vec<String>,
    ) -> Plan {
        self.notes.extend(settings.notes);
        self.notes.extend(self.nccl.sentences());
        let (notes, nccl) = (self.notes, self.nccl);
        Plan { mode, devices, settings: settings.list, notes, hints, nccl, gids: None }
    }

    /// The one interface that leads to all peers.
    fn interface(&mut self) -> Option<String> {
        let peers = self.request.peers;
        if peers.is_empty() {
            self.notes.push("NCCL_SOCKET_IFNAME is left to NCCL: with the peers' addresses, the interface that leads to them would be set".to_owned());
            return None;
        }
        let mut ways: Vec<String> =
            peers.iter().filter_map(|peer| route::toward(self.tree, *peer)).collect();
        ways.sort();
        ways.dedup();
        match ways.as_slice() {
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

    fn refuse(&mut self, reason: String, devices: Vec<Judged>) -> Box<Refusal> {
        Box::new(Refusal { reason, devices, notes: std::mem::take(&mut self.notes) })
    }
}

fn nothing_usable(resolved: &Resolved) -> String {
    let fix = "`wirelane doctor` says more; mode tcp does without RDMA";
    if resolved.is_promised {
        return format!("RDMA was given to this pod, and none of it can be used; {fix}");
    }
    format!("no RDMA device can be used here; {fix}")
}

fn efa_plugin(tree: &Tree) -> Option<String> {
    let found = EFA_PLUGIN.iter().any(|path| tree.exists(path));
    (!found).then(|| {
        "NCCL's plugin for EFA (libnccl-net.so of aws-ofi-nccl) is not in its usual places: without it NCCL goes over TCP".to_owned()
    })
}

fn cautions(rails: &[Rail]) -> Option<String> {
    let many = rails.len() > NCCL_MAX;
    many.then(|| format!("NCCL uses {NCCL_MAX} ports at most, and there are {}", rails.len()))
}

fn hints(node: &Node, rails: &[Rail]) -> Vec<String> {
    if !affinity::crosses_sockets(node, rails) {
        return Vec::new();
    }
    vec!["NCCL_NET_GDR_LEVEL=SYS would let GPUs reach NICs of the other socket directly; measure before you set it".to_owned()]
}

/// MAX_IB_DEVS.
const NCCL_MAX: usize = 32;
const EFA_PLUGIN: [&str; 4] = [
    "/opt/amazon/ofi-nccl/lib/libnccl-net.so",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so",
    "/opt/aws-ofi-nccl/lib/libnccl-net.so",
    "/usr/lib/x86_64-linux-gnu/libnccl-net.so",
];
