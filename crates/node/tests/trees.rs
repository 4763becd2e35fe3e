//! Facts of the trees in `trees/`, which can be checked in their files.
#![allow(clippy::disallowed_methods, reason = "a test creates the files that it reads")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use node::counters::statistic;
use node::sampling::{self, NicSampler, Usage};
use node::{Address, Counter, Distance, GidType, LinkLayer, Node, PortState, Reading, Role, Tree};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees")
}

fn node(name: &str) -> Node {
    let tree = Tree::at(&folder().join(format!("{name}.json"))).expect("a tree");
    Node::read(&tree)
}

fn address(text: &str) -> Address {
    Address::parse(text).expect("an address")
}

fn drivers(node: &Node) -> Vec<&str> {
    node.devices.iter().filter_map(|device| device.driver.as_deref()).collect()
}

#[test]
fn every_tree_is_read() {
    let mut read = 0;
    for entry in std::fs::read_dir(folder()).expect("trees") {
        let path = entry.expect("a name").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let tree = Tree::at(&path).unwrap_or_else(|error| panic!("{error}"));
            let node = Node::read(&tree);
            assert!(!node.netdevs.is_empty(), "{} has no net device", path.display());
            read += 1;
        }
    }
    assert!(read > 20, "{read} trees");
}

#[test]
fn a_snapshot_of_a_tree_has_the_same_facts() {
    for name in ["ndr8", "pod", "hfi1", "rxe", "restricted-pf"] {
        let tree = Tree::at(&folder().join(format!("{name}.json"))).expect("a tree");
        let first = serde_json::to_value(Node::read(&tree)).expect("JSON");
        let copy = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(copy.path(), tree.snapshot(&node::About::default()).expect("a snapshot"))
            .expect("is written");
        let again = Tree::at(copy.path()).expect("the copy");
        assert_eq!(first, serde_json::to_value(Node::read(&again)).expect("JSON"), "{name}");
    }
}

#[test]
fn the_cable_is_in_port_2() {
    let node = node("cx3-port2");
    let [device] = &node.devices[..] else { panic!("{:?}", node.devices) };
    let [down, up] = &device.ports[..] else { panic!("{:?}", device.ports) };
    assert_eq!(down.state, Reading::Value(PortState::Down));
    assert!(up.is_active() && up.lid == Reading::Value(0x3a4));
    assert_eq!((down.netdev.as_deref(), up.netdev.as_deref()), (Some("ib0"), Some("ib1")));
    assert_eq!(up.active_mtu, None, "no file has it on InfiniBand");
}

#[test]
fn two_net_devices_of_one_function_are_assigned_to_their_ports() {
    for (tree, mbps) in [("cx3-40g", 40_000), ("cx3-10g", 10_000)] {
        let node = node(tree);
        let ports = &node.devices[0].ports;
        assert_eq!(ports[0].netdev.as_deref(), Some("enp3s0"), "of a port with no GID");
        assert_eq!(ports[1].netdev.as_deref(), Some("enp3s0d1"));
        assert_eq!(ports[1].rate.value().map(|rate| rate.mbps), Some(mbps));
    }
}

#[test]
fn gids_and_mtu_of_roce() {
    let roce = node("mlx5-roce");
    let port = &roce.devices[0].ports[0];
    let gids: Vec<_> = port.gids.iter().map(|gid| (gid.index, gid.kind.clone())).collect();
    let (v1, v2) = (Reading::Value(GidType::IbOrRoceV1), Reading::Value(GidType::RoceV2));
    assert_eq!(gids, [(0, v1.clone()), (1, v2.clone()), (2, v1), (3, v2)]);
    assert_eq!(port.gids[3].ipv4(), Some([200, 0, 209, 6].into()));
    assert_eq!(port.gid_table_len, 16);
    assert_eq!(port.active_mtu, Some(4096));
    let netdev = roce.netdev("ens1np0").expect("its net device");
    assert!(netdev.ips.contains(&([200, 0, 209, 6].into(), 24)));
    assert_eq!(node("mtu").devices[0].ports[0].active_mtu, Some(1024));
}

