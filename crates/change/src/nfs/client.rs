//! A client: what it takes to mount a folder of another host by RDMA.

use std::net::IpAddr;

use node::{Mount, Node, Tree};

use super::{MODULE, Refusal, Source, WHY_MODULE, module_file, requirements};
use crate::{Change, Plan};

/// What shall be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounting {
    /// What.
    pub source: Source,
    /// Where.
    pub point: String,
    /// The server's port for RDMA.
    pub port: u16,
    /// NFS's version: `4.2`.
    pub version: String,
    /// Connections, where there shall be several.
    pub connections: Option<u8>,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether it is mounted again after a restart.
    pub persist: bool,
}

/// How the server is reached: its address, and ours towards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The server's.
    pub to: IpAddr,
    /// Ours.
    pub from: IpAddr,
}

/// The steps. `route` is not known for a tree.
pub fn plan(
    node: &Node,
    tree: &Tree,
    mounting: &Mounting,
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

/// A route from an address that is no RDMA port's cannot be taken by RDMA.
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
        "{} is reached from {}, which is no address of an active RDMA port ({}): name the server by its address on \
         the fabric",
        source.host,
        route.from,
        requirements::told(node, ports)
    )))
}

impl Mounting {
    /// As `mount -o` takes them.
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
            plan.step("module", KEPT, module_file("client"), true);
        }
        let mount = Change::mount(&source, &self.point, &options, "rdma");
        plan.step("mount", format!("mount -o {options}"), mount, true);
        if self.persist {
            let line = format!("{source} {} nfs {options},_netdev,nofail 0 0", self.point);
            plan.step("fstab", KEPT, Change::line("/etc/fstab", line), true);
        }
        plan
    }

    /// Whether nothing stands in the way: another mount at the point, or one that would share its connection.
    fn is_free(&self, mounts: &[Mount], route: Option<Route>) -> Result<(), Refusal> {
        let there = Mount::at(mounts, &self.point);
        let ours = |mount: &Mount| {
            mount.source == self.source.to_string() && mount.option("proto") == Some("rdma")
        };
        match there {
            Some(mount) if ours(mount) => return Ok(()),
            Some(Mount { source, kind, .. }) => {
                return Err(Refusal(format!(
                    "{} is taken: {source} ({kind}) is mounted there; unmount it, or choose another folder",
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
                "{} is mounted from the same server by {} at {}: for one server and version Linux has one connection, \
                 so this mount would use it too; unmount that one, or choose version {} of NFS",
                mount.source,
                mount.option("proto").unwrap_or("tcp"),
                mount.point,
                if self.version == "4.2" { "4.1" } else { "4.2" }
            ))),
        }
    }
}

const KEPT: &str = "the same after a restart";

#[cfg(test)]
mod tests {
    use super::*;

    fn mounting() -> Mounting {
        Mounting {
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
    fn options_are_those_that_mount_by_rdma() {
        assert_eq!(mounting().options(), "rdma,port=20049,vers=4.2");
        let more = Mounting { connections: Some(4), read_only: true, ..mounting() };
        assert_eq!(more.options(), "rdma,port=20049,vers=4.2,nconnect=4,ro");
    }

    #[test]
    fn a_restart_is_outlived_only_on_demand() {
        let items = |mounting: Mounting| {
            let steps = mounting.steps().steps;
            steps.iter().map(|step| step.change.target.name()).collect::<Vec<_>>()
        };
        assert_eq!(items(mounting()), ["module rpcrdma", "mount at /mnt/data"]);
        let kept = items(Mounting { persist: true, ..mounting() });
        assert_eq!(kept[1], "/etc/modules-load.d/wirelane-nfs-client.conf");
        assert_eq!(kept[3], "line of /etc/fstab");
    }

    #[test]
    fn a_mount_by_tcp_of_the_same_server_and_version_would_carry_it() {
        let tcp = "rw,vers=4.2,proto=tcp,addr=10.0.0.1";
        let route =
            Route { to: "10.0.0.1".parse().expect("IP"), from: "10.0.0.2".parse().expect("IP") };
        let by_name = mount("/home", "server:/home", "nfs4", tcp);
        let error =
            mounting().is_free(std::slice::from_ref(&by_name), Some(route)).expect_err("shared");
        assert!(error.to_string().contains("choose version 4.1"), "{error}");
        assert!(mounting().is_free(&[by_name], None).is_ok(), "of a tree no address is known");
        let old = mount("/home", "10.0.0.1:/home", "nfs4", "vers=4.1,proto=tcp");
        assert!(mounting().is_free(&[old], None).is_ok(), "another version has its own");
    }

    #[test]
    fn what_is_mounted_there_already_is_in_the_way_unless_it_is_the_same() {
        let other = mount("/mnt/data", "/dev/sda1", "ext4", "rw");
        let error = mounting().is_free(&[other], None).expect_err("taken").to_string();
        assert!(error.contains("/dev/sda1 (ext4) is mounted there"), "{error}");
        let same = mount("/mnt/data", "10.0.0.1:/data", "nfs4", "vers=4.2,proto=rdma");
        assert!(mounting().is_free(&[same], None).is_ok());
    }
}
