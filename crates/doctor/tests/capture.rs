//! The method to capture packets of a device.
#![allow(clippy::disallowed_methods, reason = "a test creates the files that it reads")]
#![allow(missing_docs, reason = "a test")]

use doctor::capture::{Method, Tools, choose};
use node::{Node, Tree};
use serde_json::{Value, json};

/// A machine with one device of this driver and link layer; rxe and siw are software.
fn node(driver: &str, link_layer: &str) -> Node {
    let software = matches!(driver, "rxe" | "siw");
    let folder = match software {
        true => "/sys/devices/virtual/infiniband/dev0".to_owned(),
        false => "/sys/devices/pci0000:00/0000:00:01.0/infiniband/dev0".to_owned(),
    };
    let node_type = if driver == "siw" { "4: RNIC\n" } else { "1: CA\n" };
    let mut files = json!({
        format!("{folder}/node_type"): node_type,
        "/sys/devices/virtual/net/v0/type": "1\n",
        "/sys/devices/virtual/net/v0/mtu": "9000\n",
    });
    for (port, state) in [(1, "1: DOWN\n"), (2, "4: ACTIVE\n")] {
        let port = format!("{folder}/ports/{port}");
        files[format!("{port}/state")] = json!(state);
        files[format!("{port}/link_layer")] = json!(format!("{link_layer}\n"));
        files[format!("{port}/gids/0")] = json!("fe80:0000:0000:0000:0000:0000:0000:0001\n");
        files[format!("{port}/gid_attrs/ndevs/0")] = json!("v0\n");
    }
    if driver == "rxe" {
        files[format!("{folder}/parent")] = json!("v0\n");
    }
    let mut links = json!({
        "/sys/class/infiniband/dev0": folder,
        "/sys/class/net/v0": "/sys/devices/virtual/net/v0",
    });
    if !software {
        let nic = "/sys/devices/pci0000:00/0000:00:01.0";
        links[format!("{folder}/device")] = json!(nic);
        links["/sys/bus/pci/devices/0000:00:01.0"] = json!(nic);
        links[format!("{nic}/driver")] = json!(format!("/sys/bus/pci/drivers/{driver}"));
        files[format!("/sys/bus/pci/drivers/{driver}/uevent")] = json!("");
    }
    read(&json!({"format": "wirelane snapshot 1", "files": files, "links": links}))
}

fn read(snapshot: &Value) -> Node {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), snapshot.to_string()).expect("a file");
    Node::read(&Tree::at(file.path()).expect("a snapshot"))
}

fn method(driver: &str, link_layer: &str, tools: Tools) -> Result<Method, String> {
    let node = node(driver, link_layer);
    let port = choose(&node, None, None).expect("a port");
    assert_eq!(port.port.number, 2, "the active one");
    Method::new(port, tools).map_err(|refusal| refusal.to_string())
}

const NONE: Tools = Tools { ibdump: false, sniffer: false };
const BOTH: Tools = Tools { ibdump: true, sniffer: true };

#[test]
fn software_devices_are_captured_on_their_net_device() {
    let expected = |iwarp| Ok(Method::NetDevice { netdev: "v0".into(), iwarp });
    assert_eq!(method("rxe", "Ethernet", NONE), expected(false));
    assert_eq!(method("siw", "Ethernet", BOTH), expected(true));
}

#[test]
fn mellanox_nics_are_captured_by_ibdump_and_others_by_the_sniffer() {
    let command = |method: Result<Method, String>| match method {
        Ok(Method::Program { program, arguments }) => format!("{program} {}", arguments.join(" ")),
        other => panic!("{other:?}"),
    };
    let ibdump = "ibdump -d dev0 -i 2 -s -w -";
    assert_eq!(command(method("mlx5_core", "InfiniBand", BOTH)), ibdump);
    assert_eq!(command(method("mlx4_core", "Ethernet", BOTH)), ibdump);
    let sniffer = Tools { ibdump: false, sniffer: true };
    let tcpdump = "tcpdump -i dev0 -U -w - udp port 4791";
    assert_eq!(command(method("mlx5_core", "Ethernet", sniffer)), tcpdump);
    assert_eq!(command(method("bnxt_re", "Ethernet", BOTH)), tcpdump);
}

#[test]
fn refusals_have_reason_and_fix() {
    let why = |driver, layer, tools| method(driver, layer, tools).expect_err("no method");
    let bypass = why("mlx5_core", "Ethernet", NONE);
    assert!(bypass.contains("bypass the kernel") && bypass.contains("ibdump"), "{bypass}");
    assert!(why("mlx5_core", "InfiniBand", NONE).contains("ibdump"));
    assert!(why("irdma", "Ethernet", NONE).contains("tcpdump"));
    let efa = why("efa", "Unknown", BOTH);
    assert!(efa.contains("EFA") && efa.contains("counters"), "{efa}");
}

#[test]
fn unknown_names_are_refused_with_the_existing_ones() {
    let node = node("rxe", "Ethernet");
    let why = |device, port| choose(&node, device, port).expect_err("no port").to_string();
    assert_eq!(why(Some("mlx5_0"), None), "no RDMA device \"mlx5_0\"; devices: dev0");
    assert_eq!(why(Some("dev0"), Some(3)), "dev0 has no port 3");
    assert_eq!(choose(&node, Some("dev0"), Some(1)).expect("a port").port.number, 1);
    let empty = read(&json!({"format": "wirelane snapshot 1", "files": {}}));
    let nothing = choose(&empty, None, None).expect_err("nothing").to_string();
    assert_eq!(nothing, "no RDMA device found");
}
