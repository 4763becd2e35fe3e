//! Tuning plans of several machines.
#![allow(missing_docs, reason = "a test")]

mod nic;

use change::tune::{self, Choice, Profile};
use change::{Change, Plan, Reader, State, StepStatus, Target};
use node::Node;
use serde_json::{Value, json};

use nic::{NIC, snapshot, tree};

/// Two NUMA nodes, and a RoCE NIC with the default MTU on the second one.
fn machine() -> Value {
    let mut config = [0u8; 256];
    config[0x34] = 0x60;
    config[0x60] = 0x10;
    config[0x68..0x6a].copy_from_slice(&[0x3f, 0x29]);
    let config: String = config.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut files = json!({
        "/proc/meminfo": "MemTotal:       131072000 kB\n",
        "/proc/sys/net/core/rmem_max": "212992\n",
        "/proc/sys/net/core/wmem_max": "268435456\n",
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "/proc/sys/vm/zone_reclaim_mode": "1\n",
        "/proc/sys/vm/nr_hugepages": "0\n",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
        "/sys/devices/system/node/node0/cpulist": "0-1\n",
        "/sys/devices/system/node/node1/cpulist": "2-3\n",
        "/sys/devices/system/cpu/online": "0-3\n",
        "/proc/irq/40/smp_affinity_list": "0-3\n",
        "/proc/irq/41/smp_affinity_list": "3\n",
        "/sys/module/ib_uverbs/refcnt": "1\n",
    });
    let nic = json!({
        "local_cpulist": "2-3\n", "numa_node": "1\n",
        "config": {"hex": config}, "msi_irqs/40": "msix\n", "msi_irqs/41": "msix\n",
        "sriov_numvfs": "0\n", "sriov_totalvfs": "8\n",
        "infiniband/mlx5_0/ports/1/gids/0": "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
        "infiniband/mlx5_0/ports/1/gid_attrs/types/0": "RoCE v2\n",
    });
    for cpu in 0..4 {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        files[format!("{folder}/cpufreq/scaling_governor")] = json!("powersave\n");
        for (state, latency) in [("state1", "2\n"), ("state3", "133\n")] {
            files[format!("{folder}/cpuidle/{state}/latency")] = json!(latency);
            files[format!("{folder}/cpuidle/{state}/disable")] = json!("0\n");
        }
    }
    let mut machine = snapshot(files, &nic);
    machine["links"][format!("{NIC}/driver")] = json!("../../../../../bus/pci/drivers/mlx5_core");
    machine["answers"] = json!({"ethtool": {"eth0": {
        "rings": {"rx": 1024, "rx_max": 8192, "tx": 1024, "tx_max": 8192},
        "coalescing": {"rx_usecs": 8, "tx_usecs": 8, "adaptive_rx": true, "adaptive_tx": true},
    }}});
    machine
}

fn planned(snapshot: &Value, profile: Profile, choice: &Choice) -> Plan {
    let tree = tree(snapshot);
    tune::plan(&Node::read(&tree), &tree, profile, choice).expect("a plan")
}

/// The wanted state of the target with this name.
fn wanted<'p>(plan: &'p Plan, name: &str) -> Option<&'p State> {
    let step = plan.steps.iter().find(|step| step.change.target.name() == name);
    step.map(|step| &step.change.wanted)
}

fn has_line(plan: &Plan, path: &str, line: &str) -> bool {
    let Some(State::File { content, .. }) = wanted(plan, path) else { return false };
    String::from_utf8_lossy(content.bytes()).lines().any(|known| known == line)
}

fn items(plan: &Plan) -> Vec<&str> {
    let mut items: Vec<&str> = plan.steps.iter().map(|step| step.item.as_str()).collect();
    items.dedup();
    items
}

#[test]
fn the_throughput_profile_raises_mtu_rings_and_read_requests() {
    let plan = planned(&machine(), Profile::Throughput, &Choice::default());
    assert_eq!(
        items(&plan),
        [
            "modules",
            "memlock",
            "hugepages",
            "sysctl",
            "governor",
            "mtu",
            "rings",
            "interrupts",
            "read-request"
        ]
    );
    let one = |value: &str| Some(State::all(value, 1));
    assert_eq!(wanted(&plan, "/sys/class/net/eth0/mtu").cloned(), one("9000"));
    let rings = State::Values(vec![Some("8192".into()), Some("8192".into())]);
    assert_eq!(wanted(&plan, "rings of eth0"), Some(&rings));
    assert_eq!(wanted(&plan, "largest read request of 0000:3b:00.0").cloned(), one("4096"));
    assert_eq!(wanted(&plan, "/proc/sys/vm/nr_hugepages").cloned(), one("512"));
    assert_eq!(wanted(&plan, "/proc/sys/net/core/rmem_max").cloned(), one("67108864"));
    assert_eq!(wanted(&plan, "/proc/sys/net/core/wmem_max"), None, "it is already larger");
    assert_eq!(wanted(&plan, "/proc/sys/net/ipv4/tcp_rmem").cloned(), one("4096 131072 67108864"));
    assert_eq!(wanted(&plan, "/proc/irq/40/smp_affinity_list").cloned(), one("2-3"));
    assert_eq!(wanted(&plan, "/proc/irq/41/smp_affinity_list"), None, "it is already near");
}

