//! Hosts for tests: a few files, as a snapshot.

use std::collections::BTreeMap;

use node::Tree;
use serde_json::{Value, json};

/// A machine with these files only. A path that ends in `->` is a link, and a path in `/dev` is a node.
pub(super) fn tree(files: Value) -> Tree {
    let (mut plain, mut links, mut nodes) = (json!({}), json!({}), json!({}));
    for (path, value) in files.as_object().expect("an object of files") {
        if let Some(path) = path.strip_suffix("->") {
            links[path] = value.clone();
        } else if path.starts_with("/dev/") {
            nodes[path] = value.clone();
        } else {
            plain[path] = value.clone();
        }
    }
    snapshot(json!({ "files": plain, "links": links, "nodes": nodes }))
}

pub(super) fn snapshot(mut snapshot: Value) -> Tree {
    snapshot["format"] = json!("wirelane snapshot 1");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), snapshot.to_string()).expect("written");
    Tree::at(file.path()).expect("a tree")
}

pub(super) fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A host with RDMA devices, built from files.
#[derive(Default)]
pub(super) struct Machine {
    files: Value,
    links: Value,
    nodes: Value,
    interfaces: Vec<Value>,
}

impl Machine {
    pub(super) fn file(mut self, path: &str, text: &str) -> Self {
        self.files[path] = json!(text);
        self
    }

    pub(super) fn link(mut self, path: &str, target: &str) -> Self {
        self.links[path] = json!(target);
        self
    }

    /// A device with an active port and its node, on the PCI function of its number in slot 3b.
    fn device(self, name: &str, number: u8, layer: &str) -> Self {
        let class = format!("/sys/class/infiniband/{name}");
        let pci = format!("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:02.{number}");
        let verbs = format!("/sys/class/infiniband_verbs/uverbs{number}/ibdev");
        let port = format!("{class}/ports/1");
        let mut machine = self
            .link(&format!("{class}/device"), &pci)
            .link(&format!("/sys/bus/pci/devices/0000:3b:02.{number}"), &pci)
            .file(&format!("{pci}/vendor"), "0x15b3\n")
            .file(&format!("{pci}/device"), "0x101e\n")
            .file(&format!("{pci}/infiniband/{name}/node_desc"), "x\n")
            .file(&format!("{class}/node_type"), "1: CA\n")
            .file(&verbs, name)
            .file(&format!("{port}/link_layer"), layer)
            .file(&format!("{port}/state"), "4: ACTIVE\n")
            .file(&format!("{port}/phys_state"), "5: LinkUp\n")
            .file(&format!("{port}/rate"), "100 Gb/sec (4X EDR)\n")
            .file(&format!("{port}/lid"), "0x0\n");
        let node = format!("/dev/infiniband/uverbs{number}");
        machine.nodes[node] =
            json!({ "mode": 0o20666, "uid": 0, "gid": 0, "major": 231, "minor": 192 });
        machine
    }

    pub(super) fn roce(self, name: &str, number: u8, netdev: &str) -> Self {
        let machine = self.device(name, number, "Ethernet");
        machine
            .file(&format!("/sys/class/net/{netdev}/type"), "1\n")
            .file(&format!("/sys/class/net/{netdev}/mtu"), "9000\n")
    }

    pub(super) fn infiniband(self, name: &str, number: u8) -> Self {
        let lid = format!("/sys/class/infiniband/{name}/ports/1/lid");
        self.device(name, number, "InfiniBand").file(&lid, "0x3a4\n")
    }

    pub(super) fn efa(self, name: &str, number: u8) -> Self {
        let node_type = format!("/sys/class/infiniband/{name}/node_type");
        self.device(name, number, "Unknown").file(&node_type, "7: unspecified\n")
    }

    pub(super) fn rate(self, device: &str, rate: &str) -> Self {
        self.file(&format!("/sys/class/infiniband/{device}/ports/1/rate"), rate)
    }

    /// An entry of the GID table; without a net device, one of another network namespace.
    pub(super) fn gid(
        mut self,
        device: &str,
        index: u32,
        gid: &str,
        kind: &str,
        netdev: Option<&str>,
    ) -> Self {
        let port = format!("/sys/class/infiniband/{device}/ports/1");
        let gid: std::net::Ipv6Addr = gid.parse().expect("a GID");
        let groups: Vec<String> =
            gid.segments().iter().map(|group| format!("{group:04x}")).collect();
        self.files[format!("{port}/gids/{index}")] = json!(groups.join(":"));
        let refused = || json!({ "refused": 22 });
        self.files[format!("{port}/gid_attrs/types/{index}")] =
            netdev.map_or_else(refused, |_| json!(kind));
        self.files[format!("{port}/gid_attrs/ndevs/{index}")] =
            netdev.map_or_else(refused, |name| json!(name));
        self
    }

    pub(super) fn address(mut self, netdev: &str, address: &str, prefix: u8) -> Self {
        let addresses = json!([{ "address": address, "prefix": prefix }]);
        self.interfaces.push(json!({ "name": netdev, "index": 7, "addresses": addresses }));
        self
    }

    /// Removes a file or node.
    pub(super) fn without(mut self, path: &str) -> Self {
        for kind in [&mut self.files, &mut self.nodes] {
            kind.as_object_mut().expect("an object").remove(path);
        }
        self
    }

    pub(super) fn tree(&self) -> Tree {
        let empty = |value: &Value| if value.is_null() { json!({}) } else { value.clone() };
        snapshot(json!({
            "files": empty(&self.files),
            "links": empty(&self.links),
            "nodes": empty(&self.nodes),
            "answers": { "interfaces": self.interfaces },
        }))
    }
}
