//! A server: the steps to serve a folder over RDMA.

use std::collections::BTreeSet;

use doctor::expected::firewall::ROCE_PORT;
use node::queries::CmId;
use node::{Device, Mount, Node, NodeType, Port, Reading, Role, Tree};

use super::{Clients, HEAD, MODULE, Refusal, WHY_MODULE, clients, module_file, requirements};
use crate::setup::firewall::{self, FirewallService};
use crate::{Change, Plan};

/// An export to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRequest {
    /// The folder.
    pub dir: String,
    /// The clients that may mount it.
    pub clients: Clients,
    /// The port for RDMA.
    pub port: u16,
    /// Whether it is exported read-only.
    pub read_only: bool,
    /// Whether root of a client is root here too (`no_root_squash`).
    pub trust_root: bool,
}

/// Plans the steps, and advice for the administrator.
pub fn plan(node: &Node, tree: &Tree, serving: &ExportRequest) -> Result<Plan, Refusal> {
    requirements::has_program(tree, "rpc.nfsd", "nfs-kernel-server")?;
    requirements::has_program(tree, "exportfs", "nfs-kernel-server")?;
    let ports = requirements::active_ports(node)?;
    requirements::has_module(tree)?;
    has_address(node, tree, &ports)?;
    serving.is_port_free(tree)?;
    serving.keeps_current_clients(tree)?;
    let mounts = Mount::read_all(tree);
    let options = serving.options(serving.mount_of(tree, &mounts)?);
    let mut plan = serving.steps(&options);
    serving.advise(node, tree, &ports, &mut plan);
    advise_of_root(&mounts, &mut plan);
    Ok(plan)
}

