//! A client: the steps to mount a folder of another host over RDMA.

use std::net::IpAddr;

use node::{Mount, Node, Tree};

use super::{MODULE, Refusal, Source, WHY_MODULE, module_file, requirements};
use crate::{Change, Plan};

/// A mount to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRequest {
    /// The host and its folder.
    pub source: Source,
    /// The mount point.
    pub point: String,
    /// The server's port for RDMA.
    pub port: u16,
    /// NFS's version: `4.2`.
    pub version: String,
    /// The number of connections (`nconnect`).
    pub connections: Option<u8>,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Whether it is mounted again after a restart.
    pub persist: bool,
}

/// The addresses of the server, and of this host towards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The server's.
    pub to: IpAddr,
    /// Ours.
    pub from: IpAddr,
}

/// Plans the steps. `route` is `None` for a folder or a snapshot.
pub fn plan(
    node: &Node,
    tree: &Tree,
    mounting: &MountRequest,
    route: Option<Route>,
) -> Result<Plan, Refusal> {
    requirements::has_program(tree, "mount.nfs", "nfs-common")?;
    let ports = requirements::active_ports(node)?;
    requirements::has_module(tree)?;
    if let Some(route) = route {
        uses_rdma(node, &ports, &mounting.source, route)?;
    }
    let mounts = Mount::read_all(tree);
    mounting.is_free(&mounts, route)?;
    Ok(mounting.steps())
}

/// Refuses a route from an address that no RDMA port has.
fn uses_rdma(
    node: &Node,
    ports: &[(&node::Device, &node::Port)],
    source: &Source,
    route: Route,
) -> Result<(), Refusal> {
    let has = |(_, port): &(&node::Device, &node::Port)| {
        requirements::addresses(node, port).iter().any(|(address, _)| *address == route.from)
    };
    if ports.iter().any(has) {
        return Ok(());
    }
    Err(Refusal(format!(
        "{} is reached from {}, which is no address of an active RDMA port ({}): use the server's address on \
         the fabric",
        source.host,
        route.from,
        requirements::describe_addresses(node, ports)
    )))
}

impl MountRequest {
    /// The options of `mount -o`.
    pub fn options(&self) -> String {
        let mut options = format!("rdma,port={},vers={}", self.port, self.version);
        if let Some(connections) = self.connections {
            options += &format!(",nconnect={connections}");
        }
        if self.read_only {
            options += ",ro";
        }
        options
    }

    fn steps(&self) -> Plan {
        let (source, options) = (self.source.to_string(), self.options());
        let mut plan = Plan::default();
        plan.step("module", WHY_MODULE, Change::module(MODULE), true);
        if self.persist {
            plan.step("module", PERSISTENT, module_file("client"), true);
        }
        let mount = Change::mount(&source, &self.point, &options, "rdma");
        plan.step("mount", format!("mount -o {options}"), mount, true);
        if self.persist {
            let line = format!("{source} {} nfs {options},_netdev,nofail 0 0", self.point);
            plan.step("fstab", PERSISTENT, Change::line("/etc/fstab", line), true);
        }
        plan
    }

    /// Checks for another mount at the point, and for one that would share its connection.
    fn is_free(&self, mounts: &[Mount], route: Option<Route>) -> Result<(), Refusal> {
        let there = Mount::at(mounts, &self.point);
        let ours = |mount: &Mount| {
            mount.source == self.source.to_string() && mount.option("proto") == Some("rdma")
        };
        match there {
            Some(mount) if ours(mount) => return Ok(()),
            Some(Mount { source, kind, .. }) => {
                return Err(Refusal(format!(
                    "{} is in use: {source} ({kind}) is mounted there; unmount it, or choose another folder",
                    self.point
                )));
            }
            None => {}
        }
        let shares = |mount: &&Mount| {
            let host =
                mount.source.rsplit_once(":/").is_some_and(|(host, _)| host == self.source.host);
            let address =
                route.is_some_and(|route| mount.option("addr") == Some(&*route.to.to_string()));
            mount.kind == "nfs4"
                && (host || address)
                && mount.option("vers") == Some(&*self.version)
                && mount.option("proto") != Some("rdma")
        };
        match mounts.iter().find(shares) {
            None => Ok(()),
            Some(mount) => Err(Refusal(format!(
                "{} is mounted from the same server over {} at {}: Linux has one connection per server and version, \
                 so this mount would use it too; unmount that one, or choose version {} of NFS",
                mount.source,
                mount.option("proto").unwrap_or("tcp"),
                mount.point,
                if self.version == "4.2" { "4.1" } else { "4.2" }
            ))),
        }
    }
}

const PERSISTENT: &str = "the same after a restart";

#[cfg(test)]
mod tests {
    use super::*;

    fn mounting() -> MountRequest {
        MountRequest {
            source: "10.0.0.1:/data".parse().expect("fit"),
            point: "/mnt/data".to_owned(),
            port: 20049,
            version: "4.2".to_owned(),
            connections: None,
            read_only: false,
            persist: false,
        }
    }

    fn mount(point: &str, source: &str, kind: &str, options: &str) -> Mount {
        let options = options.split(',').map(str::to_owned).collect();
        let (point, kind, source) = (point.to_owned(), kind.to_owned(), source.to_owned());
        Mount { point, kind, source, on_disk: false, options }
    }

    #[test]
    fn options_select_rdma() {
        assert_eq!(mounting().options(), "rdma,port=20049,vers=4.2");
        let more = MountRequest { connections: Some(4), read_only: true, ..mounting() };
        assert_eq!(more.options(), "rdma,port=20049,vers=4.2,nconnect=4,ro");
    }

    #[test]
    fn a_mount_persists_only_on_request() {
        let items = |mounting: MountRequest| {
            let steps = mounting.steps().steps;
            steps.iter().map(|step| step.change.target.name()).collect::<Vec<_>>()
        };
        assert_eq!(items(mounting()), ["module rpcrdma", "mount at /mnt/data"]);
        let kept = items(MountRequest { persist: true, ..mounting() });
        assert_eq!(kept[1], "/etc/modules-load.d/wirelane-nfs-client.conf");
        assert_eq!(kept[3], "line of /etc/fstab");
    }

    #[test]
    fn a_mount_over_tcp_of_the_same_server_and_version_is_refused() {
        let tcp = "rw,vers=4.2,proto=tcp,addr=10.0.0.1";
        let route =
            Route { to: "10.0.0.1".parse().expect("IP"), from: "10.0.0.2".parse().expect("IP") };
        let by_name = mount("/home", "server:/home", "nfs4", tcp);
        let error =
            mounting().is_free(std::slice::from_ref(&by_name), Some(route)).expect_err("shared");
        assert!(error.to_string().contains("choose version 4.1"), "{error}");
        assert!(mounting().is_free(&[by_name], None).is_ok(), "no address is known in a snapshot");
        let old = mount("/home", "10.0.0.1:/home", "nfs4", "vers=4.1,proto=tcp");
        assert!(mounting().is_free(&[old], None).is_ok(), "another version has its own");
    }

    #[test]
    fn another_mount_at_the_point_is_refused_and_the_same_is_accepted() {
        let other = mount("/mnt/data", "/dev/sda1", "ext4", "rw");
        let error = mounting().is_free(&[other], None).expect_err("taken").to_string();
        assert!(error.contains("/dev/sda1 (ext4) is mounted there"), "{error}");
        let same = mount("/mnt/data", "10.0.0.1:/data", "nfs4", "vers=4.2,proto=rdma");
        assert!(mounting().is_free(&[same], None).is_ok());
    }
}
