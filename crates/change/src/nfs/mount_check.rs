//! Whether a mount uses RDMA: from the kernel's mount table, and the connection itself.

use std::net::{IpAddr, SocketAddr};

use node::queries::CmId;
use node::{Mount, Node};
use serde::Serialize;

use super::{MODULE, PORT, Refusal};

/// The facts of a mount, and whether it uses RDMA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountCheck {
    /// The mount point.
    pub mountpoint: String,
    /// `10.0.0.1:/data`.
    pub source: String,
    /// NFS's version.
    pub version: Option<String>,
    /// `rdma`, `tcp`.
    pub proto: String,
    /// The server.
    pub server: Option<IpAddr>,
    /// Its port for RDMA.
    pub port: u16,
    /// The RDMA connections to it; `None`: not known.
    pub connections: Option<Vec<CmId>>,
    /// Why it is not RDMA, if it is not.
    pub why_not: Option<String>,
}

impl MountCheck {
    /// Checks the mount that contains a path.
    pub fn of(
        mounts: &[Mount],
        path: &str,
        cm_ids: Option<Vec<CmId>>,
        node: &Node,
    ) -> Result<MountCheck, Refusal> {
        let mount = Mount::containing(mounts, path).ok_or_else(|| {
            Refusal(format!("{path}: the mount table of this machine cannot be read"))
        })?;
        if !matches!(mount.kind.as_str(), "nfs" | "nfs4") {
            return Err(Refusal(format!(
                "{path} is not on NFS: it is on {} ({}), mounted at {}; `wirelane nfs client apply HOST:/DIR {path}` mounts \
                 over RDMA",
                mount.source, mount.kind, mount.point
            )));
        }
        let server = mount.option("addr").and_then(|address| address.parse().ok());
        let port = mount.option("port").and_then(|port| port.parse().ok()).unwrap_or(PORT);
        let proto = mount.option("proto").unwrap_or("unknown").to_owned();
        let ours = |id: &CmId| {
            let to = |peer: SocketAddr| Some(peer.ip()) == server && peer.port() == port;
            id.state == "CONNECT" && id.module.as_deref() == Some(MODULE) && id.peer.is_some_and(to)
        };
        let connections: Option<Vec<CmId>> =
            cm_ids.map(|ids| ids.into_iter().filter(ours).collect());
        let mut check = MountCheck {
            mountpoint: mount.point.clone(),
            source: mount.source.clone(),
            version: mount.option("vers").map(str::to_owned),
            proto,
            server,
            port,
            connections,
            why_not: None,
        };
        check.why_not = check.reason(mounts, node);
        Ok(check)
    }

    /// Why it does not use RDMA.
    fn reason(&self, mounts: &[Mount], node: &Node) -> Option<String> {
        let MountCheck { proto, mountpoint, .. } = self;
        if proto == "rdma" {
            let none = self.connections.as_ref().is_some_and(Vec::is_empty);
            let server = self.server.map_or_else(|| "its server".to_owned(), |ip| ip.to_string());
            return none.then(|| {
                format!(
                    "proto=rdma, but no RDMA connection to {server}, port {}, is open",
                    self.port
                )
            });
        }
        let before = mounts.iter().take_while(|mount| mount.point != *mountpoint).find(|mount| {
            mount.option("addr").and_then(|address| address.parse().ok()) == self.server
                && mount.option("vers") == self.version.as_deref()
                && mount.option("proto") == Some(proto)
        });
        Some(match before {
            _ if node.devices.is_empty() => format!("proto={proto}: there is no RDMA device here"),
            Some(before) => format!(
                "proto={proto}: {} of the same server and version was mounted first, and Linux uses one connection \
                 for both; unmount both, then mount with `wirelane nfs client apply`",
                before.point
            ),
            None => format!(
                "proto={proto}: it was mounted without the option rdma; unmount it, then `wirelane nfs client apply {} \
                 {mountpoint}`",
                self.source
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str, kind: &str, options: &str) -> Mount {
        Mount {
            point: point.to_owned(),
            kind: kind.to_owned(),
            source: "10.0.0.1:/data".to_owned(),
            on_disk: false,
            options: options.split(',').map(str::to_owned).collect(),
        }
    }

    fn node() -> Node {
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees/rxe.json");
        Node::read(&node::Tree::at(std::path::Path::new(tree)).expect("a tree"))
    }

    fn connection(peer: &str, module: Option<&str>) -> CmId {
        CmId {
            device: "rxe0".to_owned(),
            state: "CONNECT",
            pid: 0,
            module: module.map(str::to_owned),
            local: None,
            peer: peer.parse().ok(),
        }
    }

    #[test]
    fn rdma_is_proven_by_the_mount_and_its_connection() {
        let rdma = mount("/m", "nfs4", "vers=4.2,proto=rdma,port=20049,addr=10.0.0.1");
        let ids = vec![
            connection("10.0.0.1:20049", Some("rpcrdma")),
            connection("10.0.0.2:20049", Some("rpcrdma")),
            connection("10.0.0.1:20049", None),
        ];
        let check =
            MountCheck::of(std::slice::from_ref(&rdma), "/m/x", Some(ids), &node()).expect("NFS");
        assert_eq!(check.connections.as_ref().map(Vec::len), Some(1));
        assert_eq!((check.why_not.as_deref(), check.proto.as_str()), (None, "rdma"));
        let idle = MountCheck::of(std::slice::from_ref(&rdma), "/m", Some(Vec::new()), &node())
            .expect("NFS");
        assert!(
            idle.why_not.expect("a reason").contains("no RDMA connection to 10.0.0.1, port 20049")
        );
        let unknown = MountCheck::of(&[rdma], "/m", None, &node()).expect("NFS");
        assert_eq!(unknown.why_not, None, "unknown connections are no reason");
    }

    #[test]
    fn tcp_is_reported_with_its_reason() {
        let tcp = mount("/m", "nfs4", "vers=4.2,proto=tcp,addr=10.0.0.1");
        let reason = |mounts: &[Mount]| {
            MountCheck::of(mounts, "/m", None, &node()).expect("NFS").why_not.expect("a reason")
        };
        assert!(reason(std::slice::from_ref(&tcp)).contains("without the option rdma"));
        let first = mount("/first", "nfs4", "vers=4.2,proto=tcp,addr=10.0.0.1");
        assert!(reason(&[first, tcp.clone()]).contains("/first of the same server"));
        let bare = Node { devices: Vec::new(), ..node() };
        let check = MountCheck::of(&[tcp], "/m", None, &bare).expect("NFS");
        assert!(check.why_not.expect("a reason").contains("no RDMA device"));
    }

    #[test]
    fn a_mount_that_is_not_nfs_is_refused() {
        let error =
            MountCheck::of(&[mount("/", "ext4", "rw")], "/m", None, &node()).expect_err("no NFS");
        assert!(error.to_string().starts_with("/m is not on NFS: it is on"), "{error}");
    }
}