impl ExportRequest {
    /// The mount that contains the folder, where it is known.
    fn mount_of<'m>(&self, tree: &Tree, mounts: &'m [Mount]) -> Result<Option<&'m Mount>, Refusal> {
        let dir = &self.dir;
        match tree.metadata(dir) {
            Reading::Value(node) if node.mode & TYPE_MASK == FOLDER => {}
            Reading::Value(_) => return Err(Refusal(format!("{dir} is not a folder"))),
            _ => return Err(Refusal(format!("there is no folder {dir}: create it first"))),
        }
        let below = Mount::containing(mounts, dir);
        let exports = |mount: &Mount| mount.options.iter().any(|option| option == "nfs_export=on");
        match below {
            Some(mount) if mount.kind == "overlay" && !exports(mount) => Err(Refusal(format!(
                "{dir} is on an overlay ({}), which NFS cannot export: choose a folder on a disk",
                mount.point
            ))),
            below => Ok(below),
        }
    }

    /// The options in /etc/exports, in the order of the server's export table.
    fn options(&self, below: Option<&Mount>) -> String {
        let access = if self.read_only { "ro" } else { "rw" };
        let root = if self.trust_root { "no_root_squash" } else { "root_squash" };
        let mut options = format!("{access},sync,{root},no_subtree_check");
        // A file system without a disk has no persistent ID, which clients need.
        let needs_fsid = |mount: &Mount| !mount.on_disk && !matches!(&*mount.kind, "btrfs" | "zfs");
        if below.is_some_and(needs_fsid) {
            options += &format!(",fsid={}", fsid(&self.dir));
        }
        options
    }

    /// The listener comes after the exports: reverting those does not stop nfsd. The file
    /// that configures the listener comes last, so that it is reverted first and nfsd restarts without the listener.
    fn steps(&self, options: &str) -> Plan {
        let ExportRequest { dir, clients, port, .. } = self;
        let mut plan = Plan::default();
        plan.step("module", WHY_MODULE, Change::module(MODULE), true);
        plan.step("module", "the same after a restart", module_file("server"), true);
        let to: Vec<String> =
            clients.names().iter().map(|name| format!("{name}({options})")).collect();
        let file = self.exports();
        let text = format!("{HEAD}{dir} {}\n", to.join(" "));
        plan.step("exports", "clients and their access", Change::file(file, text), true);
        for client in clients.names() {
            let change = Change::export(dir, client, options);
            plan.step("exports", "the running server exports it", change, true);
        }
        let nfsd = Change::nfsd(*port, vec![dir.clone()]);
        plan.step("server", "nfsd runs and listens for RDMA", nfsd, true);
        let text = format!("{HEAD}[nfsd]\nrdma=y\nrdma-port={port}\n");
        let conf = Change::file("/etc/nfs.conf.d/wirelane.conf", text);
        plan.step("server", "it listens again after a restart", conf, true);
        plan
    }

    /// The file with the export.
    fn exports(&self) -> String {
        format!("/etc/exports.d/wirelane-{}.exports", file_name(&self.dir))
    }

    /// Refuses a list that leaves out current clients: a running server would still serve them, so they must be removed first.
    fn keeps_current_clients(&self, tree: &Tree) -> Result<(), Refusal> {
        let text = tree.text(&self.exports()).into_value().unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.dir)));
        let served = line.unwrap_or_default().split(' ').filter_map(|word| word.split('(').next());
        let is_left_out =
            |name: &&str| !name.is_empty() && !self.clients.names().iter().any(|new| new == name);
        let left_out: Vec<&str> = served.filter(is_left_out).collect();
        match left_out.is_empty() {
            true => Ok(()),
            false => Err(Refusal(format!(
                "{} is also exported to {}: run `wirelane nfs remove {}` first, or name them as well",
                self.dir,
                left_out.join(", "),
                self.dir
            ))),
        }
    }

    fn is_port_free(&self, tree: &Tree) -> Result<(), Refusal> {
        let all = tree.query_results().cm_ids().unwrap_or_default();
        let Some(other) = other_listener(&all, self.port) else { return Ok(()) };
        let name = tree.text(&format!("/proc/{}/comm", other.pid)).into_value();
        let who = other.module.clone().or(name).unwrap_or_else(|| "another program".to_owned());
        Err(Refusal(format!(
            "RDMA port {} is used by {who} (process {}): stop it, or choose another port",
            self.port, other.pid
        )))
    }

    fn advise(&self, node: &Node, tree: &Tree, ports: &[(&Device, &Port)], plan: &mut Plan) {
        self.advise_of_networks(node, ports, plan);
        self.advise_of_rights(tree, plan);
        self.advise_of_firewall(tree, ports, plan);
        let wanted = "/etc/systemd/system/multi-user.target.wants/nfs-server.service";
        if tree.exists("/run/systemd/system") && !tree.exists(wanted) {
            let why = "nfs-server does not start at boot";
            plan.advise("server", why, vec!["systemctl enable nfs-server".to_owned()]);
        }
    }

    /// Clients connect from their addresses on the fabric.
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
                    "{name} is in no network of an RDMA port ({}): clients connect from their addresses on the fabric",
                    requirements::describe_addresses(node, ports)
                );
                plan.advise("clients", why, Vec::new());
            }
        }
    }

    /// With root squashed, users that write need their own permissions.
    fn advise_of_rights(&self, tree: &Tree, plan: &mut Plan) {
        let Some(metadata) = tree.metadata(&self.dir).into_value() else { return };
        if !self.trust_root && !self.read_only && metadata.uid == 0 && metadata.mode & 0o002 == 0 {
            let why = format!(
                "root of a client is nobody here, and {} belongs to root: give it to the user that writes there",
                self.dir
            );
            plan.advise("permissions", why, vec![format!("chown USER {}", self.dir)]);
        }
    }

    fn advise_of_firewall(&self, tree: &Tree, ports: &[(&Device, &Port)], plan: &mut Plan) {
        let firewall = tree.query_results().firewall();
        let drops = firewall.is_some_and(|firewall| firewall.drops_by_default != Some(false));
        let service = firewall::service(tree);
        if !drops && service == FirewallService::Tables {
            return;
        }
        let mut open = BTreeSet::from([("tcp", 2049)]);
        for (device, _) in ports {
            match (&device.node_type, device.role == Role::Software) {
                (Reading::Value(NodeType::Rnic), _) => drop(open.insert(("tcp", self.port))),
                (_, true) => drop(open.insert(("udp", ROCE_PORT))),
                _ => {}
            }
        }
        let commands = open.iter().flat_map(|(by, port)| service.open(by, &port.to_string()));
        let why = "the firewall may drop clients: RoCE of NICs bypasses it, but soft-RoCE (UDP 4791), iWARP and \
                   mounts over TCP do not";
        plan.advise("firewall", why, commands.collect());
    }
}

