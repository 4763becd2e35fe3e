//! A server: what it takes to serve a folder by RDMA.

use std::collections::BTreeSet;

use doctor::limits::firewall::ROCE_PORT;
use node::answers::CmId;
use node::{Device, Mount, Node, NodeType, Port, Role, Seen, Tree};

use super::{Clients, HEAD, MODULE, Refusal, WHY_MODULE, clients, module_file, requirements};
use crate::setup::firewall::{self, FirewallService};
use crate::{Change, Plan};

/// What shall be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The folder.
    pub dir: String,
    /// Who may mount it.
    pub clients: Clients,
    /// The port for RDMA.
    pub port: u16,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether root of a client is root here too.
    pub trust_root: bool,
}

/// The steps, and what is left to a person.
pub fn plan(node: &Node, tree: &Tree, serving: &Serving) -> Result<Plan, Refusal> {
    requirements::has_program(tree, "rpc.nfsd", "nfs-kernel-server")?;
    requirements::has_program(tree, "exportfs", "nfs-kernel-server")?;
    let ports = requirements::active_ports(node)?;
    requirements::has_module(tree)?;
    has_address(node, tree, &ports)?;
    serving.is_port_free(tree)?;
    serving.shuts_nobody_out(tree)?;
    let mounts = Mount::read_all(tree);
    let options = serving.options(serving.below(tree, &mounts)?);
    let mut plan = serving.steps(&options);
    serving.advise(node, tree, &ports, &mut plan);
    advise_of_root(&mounts, &mut plan);
    Ok(plan)
}

