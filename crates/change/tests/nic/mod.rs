//! A machine with one RoCE NIC, as a snapshot.

use node::Tree;
use serde_json::{Value, json};

pub(crate) const NIC: &str = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

/// These files, the files of the NIC in its folder, and the links to it.
pub(crate) fn snapshot(mut files: Value, nic: &Value) -> Value {
    let of_nic = json!({
        "vendor": "0x15b3\n", "device": "0x1017\n",
        "net/eth0/type": "1\n", "net/eth0/mtu": "1500\n", "net/eth0/dev_port": "0\n",
        "infiniband/mlx5_0/node_type": "1: CA\n",
        "infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
        "infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
        "infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0": "eth0\n",
    });
    for of_nic in [&of_nic, nic] {
        for (name, text) in of_nic.as_object().expect("files") {
            files[format!("{NIC}/{name}")] = text.clone();
        }
    }
    json!({
        "format": "wirelane snapshot 1",
        "files": files,
        "links": {
            "/sys/class/infiniband/mlx5_0": format!("{NIC}/infiniband/mlx5_0"),
            "/sys/class/net/eth0": format!("{NIC}/net/eth0"),
            "/sys/bus/pci/devices/0000:3b:00.0": NIC,
            format!("{NIC}/infiniband/mlx5_0/device"): NIC,
            format!("{NIC}/net/eth0/device"): NIC,
        },
    })
}

pub(crate) fn tree(snapshot: &Value) -> Tree {
    Tree::parse(snapshot.to_string().as_bytes()).expect("a snapshot")
}