#[test]
fn eight_gpus_are_one_switch_from_their_nics() {
    let node = node("ndr8");
    assert_eq!((node.devices.len(), node.gpus.len()), (9, 8), "a display controller is not a GPU");
    let nic = |number: usize| node.devices[number].pci.expect("a NIC");
    for (number, gpu) in node.gpus.iter().enumerate() {
        assert_eq!(node.distance(gpu.pci, nic(number)), Distance::OneSwitch);
    }
    assert_eq!(node.distance(node.gpus[0].pci, nic(1)), Distance::NumaNode);
    assert_eq!(node.distance(node.gpus[0].pci, nic(4)), Distance::System);
    let function = &node.pci[&nic(0)];
    let above: Vec<String> = function.above.iter().map(ToString::to_string).collect();
    assert_eq!(above, ["0000:17:00.0", "0000:16:00.0", "0000:15:01.0"]);
    assert!(function.product_name.as_ref().is_some_and(|name| name == "ConnectX-7"));
    assert_eq!(function.max_read_request, Some(4096));
    assert_eq!(
        function.iommu_group.as_ref().map(|group| &node.iommu.groups[group]),
        Some(&Reading::Value("identity".to_owned()))
    );
}

#[test]
fn gpus_of_a_virtual_machine_share_a_host_bridge_with_their_nic() {
    let node = node("efa");
    assert_eq!(drivers(&node), ["efa"; 4]);
    let nic = node.devices[0].pci.expect("a NIC");
    assert_eq!(node.distance(node.gpus[1].pci, nic), Distance::HostBridge);
    let port = &node.devices[0].ports[0];
    assert_eq!(port.link_layer, Reading::Value(LinkLayer::Unknown));
    assert!(port.counters.iter().all(|counter| counter.known().is_some()));
    assert_eq!(node.devices[0].counters.len(), 12);
}

#[test]
fn an_efa_device_is_found_with_and_without_a_driver() {
    assert_eq!(node("efa").pci.values().filter(|function| function.is_efa()).count(), 4);
    let json = r#"{
        "format": "wirelane snapshot 1",
        "files": {
            "/sys/devices/pci0000:00/0000:00:05.0/vendor": "0x1d0f\n",
            "/sys/devices/pci0000:00/0000:00:05.0/device": "0xec20\n",
            "/sys/devices/pci0000:00/0000:00:06.0/vendor": "0x1d0f\n",
            "/sys/devices/pci0000:00/0000:00:06.0/device": "0xefa2\n"
        },
        "links": {
            "/sys/bus/pci/devices/0000:00:05.0": "/sys/devices/pci0000:00/0000:00:05.0",
            "/sys/bus/pci/devices/0000:00:06.0": "/sys/devices/pci0000:00/0000:00:06.0"
        }
    }"#;
    let node = Node::read(&Tree::parse(json.as_bytes()).expect("a tree"));
    let [function] = &node.pci.values().collect::<Vec<_>>()[..] else { panic!("{:?}", node.pci) };
    assert!(function.is_efa() && function.driver.is_none(), "{function:?}");
    assert_eq!(function.address, address("0000:00:06.0"));
}

#[test]
fn missing_and_odd_counters_are_not_zero() {
    let bnxt = node("bnxt");
    let port = &bnxt.devices[0].ports[0];
    assert_eq!(port.counter("port_rcv_data"), None);
    assert_eq!(
        port.counter("rx_bytes").map(|counter| &counter.value),
        Some(&Reading::Value(812_366_123))
    );
    let irdma = node("irdma");
    let counter = irdma.devices[0].ports[0].counter("port_rcv_data").expect("a file");
    assert_eq!(counter.value, Reading::Invalid("N/A (no PMA)".to_owned()));
    let restricted = node("restricted-pf");
    let port = &restricted.device("mlx5_2").expect("the third").ports[0];
    assert!(port.counters.iter().all(|counter| counter.value == Reading::Refused(22)));
    let saturated = node("saturated");
    let full =
        saturated.devices[0].ports[0].counters.iter().filter(|counter| counter.is_saturated());
    let full: Vec<&str> = full.map(|counter| counter.name.as_str()).collect();
    assert_eq!(full, ["port_rcv_data", "port_xmit_data", "port_xmit_wait", "symbol_error"]);
}

#[test]
fn counters_with_unusual_names_are_read() {
    let node = node("hfi1");
    let port = &node.devices[0].ports[0];
    assert_eq!(
        port.counter("CceMiscInt,32").map(|counter| &counter.value),
        Some(&Reading::Value(3))
    );
    assert!(port.counter("Pio Reserved 30").is_some() && port.counter("lifespan").is_none());
    assert_eq!(port.pkeys, [0x8001, 0xffff]);
}