impl Serving {
    /// The file system that holds the folder, where it is known.
    fn below<'m>(&self, tree: &Tree, mounts: &'m [Mount]) -> Result<Option<&'m Mount>, Refusal> {
        let dir = &self.dir;
        match tree.node(dir) {
            Seen::Value(node) if node.mode & KIND == FOLDER => {}
            Seen::Value(_) => return Err(Refusal(format!("{dir} is no folder: name one"))),
            _ => return Err(Refusal(format!("there is no folder {dir}: make it first"))),
        }
        let below = Mount::containing(mounts, dir);
        let exports = |mount: &Mount| mount.options.iter().any(|option| option == "nfs_export=on");
        match below {
            Some(mount) if mount.kind == "overlay" && !exports(mount) => Err(Refusal(format!(
                "{dir} is on an overlay ({}), which cannot be served by NFS: choose a folder on a disk",
                mount.point
            ))),
            below => Ok(below),
        }
    }

    /// As /etc/exports has them, in the order in which the server's table tells them.
    fn options(&self, below: Option<&Mount>) -> String {
        let access = if self.read_only { "ro" } else { "rw" };
        let root = if self.trust_root { "no_root_squash" } else { "root_squash" };
        let mut options = format!("{access},sync,{root},no_subtree_check");
        // What has no disk has no number that stays the same, by which clients could know it again.
        let nameless = |mount: &Mount| !mount.on_disk && !matches!(&*mount.kind, "btrfs" | "zfs");
        if below.is_some_and(nameless) {
            options += &format!(",fsid={}", number(&self.dir));
        }
        options
    }

    /// The listener comes last of what others feel: nothing before it needs nfsd stopped to be reverted. The file
    /// that asks for it at the next start comes behind, so that taking back starts nfsd without it.
    fn steps(&self, options: &str) -> Plan {
        let Serving { dir, clients, port, .. } = self;
        let mut plan = Plan::default();
        plan.step("module", WHY_MODULE, Change::module(MODULE), true);
        plan.step("module", "the same after a restart", module_file("server"), true);
        let to: Vec<String> =
            clients.names().iter().map(|name| format!("{name}({options})")).collect();
        let file = self.exports();
        let text = format!("{HEAD}{dir} {}\n", to.join(" "));
        plan.step("exports", "who may mount it, by which rights", Change::file(file, text), true);
        for client in clients.names() {
            let change = Change::export(dir, client, options);
            plan.step("exports", "the running server is told", change, true);
        }
        let nfsd = Change::nfsd(*port, vec![dir.clone()]);
        plan.step("server", "nfsd runs and listens for RDMA", nfsd, true);
        let text = format!("{HEAD}[nfsd]\nrdma=y\nrdma-port={port}\n");
        let conf = Change::file("/etc/nfs.conf.d/wirelane.conf", text);
        plan.step("server", "it listens again after a restart", conf, true);
        plan
    }

    /// The file that tells who may mount it.
    fn exports(&self) -> String {
        format!("/etc/exports.d/wirelane-{}.exports", file_name(&self.dir))
    }

    /// A running server goes on to serve those that a new list leaves out: they are taken away first, and in order.
    fn shuts_nobody_out(&self, tree: &Tree) -> Result<(), Refusal> {
        let text = tree.text(&self.exports()).into_value().unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.dir)));
        let served = line.unwrap_or_default().split(' ').filter_map(|word| word.split('(').next());
        let is_left_out =
            |name: &&str| !name.is_empty() && !self.clients.names().iter().any(|new| new == name);
        let left_out: Vec<&str> = served.filter(is_left_out).collect();
        match left_out.is_empty() {
            true => Ok(()),
            false => Err(Refusal(format!(
                "{} is served to {} too: `wirelane nfs remove {}` first, or name them as well",
                self.dir,
                left_out.join(", "),
                self.dir
            ))),
        }
    }

    fn is_port_free(&self, tree: &Tree) -> Result<(), Refusal> {
        let all = tree.answers().cm_ids().unwrap_or_default();
        let Some(other) = taken(&all, self.port) else { return Ok(()) };
        let name = tree.text(&format!("/proc/{}/comm", other.pid)).into_value();
        let who = other.module.clone().or(name).unwrap_or_else(|| "another program".to_owned());
        Err(Refusal(format!(
            "port {} for RDMA is taken by {who} (process {}): end it, or choose another port",
            self.port, other.pid
        )))
    }

    fn advise(&self, node: &Node, tree: &Tree, ports: &[(&Device, &Port)], plan: &mut Plan) {
        self.advise_of_networks(node, ports, plan);
        self.advise_of_rights(tree, plan);
        self.advise_of_firewall(tree, ports, plan);
        let wanted = "/etc/systemd/system/multi-user.target.wants/nfs-server.service";
        if tree.exists("/run/systemd/system") && !tree.exists(wanted) {
            let why = "nfs-server does not start with the machine";
            plan.advise("server", why, vec!["systemctl enable nfs-server".to_owned()]);
        }
    }

    /// Clients come from the fabric's addresses.
    fn advise_of_networks(&self, node: &Node, ports: &[(&Device, &Port)], plan: &mut Plan) {
        let known: Vec<_> =
            ports.iter().flat_map(|(_, port)| requirements::addresses(node, port)).collect();
        let near = |address, prefix| {
            let first = clients::first(address, prefix);
            known.iter().any(|(ours, of)| {
                let shorter = of.unwrap_or(prefix).min(prefix);
                clients::first(*ours, shorter) == clients::first(first, shorter)
            })
        };
        for (name, address, prefix) in self.clients.networks() {
            if !known.is_empty() && !near(address, prefix) {
                let why = format!(
                    "{name} is in no network of an RDMA port ({}): clients come from their addresses on the fabric",
                    requirements::told(node, ports)
                );
                plan.advise("clients", why, Vec::new());
            }
        }
    }

    /// With root squashed, who writes must have rights of its own.
    fn advise_of_rights(&self, tree: &Tree, plan: &mut Plan) {
        let Some(node) = tree.node(&self.dir).into_value() else { return };
        if !self.trust_root && !self.read_only && node.uid == 0 && node.mode & 0o002 == 0 {
            let why = format!(
                "root of a client is nobody here, and {} is root's: give it to the user who shall write there",
                self.dir
            );
            plan.advise("rights", why, vec![format!("chown USER {}", self.dir)]);
        }
    }

    fn advise_of_firewall(&self, tree: &Tree, ports: &[(&Device, &Port)], plan: &mut Plan) {
        let firewall = tree.answers().firewall();
        let drops = firewall.is_some_and(|firewall| firewall.drops_by_default != Some(false));
        let service = firewall::service(tree);
        if !drops && service == FirewallService::Tables {
            return;
        }
        let mut open = BTreeSet::from([("tcp", 2049)]);
        for (device, _) in ports {
            match (&device.node_type, device.role == Role::Software) {
                (Seen::Value(NodeType::Rnic), _) => drop(open.insert(("tcp", self.port))),
                (_, true) => drop(open.insert(("udp", ROCE_PORT))),
                _ => {}
            }
        }
        let commands = open.iter().flat_map(|(by, port)| service.open(by, &port.to_string()));
        let why = "the packet filter may drop clients: cards take RoCE before it, but soft-RoCE (UDP 4791), iWARP and \
                   mounts by TCP come through it";
        plan.advise("firewall", why, commands.collect());
    }
}

/// NFS 4 shows clients a tree that begins at the server's root.
fn advise_of_root(mounts: &[Mount], plan: &mut Plan) {
    if Mount::at(mounts, "/").is_some_and(|root| root.kind == "overlay") {
        let why = "NFS 4 shows a tree from / on, which is an overlay here and cannot be served: clients may be told that \
                   there is no such folder, unless rootdir in [exports] of /etc/nfs.conf names another beginning";
        plan.advise("root", why, Vec::new());
    }
}