#[test]
fn huge_pages_are_set_only_where_the_default_size_is_2_mib() {
    let mut machine = machine();
    machine["files"]["/proc/meminfo"] =
        json!("MemTotal:       503316480 kB\nHugepagesize:   524288 kB\n");
    let plan = planned(&machine, Profile::Throughput, &Choice::default());
    assert_eq!(wanted(&plan, "/proc/sys/vm/nr_hugepages"), None, "512 of them would be 256 GiB");
    assert!(plan.advice.iter().any(|advice| advice.item == "hugepages"));
}

#[test]
fn the_mtu_of_bridges_and_of_other_devices_than_roce_is_unchanged() {
    let mut bridged = machine();
    bridged["files"]["/sys/class/net/br0/mtu"] = json!("1500\n");
    bridged["links"][format!("{NIC}/net/eth0/master")] = json!("/sys/class/net/br0");
    let plan = planned(&bridged, Profile::Throughput, &Choice::default());
    assert_eq!(wanted(&plan, "/sys/class/net/br0/mtu"), None);
    assert!(wanted(&plan, "/sys/class/net/eth0/mtu").is_some());
    let mut iwarp = machine();
    iwarp["files"][format!("{NIC}/infiniband/mlx5_0/node_type")] = json!("4: RNIC\n");
    let plan = planned(&iwarp, Profile::Throughput, &Choice::default());
    assert_eq!(wanted(&plan, "/sys/class/net/eth0/mtu"), None);
}

#[test]
fn the_latency_profile_disables_idle_states_and_coalescing() {
    let plan = planned(&machine(), Profile::Latency, &Choice::default());
    let deep = "/sys/devices/system/cpu/cpu0/cpuidle/state3/disable and 3 more";
    assert_eq!(wanted(&plan, deep), Some(&State::all("1", 4)));
    let coalescing = ["off", "off", "0", "0"].map(|word| Some(word.to_owned())).to_vec();
    assert_eq!(wanted(&plan, "interrupt coalescing of eth0"), Some(&State::Values(coalescing)));
    assert_eq!(wanted(&plan, "rings of eth0"), None);
}

#[test]
fn settings_are_applied_again_after_a_restart() {
    let plan = planned(&machine(), Profile::Throughput, &Choice::default());
    let at_nic =
        "ACTION==\"add\", SUBSYSTEM==\"net\", KERNELS==\"0000:3b:00.0\", ATTR{dev_port}==\"0\"";
    for (path, line) in [
        (
            "/etc/udev/rules.d/90-wirelane-mtu-eth0.rules",
            &*format!("{at_nic}, ATTR{{mtu}}=\"9000\""),
        ),
        (
            "/etc/udev/rules.d/90-wirelane-rings-eth0.rules",
            &*format!("{at_nic}, RUN+=\"/usr/sbin/ethtool -G $name rx 8192 tx 8192\""),
        ),
        ("/etc/sysctl.d/90-wirelane-vm.nr_hugepages.conf", "vm.nr_hugepages = 512"),
        ("/etc/sysctl.d/90-wirelane-vm.zone_reclaim_mode.conf", "vm.zone_reclaim_mode = 0"),
        (
            "/etc/tmpfiles.d/90-wirelane-governor.conf",
            "w /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor - - - - performance",
        ),
        ("/etc/modules-load.d/wirelane.conf", "rdma_ucm"),
        ("/etc/security/limits.d/90-wirelane-memlock.conf", "* - memlock unlimited"),
        ("/etc/systemd/system.conf.d/90-wirelane-memlock.conf", "DefaultLimitMEMLOCK=infinity"),
    ] {
        assert!(has_line(&plan, path, line), "{path} has no {line}: {plan:#?}");
    }
}

#[test]
fn decisions_of_the_administrator_are_advice_with_commands() {
    let plan = planned(&machine(), Profile::Throughput, &Choice::default());
    let commands = |item: &str| {
        let advice = plan.advice.iter().find(|advice| advice.item == item);
        advice.map(|advice| advice.commands.join("\n")).unwrap_or_default()
    };
    assert!(commands("flow-control").contains("dcb pfc set dev eth0 prio-pfc all:off 3:on"));
    assert!(commands("ordering").contains("mlxconfig -d 0000:3b:00.0 query PCI_WR_ORDERING"));
    assert!(commands("counters").contains("rdma statistic set link mlx5_0/1 optional-counters"));
    assert!(commands("mtu").contains("ping -M do -s 8972"));
    assert_eq!(commands("acs"), "", "there is no GPU");
}