#[test]
fn a_pod_has_its_own_function() {
    let node = node("pod");
    let own = node.device("mlx5_4").expect("its own");
    assert_eq!(own.role, Role::Virtual { of: address("0000:3b:00.0"), number: Some(4) });
    assert_eq!(own.uverbs.as_deref(), Some("uverbs4"));
    assert_eq!(own.ports[0].netdev.as_deref(), Some("net1"));
    let other = node.device("mlx5_0").expect("the host's");
    assert_eq!(other.role, Role::Physical { vfs: Some(6), vfs_max: Some(8) });
    assert!(other.ports[0].gids.iter().all(|gid| gid.kind == Reading::Refused(22)));
    assert_eq!(other.ports[0].netdev, None);
    let nodes: Vec<&str> = node.char_devices.iter().map(|device| device.path.as_str()).collect();
    assert_eq!(nodes, ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs4"]);
    assert_eq!(node.host.container.as_deref(), Some("kubernetes"));
}

#[test]
fn software_has_no_nic() {
    for (name, driver) in [("rxe", "rxe"), ("siw", "siw")] {
        let node = node(name);
        let device = &node.devices[0];
        assert_eq!((device.driver.as_deref(), &device.role), (Some(driver), &Role::Software));
        assert_eq!((device.pci, device.firmware.is_absent()), (None, true));
        assert_eq!(device.ports[0].netdev.as_deref(), Some("eth0"));
    }
    assert_eq!(node("rxe").devices[0].ports[0].active_mtu, Some(4096));
    assert_eq!(node("siw").devices[0].ports[0].active_mtu, None, "iWARP has none");
}

#[test]
fn access_control_and_narrow_links_are_read_at_their_hop() {
    let iommu = node("iommu");
    let downstream = &iommu.pci[&address("0000:17:00.0")];
    assert!(downstream.acs.value().is_some_and(|acs| acs.request_redirect));
    let narrow = node("pcie-narrow");
    let link = &narrow.pci[&address("0000:a8:00.0")].link;
    assert_eq!((link.width, link.max_width), (Some(8), Some(16)));
    let user = node("memlock");
    let nic = user.devices[0].pci.expect("a NIC");
    assert_eq!(user.pci[&nic].acs, Reading::Refused(13), "only root may read all of it");
    assert_eq!(user.process.memlock.and_then(|limit| limit.soft), Some(65536));
}

#[test]
fn a_machine_without_rdma_has_no_device() {
    let node = node("empty");
    assert!(node.devices.is_empty() && node.gpus.is_empty());
    assert_eq!(node.netdevs.len(), 2);
}

#[test]
fn every_net_device_statistic_of_the_trees_is_known() {
    for (name, netdev, priority) in [
        ("mlx5-roce", "ens1np0", "rx_prio3_pause"),
        ("bnxt", "ens2f0np0", "rx_pfc_ena_frames_pri3"),
    ] {
        let tree = Tree::at(&folder().join(format!("{name}.json"))).expect("a tree");
        let counts = NicSampler::new().sample(&tree, netdev, Instant::now());
        assert!(
            counts.iter().any(|known| known.name == priority && known.number() > Some(0)),
            "{counts:?}"
        );
        let mut series = BTreeSet::new();
        for Counter { name, .. } in counts {
            let (statistic, labels) = statistic(&name).unwrap_or_else(|| panic!("{name}"));
            assert!(series.insert((statistic.row.name(), labels)), "duplicate {name}");
        }
    }
}

#[test]
fn usage_and_process_resources_of_a_tree() {
    let tree = Tree::at(&folder().join("ndr8.json")).expect("a tree");
    let usage = Usage::read(&tree);
    assert!(usage.load1.is_some_and(|load| load > 1.0) && usage.cpu_seconds.len() == 8);
    assert!(usage.memory_bytes["locked"] > 0 && usage.memory_bytes.contains_key("available"));
    let process_resources = sampling::process_resources(&tree).expect("an answer").list;
    let pods: BTreeSet<_> =
        process_resources.iter().filter_map(|process| process.pod.as_deref()).collect();
    assert_eq!(
        (process_resources.len(), process_resources[0].resources["qp"], pods.len()),
        (6, 56, 1)
    );
    let gpus = &tree.query_results().nvml().expect("an answer").gpus;
    for gpu in gpus {
        let reading = &gpu.reading;
        assert_eq!(Some(reading.nvlinks.len() as u32), gpu.nvlinks);
        assert_eq!(reading.throttle.len(), 9, "every reason, active or not");
        assert!(reading.power_mw < reading.power_limit_mw);
    }
}