/// Without an address, nobody can connect; of a tree addresses are not known.
fn has_address(node: &Node, tree: &Tree, ports: &[(&Device, &Port)]) -> Result<(), Refusal> {
    let known = tree.answers().interfaces().is_some();
    let any = ports.iter().any(|(_, port)| !requirements::addresses(node, port).is_empty());
    if any || !known {
        return Ok(());
    }
    Err(Refusal(format!(
        "no active RDMA port has an IP address ({}), by which clients would connect: give its net device one",
        requirements::told(node, ports)
    )))
}

/// Who listens for RDMA at a port, if it is not NFS itself.
fn taken(ids: &[CmId], port: u16) -> Option<&CmId> {
    let listens =
        |id: &&CmId| id.state == "LISTEN" && id.local.is_some_and(|local| local.port() == port);
    ids.iter().filter(listens).find(|id| id.module.as_deref() != Some(MODULE))
}

/// A folder as a file's name: `/srv/data` is `srv-data`; a dash of its own is doubled, so that no two are one.
fn file_name(dir: &str) -> String {
    let name = dir.trim_matches('/').replace('-', "--").replace('/', "-");
    if name.is_empty() { "root".to_owned() } else { name }
}

/// A number for a file system that has none: always the same for a folder (FNV-1a, twice).
fn number(dir: &str) -> String {
    let hash = |seed: u64| {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        dir.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, step)
    };
    let hex = format!("{:016x}{:016x}", hash(0), hash(0x5769_7265_6c61_6e65));
    let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// The kind in a file's mode, and a folder's.
const KIND: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn serving() -> Serving {
        Serving {
            dir: "/srv/data".to_owned(),
            clients: "10.0.0.0/24,node7".parse().expect("fit"),
            port: 20049,
            read_only: false,
            trust_root: false,
        }
    }

    #[test]
    fn the_listener_comes_behind_the_exports_and_its_file_last() {
        let plan = serving().steps(&serving().options(None));
        let names: Vec<String> = plan.steps.iter().map(|step| step.change.target.name()).collect();
        assert_eq!(
            names,
            [
                "module rpcrdma",
                "/etc/modules-load.d/wirelane-nfs-server.conf",
                "/etc/exports.d/wirelane-srv-data.exports",
                "export of /srv/data to 10.0.0.0/24",
                "export of /srv/data to node7",
                "NFS server",
                "/etc/nfs.conf.d/wirelane.conf",
            ]
        );
        let State::File { content, .. } = &plan.steps[2].change.wanted else { panic!("a file") };
        let text = String::from_utf8_lossy(content.bytes()).into_owned();
        let options = "rw,sync,root_squash,no_subtree_check";
        assert!(
            text.ends_with(&format!("/srv/data 10.0.0.0/24({options}) node7({options})\n")),
            "{text}"
        );
    }

    #[test]
    fn a_file_system_without_a_disk_is_given_a_number() {
        let mount = |kind: &str, on_disk| Mount {
            point: "/srv".into(),
            kind: kind.into(),
            source: "x".into(),
            on_disk,
            options: Vec::new(),
        };
        let options = serving().options(Some(&mount("tmpfs", false)));
        let fsid = options.rsplit_once("fsid=").expect("a number").1;
        assert_eq!((fsid.len(), fsid.matches('-').count()), (36, 4), "{fsid}");
        assert_eq!(serving().options(Some(&mount("tmpfs", false))), options, "the same each time");
        assert!(!serving().options(Some(&mount("ext4", true))).contains("fsid"));
        assert!(!serving().options(Some(&mount("btrfs", false))).contains("fsid"));
        assert_ne!(number("/a"), number("/b"));
    }

    #[test]
    fn a_port_that_another_program_listens_at_is_taken() {
        let id = |state, module: Option<&str>| CmId {
            device: "rxe0".to_owned(),
            state,
            pid: 7,
            module: module.map(str::to_owned),
            local: "0.0.0.0:20049".parse().ok(),
            peer: None,
        };
        assert!(taken(&[id("LISTEN", None)], 20049).is_some());
        assert!(taken(&[id("LISTEN", None)], 20050).is_none());
        assert!(taken(&[id("LISTEN", Some("rpcrdma")), id("CONNECT", None)], 20049).is_none());
    }

    #[test]
    fn no_two_folders_share_a_file() {
        assert_eq!(file_name("/"), "root");
        assert_ne!(file_name("/a/b"), file_name("/a-b"));
    }
}