#[test]
fn settings_in_the_wanted_state_are_not_proposed() {
    let mut tuned = machine();
    let files = &mut tuned["files"];
    files[format!("{NIC}/net/eth0/mtu")] = json!("4200\n");
    for cpu in 0..4 {
        files[format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")] =
            json!("performance\n");
    }
    tuned["answers"]["ethtool"]["eth0"]["rings"] =
        json!({"rx": 8192, "rx_max": 8192, "tx": 8192, "tx_max": 8192});
    let plan = planned(&tuned, Profile::Throughput, &Choice::default());
    for item in ["mtu", "governor", "rings"] {
        assert!(!items(&plan).contains(&item), "{item}");
    }
}

#[test]
fn a_machine_without_rdma_has_host_items_only() {
    let mut bare = machine();
    bare["links"] = json!({});
    let plan = planned(&bare, Profile::Throughput, &Choice::default());
    assert_eq!(items(&plan), ["hugepages", "sysctl", "governor"]);
    assert!(plan.advice.is_empty(), "{:?}", plan.advice);
    let empty = json!({"format": "wirelane snapshot 1", "files": {}});
    assert_eq!(planned(&empty, Profile::Latency, &Choice::default()), Plan::default());
}

#[test]
fn items_and_devices_can_be_selected_and_unknown_names_are_refused() {
    let only = Choice::default().only(&["mtu".into()]);
    assert_eq!(items(&planned(&machine(), Profile::Throughput, &only)), ["mtu"]);
    let skip = Choice::default().skip(&["mtu".into()]);
    assert!(!items(&planned(&machine(), Profile::Throughput, &skip)).contains(&"mtu"));
    let device = Choice::default().devices(&["mlx5_0".into()]);
    let planned_for_it = planned(&machine(), Profile::Throughput, &device);
    let of_it = items(&planned_for_it);
    assert!(of_it.contains(&"mtu") && of_it.contains(&"rings"), "{of_it:?}");
    assert!(!of_it.contains(&"sysctl") && !of_it.contains(&"memlock"), "of the host: {of_it:?}");
    let tree = tree(&machine());
    let node = Node::read(&tree);
    let refused = |choice: Choice| {
        tune::plan(&node, &tree, Profile::Latency, &choice).expect_err("a wrong name").to_string()
    };
    let wrong = refused(Choice::default().only(&["speed".into()]));
    assert!(wrong.contains("\"speed\"") && wrong.contains("governor"), "{wrong}");
    let wrong = refused(Choice::default().devices(&["mlx5_9".into()]));
    assert!(wrong.contains("\"mlx5_9\"; RDMA devices: mlx5_0"), "{wrong}");
}

#[test]
fn in_a_container_limits_and_modules_are_not_changed() {
    let mut pod = machine();
    pod["files"]["/.dockerenv"] = json!("");
    let plan = planned(&pod, Profile::Throughput, &Choice::default());
    assert!(!items(&plan).contains(&"memlock") && !items(&plan).contains(&"modules"));
    let advice = plan.advice.iter().find(|advice| advice.item == "memlock").expect("advice");
    assert!(advice.commands[0].contains("LimitMEMLOCK=infinity"));
}

#[test]
fn the_status_of_steps_on_a_snapshot_is_known() {
    let plan = planned(&machine(), Profile::Throughput, &Choice::default());
    let reader = Reader::of_snapshot(tree(&machine()));
    let status = |name: &str| {
        let step = plan.steps.iter().find(|step| step.change.target.name() == name);
        step.expect("a step").status(&reader)
    };
    let from = |name: &str| match status(name) {
        StepStatus::ChangeFrom(state) => Some(state),
        _ => None,
    };
    assert_eq!(from("/sys/class/net/eth0/mtu"), Some(State::all("1500", 1)));
    assert!(matches!(status("module ib_uverbs"), StepStatus::AlreadySet));
    assert!(matches!(status("module rdma_ucm"), StepStatus::NeedsRunningMachine));
    assert_eq!(from("/etc/modules-load.d/wirelane.conf"), Some(State::Absent));
    let unknown =
        Change { target: Target::Rings { netdev: "eth9".into() }, wanted: State::all("1", 2) };
    let mut other = Plan::default();
    other.step("rings", "why", unknown, false);
    assert!(matches!(other.steps[0].status(&reader), StepStatus::NeedsRunningMachine));
}
