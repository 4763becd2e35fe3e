//! Setup plans for hosts of both distribution families.
#![allow(missing_docs, reason = "a test")]

mod nic;

use change::setup::{self, IpoibMode, Purpose, Refusal, SetupRequest};
use change::{PackageManager, Plan, State, Target};
use node::Node;
use serde_json::{Value, json};

use nic::{NIC, snapshot};

const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

/// A RoCE NIC with its net device down, on a system with this os-release.
fn machine(os_release: &str) -> Value {
    let files = json!({
        "/etc/os-release": os_release,
        "/proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
        "/sys/module/ib_uverbs/refcnt": "1\n",
    });
    let nic = json!({
        "net/eth0/flags": "0x1002\n",
        "infiniband/mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0000:00ff:fe00:0001\n",
        "infiniband/mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
        "infiniband/mlx5_0/ports/1/gids/1": "fe80:0000:0000:0000:0000:00ff:fe00:0001\n",
        "infiniband/mlx5_0/ports/1/gid_attrs/types/1": "RoCE v2\n",
        "infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1": "eth0\n",
    });
    snapshot(files, &nic)
}

fn debian() -> Value {
    machine("ID=debian\nVERSION_ID=\"12\"\n")
}

fn rocky() -> Value {
    machine("ID=\"rocky\"\nVERSION_ID=\"9.4\"\nID_LIKE=\"rhel centos fedora\"\n")
}

fn with(mut machine: Value, files: &[(&str, &str)]) -> Value {
    for (path, text) in files {
        machine["files"][*path] = json!(text);
    }
    machine
}

fn planned(snapshot: &Value, request: &SetupRequest) -> Result<Plan, Refusal> {
    let tree = nic::tree(snapshot);
    setup::plan(&Node::read(&tree), &tree, request)
}

/// A plan for an address.
fn addressed(snapshot: &Value, address: &str) -> Plan {
    let addresses = vec![address.parse().expect("an address")];
    let only = vec!["address".to_owned()];
    planned(snapshot, &SetupRequest { addresses, only, ..SetupRequest::of(Purpose::Rdma) })
        .expect("a plan")
}

fn names(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.change.target.name()).collect()
}

fn text(plan: &Plan, path: &str) -> String {
    let step = plan.steps.iter().find(|step| step.change.target.name() == path);
    match step.map(|step| &step.change.wanted) {
        Some(State::File { content, .. }) => String::from_utf8_lossy(content.bytes()).into_owned(),
        other => panic!("{path}: {other:?} of {:?}", names(plan)),
    }
}

fn packages(plan: &Plan) -> (PackageManager, Vec<String>) {
    let packages = plan.steps.iter().find_map(|step| match &step.change.target {
        Target::Packages { by, names, .. } => Some((*by, names.clone())),
        _ => None,
    });
    packages.expect("packages")
}

fn advice<'p>(plan: &'p Plan, item: &str) -> Vec<&'p str> {
    let advice = plan.advice.iter().filter(|advice| advice.item == item);
    advice.map(|advice| advice.why.as_str()).collect()
}

#[test]
fn a_roce_port_without_an_address_is_advised_to_get_one() {
    let advice = |machine: &Value, addresses: &[&str]| {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
        let request =
            SetupRequest { addresses: addresses.collect(), ..SetupRequest::of(Purpose::Mpi) };
        let plan = planned(machine, &request).expect("a plan");
        let commands = plan.advice.into_iter().flat_map(|advice| advice.commands);
        commands.filter(|command| command.contains("--address")).collect::<Vec<_>>()
    };
    let command = "wirelane setup mpi apply --address mlx5_0=ADDRESS/PREFIX";
    assert_eq!(advice(&debian(), &[]), [command]);
    assert_eq!(advice(&debian(), &["mlx5_0=10.0.0.1/24"]), Vec::<String>::new());
    assert_eq!(advice(&debian(), &["mlx5_0@7=10.0.0.1/24"]), Vec::<String>::new());
    let gid = format!("{NIC}/infiniband/mlx5_0/ports/1/gids/2");
    let has_address = with(debian(), &[(&gid, "0000:0000:0000:0000:0000:ffff:0a00:0001\n")]);
    assert_eq!(advice(&has_address, &[]), Vec::<String>::new());
}