/// NFS 4 presents one tree to clients, from the server's root.
fn advise_of_root(mounts: &[Mount], plan: &mut Plan) {
    if Mount::at(mounts, "/").is_some_and(|root| root.kind == "overlay") {
        let why = "NFS 4 presents a tree from /, which is an overlay here and cannot be exported: clients may get \
                   `No such file or directory` unless rootdir in [exports] of /etc/nfs.conf names another root";
        plan.advise("root", why, Vec::new());
    }
}

/// Without an address, clients cannot connect; in a folder or a snapshot addresses are not known.
fn has_address(node: &Node, tree: &Tree, ports: &[(&Device, &Port)]) -> Result<(), Refusal> {
    let known = tree.query_results().interfaces().is_some();
    let any = ports.iter().any(|(_, port)| !requirements::addresses(node, port).is_empty());
    if any || !known {
        return Ok(());
    }
    Err(Refusal(format!(
        "no active RDMA port has an IP address ({}), which clients need to connect: add one to its net device",
        requirements::describe_addresses(node, ports)
    )))
}

/// Another program than NFS that listens for RDMA on a port.
fn other_listener(ids: &[CmId], port: u16) -> Option<&CmId> {
    let listens =
        |id: &&CmId| id.state == "LISTEN" && id.local.is_some_and(|local| local.port() == port);
    ids.iter().filter(listens).find(|id| id.module.as_deref() != Some(MODULE))
}

/// A folder as a file name: `/srv/data` is `srv-data`; a dash is doubled, so that names are unique.
fn file_name(dir: &str) -> String {
    let name = dir.trim_matches('/').replace('-', "--").replace('/', "-");
    if name.is_empty() { "root".to_owned() } else { name }
}

/// An ID for a file system that has none, derived from the folder's path (FNV-1a, twice).
fn fsid(dir: &str) -> String {
    let hash = |seed: u64| {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        dir.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, step)
    };
    let hex = format!("{:016x}{:016x}", hash(0), hash(0x5769_7265_6c61_6e65));
    let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// `S_IFMT` and `S_IFDIR`.
const TYPE_MASK: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn serving() -> ExportRequest {
        ExportRequest {
            dir: "/srv/data".to_owned(),
            clients: "10.0.0.0/24,node7".parse().expect("fit"),
            port: 20049,
            read_only: false,
            trust_root: false,
        }
    }

    #[test]
    fn the_listener_comes_after_the_exports_and_its_file_last() {
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
    fn a_file_system_without_a_disk_gets_an_fsid() {
        let mount = |kind: &str, on_disk| Mount {
            point: "/srv".into(),
            kind: kind.into(),
            source: "x".into(),
            on_disk,
            options: Vec::new(),
        };
        let options = serving().options(Some(&mount("tmpfs", false)));
        let option = options.rsplit_once("fsid=").expect("a number").1;
        assert_eq!((option.len(), option.matches('-').count()), (36, 4), "{option}");
        assert_eq!(serving().options(Some(&mount("tmpfs", false))), options, "the same each time");
        assert!(!serving().options(Some(&mount("ext4", true))).contains("fsid"));
        assert!(!serving().options(Some(&mount("btrfs", false))).contains("fsid"));
        assert_ne!(fsid("/a"), fsid("/b"));
    }

    #[test]
    fn another_program_that_listens_on_the_port_is_found() {
        let id = |state, module: Option<&str>| CmId {
            device: "rxe0".to_owned(),
            state,
            pid: 7,
            module: module.map(str::to_owned),
            local: "0.0.0.0:20049".parse().ok(),
            peer: None,
        };
        assert!(other_listener(&[id("LISTEN", None)], 20049).is_some());
        assert!(other_listener(&[id("LISTEN", None)], 20050).is_none());
        assert!(
            other_listener(&[id("LISTEN", Some("rpcrdma")), id("CONNECT", None)], 20049).is_none()
        );
    }

    #[test]
    fn no_two_folders_share_a_file() {
        assert_eq!(file_name("/"), "root");
        assert_ne!(file_name("/a/b"), file_name("/a-b"));
    }
}