#[test]
fn each_family_has_its_own_package_names() {
    let plan = planned(&debian(), &SetupRequest::of(Purpose::Mpi)).expect("a plan");
    let (by, names) = packages(&plan);
    assert_eq!(by, PackageManager::Apt);
    for name in ["rdma-core", "ibverbs-providers", "perftest", "openmpi-bin", "ucx-utils"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    let (by, names) =
        packages(&planned(&rocky(), &SetupRequest::of(Purpose::Mpi)).expect("a plan"));
    assert_eq!(by, PackageManager::Dnf);
    for name in ["rdma-core", "libibverbs-utils", "perftest", "openmpi", "ucx"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    let (_, names) =
        packages(&planned(&rocky(), &SetupRequest::of(Purpose::Rdma)).expect("a plan"));
    assert!(!names.iter().any(|name| name == "openmpi"), "only for MPI: {names:?}");
    assert!(!names.iter().any(|name| name == "infiniband-diags"), "there is none: {names:?}");
}

#[test]
fn modules_limits_and_mtu_are_those_of_tune() {
    let plan = planned(&debian(), &SetupRequest::of(Purpose::Rdma)).expect("a plan");
    for path in [
        "module rdma_ucm",
        "/etc/modules-load.d/wirelane.conf",
        "/etc/security/limits.d/90-wirelane-memlock.conf",
        "/etc/systemd/system.conf.d/90-wirelane-memlock.conf",
        "/sys/class/net/eth0/mtu",
        "/etc/udev/rules.d/90-wirelane-mtu-eth0.rules",
    ] {
        assert!(names(&plan).iter().any(|name| name == path), "{path}: {:?}", names(&plan));
    }
    let tuned = change::tune::plan;
    let tree = nic::tree(&debian());
    let choice = change::tune::Choice::default();
    let tuned = tuned(&Node::read(&tree), &tree, change::tune::Profile::Throughput, &choice);
    let tuned = tuned.expect("a plan");
    let limits = "/etc/security/limits.d/90-wirelane-memlock.conf";
    assert_eq!(text(&plan, limits), text(&tuned, limits), "both commands write the same file");
}

#[test]
fn a_host_without_a_nic_gets_packages_modules_and_limits() {
    let mut bare = debian();
    bare["links"] = json!({});
    let plan = planned(&bare, &SetupRequest::of(Purpose::Rdma)).expect("a plan");
    assert!(names(&plan).iter().any(|name| name == "module ib_uverbs"), "{:?}", names(&plan));
    assert!(names(&plan).iter().any(|name| name.starts_with("packages rdma-core ")));
    assert!(!names(&plan).iter().any(|name| name.contains("mtu")));
}

#[test]
fn networkd_gets_a_file_for_an_address() {
    let service = format!("{WANTS}/systemd-networkd.service");
    let vendor = "/etc/systemd/network/20-uplink.network";
    let machine = with(debian(), &[(&service, "x"), (vendor, "[Match]\nName=eno1\n")]);
    let plan = addressed(&machine, "mlx5_0=10.0.0.1/24");
    let file = "/etc/systemd/network/10-wirelane-eth0.network";
    assert_eq!(names(&plan), ["link eth0", "address 10.0.0.1/24 of eth0", file]);
    let kept = text(&plan, file);
    assert!(
        kept.contains("[Match]\nName=eth0\n") && kept.ends_with("Address=10.0.0.1/24\n"),
        "{kept}"
    );
    assert_eq!(plan.advice[0].commands, ["networkctl reload"]);

    let plan = addressed(&machine, "eth0@100=10.0.0.1/24");
    assert!(
        text(&plan, "/etc/systemd/network/10-wirelane-eth0.network").ends_with("VLAN=eth0.100\n")
    );
    let vlan = text(&plan, "/etc/systemd/network/10-wirelane-eth0.100.netdev");
    assert!(vlan.contains("Kind=vlan\n[VLAN]\nId=100\n"), "{vlan}");
    assert!(names(&plan).contains(&"net device eth0.100".to_owned()), "{:?}", names(&plan));
}

#[test]
fn network_manager_gets_a_keyfile_that_only_root_can_read() {
    let service = format!("{WANTS}/NetworkManager.service");
    let plan = addressed(&with(rocky(), &[(&service, "x")]), "mlx5_0:1=10.0.0.1/24");
    let file = "/etc/NetworkManager/system-connections/wirelane-eth0.nmconnection";
    let kept = text(&plan, file);
    assert!(kept.contains("type=ethernet\ninterface-name=eth0\n"), "{kept}");
    assert!(
        kept.contains("[ipv4]\nmethod=manual\nnever-default=true\naddress1=10.0.0.1/24\n"),
        "{kept}"
    );
    let step = plan.steps.last().expect("a step");
    assert!(matches!(step.change.wanted, State::File { mode: Some(0o600), .. }));
}

#[test]
fn ifupdown_gets_a_file_where_it_reads_interfaces_d() {
    let service = format!("{WANTS}/networking.service");
    let main = (
        "/etc/network/interfaces",
        "source /etc/network/interfaces.d/*\nauto lo\niface lo inet loopback\n",
    );
    let plan = addressed(&with(debian(), &[(&service, "x"), main]), "mlx5_0=fd00::1/64");
    let kept = text(&plan, "/etc/network/interfaces.d/wirelane-eth0");
    assert!(
        kept.ends_with("auto eth0\niface eth0 inet6 static\n    address fd00::1/64\n"),
        "{kept}"
    );

    let closed = with(debian(), &[(&service, "x"), ("/etc/network/interfaces", "auto lo\n")]);
    let plan = addressed(&closed, "mlx5_0=10.0.0.1/24");
    assert_eq!(
        names(&plan),
        ["link eth0", "address 10.0.0.1/24 of eth0"],
        "no file that is not read"
    );
    assert!(advice(&plan, "address")[0].contains("does not read the files of interfaces.d"));
}

#[test]
fn with_an_unknown_network_service_persistent_addresses_are_advice() {
    let both =
        [format!("{WANTS}/NetworkManager.service"), format!("{WANTS}/systemd-networkd.service")];
    let machine = with(debian(), &[(&both[0], "x"), (&both[1], "x")]);
    let plan = addressed(&machine, "mlx5_0=10.0.0.1/24");
    assert!(!names(&plan).iter().any(|name| name.starts_with('/')), "{:?}", names(&plan));
    assert!(advice(&plan, "address")[0].contains("are both in use here"), "{:?}", plan.advice);
    let netplan =
        with(debian(), &[("/etc/netplan/50-cloud-init.yaml", "network: {}\n"), (&both[1], "x")]);
    assert!(advice(&addressed(&netplan, "eth0=10.0.0.1/24"), "address")[0].contains("netplan"));
}

#[test]
fn a_device_with_other_settings_is_not_changed() {
    let cases = [
        (
            "systemd-networkd.service",
            "/etc/systemd/network/20-all.network",
            "[Match]\nName=en* eth*\n",
        ),
        (
            "NetworkManager.service",
            "/etc/NetworkManager/system-connections/fabric.nmconnection",
            "[connection]\ninterface-name=eth0\n",
        ),
        ("NetworkManager.service", "/etc/sysconfig/network-scripts/ifcfg-eth0", "DEVICE=eth0\n"),
        (
            "NetworkManager.service",
            "/etc/NetworkManager/conf.d/99-leave.conf",
            "[keyfile]\nunmanaged-devices=interface-name:eth*\n",
        ),
    ];
    for (service, file, content) in cases {
        let service = format!("{WANTS}/{service}");
        let plan =
            addressed(&with(rocky(), &[(&service, "x"), (file, content)]), "mlx5_0=10.0.0.1/24");
        assert!(plan.steps.is_empty(), "{file}: {:?}", names(&plan));
        assert!(advice(&plan, "address")[0].contains(file), "{:?}", plan.advice);
    }
}

#[test]
fn impossible_addresses_are_refused() {
    let refused = |machine: &Value, address: &str| {
        let addresses = vec![address.parse().expect("an address")];
        planned(machine, &SetupRequest { addresses, ..SetupRequest::of(Purpose::Rdma) })
    };
    let refusal = refused(&debian(), "mlx5_7=10.0.0.1/24").expect_err("no such device");
    assert!(
        matches!(&refusal, Refusal::WrongUse(text) if text.contains("RDMA devices: mlx5_0")),
        "{refusal}"
    );
    let mut taken = debian();
    taken["files"]["/sys/class/net/eth1/type"] = json!("1\n");
    taken["answers"] = json!({"interfaces": [
        {"name": "eth1", "index": 3, "addresses": [{"address": "10.0.0.1", "prefix": 24}]}]});
    let refusal = refused(&taken, "mlx5_0=10.0.0.1/24").expect_err("another's");
    assert!(refusal.to_string().contains("eth1 already has this address"), "{refusal}");
    let mut bridged = debian();
    bridged["files"]["/sys/class/net/br0/type"] = json!("1\n");
    bridged["links"][format!("{NIC}/net/eth0/master")] = json!("/sys/class/net/br0");
    let refusal = refused(&bridged, "mlx5_0=10.0.0.1/24").expect_err("a bridge's");
    assert!(refusal.to_string().contains("name that one"), "{refusal}");
}

#[test]
fn connections_over_roce_v1_are_set_to_v2() {
    let file = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode";
    let request = SetupRequest { only: vec!["roce".to_owned()], ..SetupRequest::of(Purpose::Rdma) };
    let plan = planned(&with(debian(), &[(file, "IB/RoCE v1\n")]), &request).expect("a plan");
    assert_eq!(plan.steps[0].change.wanted, State::all("RoCE v2", 1));
    assert!(advice(&plan, "roce")[0].contains("something on this machine sets v1"));
    let plan = planned(&with(debian(), &[(file, "RoCE v2\n")]), &request).expect("a plan");
    assert!(plan.steps.is_empty() && plan.advice.is_empty());
    assert!(
        planned(&debian(), &request).expect("a plan").advice.is_empty(),
        "the default of new kernels"
    );
    let old = with(debian(), &[("/proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64\n")]);
    let plan = planned(&old, &request).expect("a plan");
    assert_eq!(plan.advice[0].commands, ["cma_roce_mode -d mlx5_0 -p 1 -m 2"]);
}

#[test]
fn the_mtu_of_ipoib_follows_its_mode() {
    let ipoib = with(
        rocky(),
        &[
            ("/sys/class/net/ib0/type", "32\n"),
            ("/sys/class/net/ib0/mode", "connected\n"),
            ("/sys/class/net/ib0/mtu", "65520\n"),
        ],
    );
    let request = |mode| SetupRequest {
        ipoib: Some(mode),
        only: vec!["ipoib".to_owned()],
        ..SetupRequest::of(Purpose::Rdma)
    };
    let plan = planned(&ipoib, &request(IpoibMode::Datagram)).expect("a plan");
    let rule = "/etc/udev/rules.d/90-wirelane-ipoib-ib0.rules";
    assert_eq!(names(&plan), ["/sys/class/net/ib0/mtu", "/sys/class/net/ib0/mode", rule]);
    assert!(text(&plan, rule).contains("ATTR{mode}=\"datagram\", ATTR{mtu}=\"2044\""));
    assert!(planned(&ipoib, &request(IpoibMode::Connected)).expect("a plan").steps.is_empty());
    let refusal = planned(&debian(), &request(IpoibMode::Connected)).expect_err("no IPoIB");
    assert!(matches!(refusal, Refusal::WrongUse(_)), "{refusal}");
}

#[test]
fn device_nodes_of_root_are_given_to_the_group() {
    let nodes = |groups: &str| {
        let mut machine = with(debian(), &[("/etc/group", groups)]);
        machine["nodes"]["/dev/infiniband/uverbs0"] =
            json!({"mode": 0o20_600, "uid": 0, "gid": 0, "major": 231, "minor": 192});
        machine["folders"]["/dev/infiniband"] = json!(["uverbs0"]);
        planned(
            &machine,
            &SetupRequest {
                only: vec!["permissions".to_owned()],
                ..SetupRequest::of(Purpose::Rdma)
            },
        )
        .expect("a plan")
    };
    let plan = nodes("root:x:0:\nrdma:x:110:\n");
    let rule = text(&plan, "/etc/udev/rules.d/90-wirelane-rdma-group.rules");
    assert!(
        rule.contains("SUBSYSTEM==\"infiniband_verbs\", GROUP=\"rdma\", MODE=\"0660\""),
        "{rule}"
    );
    let plan = nodes("root:x:0:\n");
    assert!(plan.steps.is_empty());
    assert_eq!(plan.advice[0].commands[0], "groupadd --system rdma");
}

#[test]
fn firewall_advice_uses_the_commands_of_the_service_in_use() {
    let request =
        SetupRequest { only: vec!["firewall".to_owned()], ..SetupRequest::of(Purpose::Rdma) };
    let service = format!("{WANTS}/firewalld.service");
    let plan = planned(&with(rocky(), &[(&service, "x")]), &request).expect("a plan");
    assert!(plan.steps.is_empty());
    assert!(plan.advice[0].commands[0].starts_with("firewall-cmd --permanent --zone=trusted"));
    let plan = planned(&with(debian(), &[("/etc/ufw/ufw.conf", "ENABLED=yes\n")]), &request)
        .expect("a plan");
    assert!(plan.advice[0].commands[0].starts_with("ufw allow from"), "{:?}", plan.advice);
    let mut open = debian();
    open["answers"] =
        json!({"firewall": {"program": "nft", "readable": true, "drops_by_default": false}});
    assert!(planned(&open, &request).expect("a plan").advice.is_empty());
}

#[test]
fn unknown_systems_and_items_are_refused() {
    let refusal =
        planned(&machine("ID=arch\n"), &SetupRequest::of(Purpose::Rdma)).expect_err("unknown");
    assert!(
        matches!(&refusal, Refusal::UnknownSystem(text) if text.contains("\"arch\"")),
        "{refusal}"
    );
    let request =
        SetupRequest { only: vec!["speed".to_owned()], ..SetupRequest::of(Purpose::Rdma) };
    let refusal = planned(&debian(), &request).expect_err("no such item");
    assert!(
        matches!(&refusal, Refusal::WrongUse(text) if text.contains("items: packages, ")),
        "{refusal}"
    );
}
