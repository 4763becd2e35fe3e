//! Realistic pods and hosts, and the environment of their jobs.

use std::collections::BTreeMap;

use node::Node;

use super::test_machine::{Machine, environment};
use super::{EnvironmentPlan, Format, Mode, Refusal, Request, Verdict, Version, plan};

const V2: &str = "RoCE v2";
const INFO: &str = r#"{"0000:3b:02.6":{"generic":{"deviceID":"0000:3b:02.6"},"rdma":{"rdma_cm":
    "/dev/infiniband/rdma_cm","rdma_dev":"mlx5_4","uverbs":"/dev/infiniband/uverbs6"}}}"#;
const GIVEN: (&str, &str) = ("PCIDEVICE_OPENSHIFT_IO_RDMA_INFO", INFO);

/// A pod of a host with two InfiniBand functions, of which it was given mlx5_4.
fn pod() -> Machine {
    Machine::default().infiniband("mlx5_4", 6).infiniband("mlx5_1", 1)
}

fn request(
    machine: &Machine,
    mode: Mode,
    variables: &[(&str, &str)],
    nccl: Option<Version>,
    peers: &[&str],
) -> Result<EnvironmentPlan, Box<Refusal>> {
    let tree = machine.tree();
    let peers: Vec<_> = peers.iter().map(|peer| peer.parse().expect("an address")).collect();
    let environment = environment(variables);
    let peers_option = "--peers";
    let request = Request { environment: &environment, mode, peers: &peers, peers_option, nccl };
    plan(&Node::read(&tree), &tree, &request)
}

fn auto(machine: &Machine, variables: &[(&str, &str)]) -> Result<EnvironmentPlan, Box<Refusal>> {
    request(machine, Mode::Auto, variables, None, &[])
}

fn our_variables(plan: &EnvironmentPlan) -> BTreeMap<&str, &str> {
    let ours = plan.variables.iter().filter(|variable| !variable.is_users);
    ours.map(|variable| (variable.name.as_str(), variable.value.as_str())).collect()
}

fn hca(plan: &EnvironmentPlan) -> Option<&str> {
    our_variables(plan).get("NCCL_IB_HCA").copied()
}

fn why<'d>(devices: &'d [super::DeviceVerdict], device: &str) -> &'d str {
    let one = devices.iter().find(|one| one.device == device && one.verdict == Verdict::Dropped);
    one.map_or("", |one| &one.why)
}

#[test]
fn a_pod_uses_its_assigned_devices_and_reports_why_others_are_dropped() {
    let plan = auto(&pod(), &[GIVEN]).expect("a plan");
    let set = our_variables(&plan);
    assert_eq!(set["NCCL_IB_HCA"], "=mlx5_4:1");
    assert_eq!(set["UCX_NET_DEVICES"], "mlx5_4:1");
    assert_eq!(set["OMPI_MCA_pml"], "ucx");
    assert!(!set.contains_key("UCX_TLS") && !set.contains_key("NCCL_IB_ADDR_FAMILY"), "{set:?}");
    assert!(!set.contains_key("OMPI_MCA_opal_common_ucx_devices"), "{set:?}");
    assert_eq!(why(&plan.devices, "mlx5_1"), "not assigned to this pod");
    assert!(plan.devices[0].why.contains("PCIDEVICE_OPENSHIFT_IO_RDMA_INFO"), "{:?}", plan.devices);
}

#[test]
fn every_source_of_claims_leads_to_the_same_device() {
    let old = r#"{"0000:3b:02.6":{"rdma":{"uverbs":"/dev/infiniband/uverbs6"}}}"#;
    let families: [&[(&str, &str)]; 5] = [
        &[("PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "0000:3b:02.6")],
        &[("PCIDEVICE_INTEL_COM_A", "0000:3b:02.6"), ("PCIDEVICE_INTEL_COM_A_INFO", "{broken")],
        &[("PCIDEVICE_INTEL_COM_A_INFO", old)],
        &[("SRIOVNETWORK_PCI_ADDRESSES", "0000:3b:02.6")],
        &[
            ("SRIOVNETWORK_VF_DEVICE_a_b", "0000:3b:02.6"),
            ("SRIOVNETWORK_a_b_RDMA_DEVICE", "mlx5_4"),
        ],
    ];
    for family in families {
        assert_eq!(hca(&auto(&pod(), family).expect("a plan")), Some("=mlx5_4:1"), "{family:?}");
    }
    let status =
        r#"[{"device-info":{"pci":{"pci-address":"0000:3b:02.6","rdma-device":"mlx5_4"}}}]"#;
    let machine = pod().file("/etc/podnetinfo/network-status", status);
    assert_eq!(hca(&auto(&machine, &[]).expect("a plan")), Some("=mlx5_4:1"));
}

#[test]
fn a_subfunction_is_found_by_its_auxiliary_device() {
    let machine =
        pod().file("/sys/bus/auxiliary/devices/mlx5_core.sf.4/infiniband/mlx5_4/node_desc", "");
    let plan = auto(&machine, &[("PCIDEVICE_NVIDIA_COM_SF", "mlx5_core.sf.4")]).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_4:1"));
}

#[test]
fn with_the_shared_plugin_devices_with_a_node_are_used() {
    let machine = pod().without("/dev/infiniband/uverbs1");
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_4:1"));
    assert!(why(&plan.devices, "mlx5_1").contains("not assigned"), "{:?}", plan.devices);
}

#[test]
fn contradictions_are_refused_in_every_rdma_mode() {
    let other_name = INFO.replace("mlx5_4", "mlx5_1");
    let other_node = INFO.replace("uverbs6", "uverbs1");
    for info in [other_name, other_node] {
        for mode in [Mode::Auto, Mode::Rdma] {
            let refusal =
                request(&pod(), mode, &[(GIVEN.0, &info)], None, &[]).expect_err("refused");
            assert!(refusal.reason.contains("claims that 0000:3b:02.6 has"), "{}", refusal.reason);
        }
        assert!(request(&pod(), Mode::Tcp, &[(GIVEN.0, &info)], None, &[]).is_ok());
    }
}

#[test]
fn an_assigned_device_that_cannot_be_used_is_refused() {
    let function = "/sys/bus/pci/devices/0000:3b:02.6/vendor";
    let gone = Machine::default().infiniband("mlx5_1", 1).file(function, "0x15b3\n");
    let refusal = auto(&gone, &[GIVEN]).expect_err("refused");
    assert!(refusal.reason.contains("none of them can be used"), "{}", refusal.reason);
    assert!(why(&refusal.devices, "mlx5_4").contains("not in this pod"), "{:?}", refusal.devices);
    let down = pod().file("/sys/class/infiniband/mlx5_4/ports/1/state", "1: DOWN\n");
    let refusal = auto(&down, &[GIVEN]).expect_err("refused");
    assert_eq!(why(&refusal.devices, "mlx5_4"), "it is DOWN");
    let alone = auto(&pod(), &[("PCIDEVICE_A_B_INFO", "{broken")]).expect_err("refused");
    assert!(alone.reason.starts_with("PCIDEVICE_A_B_INFO is neither"), "{}", alone.reason);
}

#[test]
fn a_claimed_function_that_this_host_does_not_have_is_refused() {
    let absent = r#"{"0000:99:00.0":{"rdma":{"uverbs":"/dev/infiniband/uverbs9"}}}"#;
    let families: [&[(&str, &str)]; 5] = [
        &[("PCIDEVICE_OPENSHIFT_IO_X", "0000:99:00.0")],
        &[("PCIDEVICE_OPENSHIFT_IO_X", "0000:3b:02.6,0000:99:00.0")],
        &[("PCIDEVICE_OPENSHIFT_IO_X_INFO", absent)],
        &[GIVEN, ("PCIDEVICE_OPENSHIFT_IO_X_INFO", absent)],
        &[("SRIOVNETWORK_PCI_ADDRESSES", "0000:99:00.0")],
    ];
    for family in families {
        for mode in [Mode::Auto, Mode::Rdma] {
            let refusal = request(&pod(), mode, family, None, &[]).expect_err("refused");
            assert!(
                refusal.reason.contains("claims 0000:99:00.0, which is not in"),
                "{}",
                refusal.reason
            );
        }
        assert!(request(&pod(), Mode::Tcp, family, None, &[]).is_ok(), "{family:?}");
    }
}

#[test]
fn a_function_without_rdma_does_not_require_rdma() {
    let machine = Machine::default().file("/sys/bus/pci/devices/0000:5e:00.2/vendor", "0x8086");
    let vfio = r#"{"0000:5e:00.2":{"vfio":{"mount":"/dev/vfio/9"}}}"#;
    for given in
        [("PCIDEVICE_INTEL_COM_DPDK_INFO", vfio), ("PCIDEVICE_INTEL_COM_NET", "0000:5e:00.2")]
    {
        let plan = auto(&machine, &[given]).expect("a plan");
        assert_eq!(plan.mode, Mode::Tcp);
        assert_eq!(our_variables(&plan)["NCCL_IB_DISABLE"], "1");
    }
}

#[test]
fn a_function_without_claimed_rdma_may_have_an_rdma_device() {
    let given = [("PCIDEVICE_INTEL_COM_NET", "0000:3b:02.6")];
    let plain = pod().without("/dev/infiniband/uverbs6");
    assert_eq!(hca(&auto(&plain, &given).expect("a plan")), Some("=mlx5_1:1"));
    let nothing = plain.without("/dev/infiniband/uverbs1").file("/dev/null", "");
    assert_eq!(auto(&nothing, &given).expect("a plan").mode, Mode::Tcp);
    let down = pod().file("/sys/class/infiniband/mlx5_4/ports/1/state", "1: DOWN\n");
    let refusal = auto(&down, &given).expect_err("its node exists, so it was assigned");
    assert_eq!(why(&refusal.devices, "mlx5_4"), "it is DOWN");
}

#[test]
fn an_empty_machine_uses_tcp_unless_rdma_is_required() {
    let empty = Machine::default().file("/etc/hostname", "a");
    let plan = auto(&empty, &[]).expect("a plan");
    let set = our_variables(&plan);
    assert_eq!((set["NCCL_IB_DISABLE"], set["UCX_TLS"]), ("1", "tcp,sm,self"));
    assert_eq!((set["OMPI_MCA_pml"], set["OMPI_MCA_btl"]), ("ob1", "^openib,uct"));
    let refusal = request(&empty, Mode::Rdma, &[], None, &[]).expect_err("refused");
    assert!(refusal.reason.contains("no RDMA device can be used"), "{}", refusal.reason);
}

#[test]
fn roce_needs_a_gid_of_this_namespace() {
    let foreign =
        Machine::default().roce("mlx5_0", 0, "net1").gid("mlx5_0", 0, "::ffff:10.1.0.5", V2, None);
    let refusal = request(&foreign, Mode::Rdma, &[], None, &[]).expect_err("refused");
    assert!(why(&refusal.devices, "mlx5_0").contains("network namespace"), "{:?}", refusal.devices);
    let here = foreign.gid("mlx5_0", 3, "::ffff:10.1.0.5", V2, Some("net1"));
    let plan = auto(&here, &[]).expect("a plan");
    assert_eq!(our_variables(&plan)["NCCL_IB_ADDR_FAMILY"], "AF_INET");
    assert_eq!(our_variables(&plan)["NCCL_IB_ROCE_VERSION_NUM"], "2");
    assert!(!our_variables(&plan).contains_key("NCCL_IB_GID_INDEX"));
    let old = request(&here, Mode::Auto, &[], Some(Version(2, 18, 5)), &[]).expect("a plan");
    assert_eq!(our_variables(&old)["NCCL_IB_GID_INDEX"], "3");
}

#[test]
fn link_local_addresses_and_subnets_without_a_manager_are_dropped() {
    let local =
        Machine::default().roce("mlx5_0", 0, "eth1").gid("mlx5_0", 0, "fe80::1", V2, Some("eth1"));
    let refusal = request(&local, Mode::Rdma, &[], None, &[]).expect_err("refused");
    assert!(why(&refusal.devices, "mlx5_0").contains("link-local"), "{:?}", refusal.devices);
    let no_manager = pod().file("/sys/class/infiniband/mlx5_4/ports/1/lid", "0x0");
    assert_eq!(hca(&auto(&no_manager, &[]).expect("a plan")), Some("=mlx5_1:1"));
}

#[test]
fn a_function_without_a_guid_is_not_used() {
    let machine = pod().file("/sys/class/infiniband/mlx5_4/node_guid", "0000:0000:0000:0000");
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_1:1"));
    assert!(why(&plan.devices, "mlx5_4").contains("GUID"), "{:?}", plan.devices);
}

#[test]
fn open_mpi_is_configured_for_renamed_devices() {
    let machine = Machine::default().infiniband("ibp59s0", 0);
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(our_variables(&plan)["OMPI_MCA_opal_common_ucx_devices"], "any");
}

#[test]
fn efa_uses_its_plugin_and_is_no_hca() {
    let machine = Machine::default().efa("rdmap16s27", 0);
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(our_variables(&plan)["FI_PROVIDER"], "efa");
    assert!(
        !our_variables(&plan)
            .keys()
            .any(|name| name.starts_with("NCCL_IB") || name.starts_with("UCX"))
    );
    assert!(plan.notes.iter().any(|note| note.contains("libnccl-net.so")), "{:?}", plan.notes);
}

#[test]
fn settings_of_the_user_are_kept_and_noted() {
    let theirs = [GIVEN, ("NCCL_IB_HCA", "mlx5_1"), ("NCCL_IB_DISABLE", "1")];
    let plan = auto(&pod(), &theirs).expect("a plan");
    assert_eq!(hca(&plan), None);
    let text = plan.notes.join("\n");
    assert!(
        text.contains(
            "is already set to \"mlx5_1\" and is kept; for this host it would be \"=mlx5_4:1\""
        ),
        "{text}"
    );
    assert!(text.contains("NCCL will not use RDMA") && text.contains("mlx5_10"), "{text}");
    assert!(plan.text(Format::Sh).contains("# NCCL_IB_HCA is set already\n"));
}

#[test]
fn the_interface_to_the_peers_is_set_only_if_it_is_unique() {
    let routes = "Iface Destination\n\
        eth0 0000000A 00000000 0001 0 0 100 000000FF 0 0 0\n\
        ib0 0001A8C0 00000000 0001 0 0 200 00FFFFFF 0 0 0\n";
    let machine = pod().file("/proc/net/route", routes);
    let interface = |peers: &[&str]| {
        let plan = request(&machine, Mode::Auto, &[GIVEN], None, peers).expect("a plan");
        our_variables(&plan).get("NCCL_SOCKET_IFNAME").map(|name| (*name).to_owned())
    };
    assert_eq!(interface(&["10.0.0.2", "10.0.0.3"]).as_deref(), Some("=eth0"));
    assert_eq!(interface(&["10.0.0.2", "192.168.1.3"]), None);
    assert_eq!(interface(&["172.16.0.1"]), None);
    assert_eq!(interface(&[]), None);
}

#[test]
fn on_a_host_fabrics_are_not_mixed() {
    let machine =
        pod().roce("mlx5_9", 5, "eth1").gid("mlx5_9", 0, "::ffff:10.1.0.5", V2, Some("eth1"));
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_1:1,mlx5_4:1"));
    assert!(why(&plan.devices, "mlx5_9").contains("cannot be mixed"), "{:?}", plan.devices);
}

#[test]
fn ports_of_another_infiniband_fabric_are_left_out() {
    let machine = Machine::default()
        .infiniband("mlx5_0", 0)
        .gid("mlx5_0", 0, "fec0:0:0:2::5a00", "IB/RoCE v1", None)
        .infiniband("mlx5_1", 1)
        .gid("mlx5_1", 0, "fe80::5a04", "IB/RoCE v1", None)
        .rate("mlx5_1", "400 Gb/sec (4X NDR)")
        .infiniband("mlx5_2", 2)
        .gid("mlx5_2", 0, "fe80::5a08", "IB/RoCE v1", None)
        .rate("mlx5_2", "400 Gb/sec (4X NDR)");
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_1:1,mlx5_2:1"));
    let text = why(&plan.devices, "mlx5_0");
    assert!(text.contains("fec0:0:0:2::/64") && text.contains("fe80::/64 is faster"), "{text}");
    let given = [("PCIDEVICE_A_B", "0000:3b:02.0,0000:3b:02.1")];
    let plan = auto(&machine, &given).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_0:1,mlx5_1:1"), "assigned devices are kept");
}

#[test]
fn of_two_equal_infiniband_fabrics_the_first_by_name_is_used() {
    let machine = pod().gid("mlx5_4", 0, "fe80::1", "IB/RoCE v1", None).gid(
        "mlx5_1",
        0,
        "fec0::1",
        "IB/RoCE v1",
        None,
    );
    assert_eq!(hca(&auto(&machine, &[]).expect("a plan")), Some("=mlx5_1:1"));
}

#[test]
fn a_subnet_for_each_infiniband_rail_keeps_all_rails() {
    let rail = |machine: Machine, number: u8| {
        let (name, gid) = (format!("mlx5_{number}"), format!("fec0:0:0:{number}::5a00"));
        let machine = machine.infiniband(&name, number).gid(&name, 0, &gid, "IB/RoCE v1", None);
        machine.rate(&name, "400 Gb/sec (4X NDR)")
    };
    let rails = (0..4).fold(Machine::default(), rail);
    let machine = rails.infiniband("mlx5_9", 9).gid("mlx5_9", 0, "fe80::1", "IB/RoCE v1", None);
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(hca(&plan), Some("=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"));
    assert_eq!(our_variables(&plan)["NCCL_CROSS_NIC"], "0");
    assert!(why(&plan.devices, "mlx5_9").contains("in another fabric"), "{:?}", plan.devices);
    let one = auto(&pod(), &[]).expect("a plan");
    assert!(!our_variables(&one).contains_key("NCCL_CROSS_NIC"), "one subnet");
}

/// Two rails of 100 Gb/s in separate networks, and a port of 25 Gb/s for management.
fn roce_host() -> Machine {
    let mut machine = Machine::default();
    for (name, number, netdev, address) in [
        ("roce0", 0, "eth0", "10.60.0.7"),
        ("roce1", 1, "eth1", "10.60.1.7"),
        ("roce2", 2, "eth2", "192.168.5.9"),
    ] {
        let gid = format!("::ffff:{address}");
        machine = machine
            .roce(name, number, netdev)
            .gid(name, 3, &gid, V2, Some(netdev))
            .address(netdev, address, 24);
    }
    machine.rate("roce2", "25 Gb/sec (1X EDR)")
}

#[test]
fn a_slow_port_among_fast_ones_is_another_network() {
    let plan = auto(&roce_host(), &[]).expect("a plan");
    assert_eq!(hca(&plan), Some("=roce0:1,roce1:1"));
    assert!(why(&plan.devices, "roce2").contains("25 Gb/s, less than half"), "{:?}", plan.devices);
    let given = [("PCIDEVICE_A_B", "0000:3b:02.2")];
    assert_eq!(hca(&auto(&roce_host(), &given).expect("a plan")), Some("=roce2:1"));
    let unaddressed = roce_host().gid("roce0", 3, "fe80::1", V2, Some("eth0")).gid(
        "roce1",
        3,
        "fe80::2",
        V2,
        Some("eth1"),
    );
    assert_eq!(hca(&auto(&unaddressed, &[]).expect("a plan")), Some("=roce2:1"));
    let half = roce_host().rate("roce2", "50 Gb/sec (1X HDR)");
    assert_eq!(hca(&auto(&half, &[]).expect("a plan")), Some("=roce0:1,roce1:1,roce2:1"));
}

#[test]
fn with_peers_ports_that_lead_to_them_and_ports_of_the_same_rate_are_kept() {
    let to = |machine: &Machine, peer: &str| {
        request(machine, Mode::Auto, &[], None, &[peer]).expect("a plan")
    };
    let host = roce_host().rate("roce2", "50 Gb/sec (1X HDR)");
    let plan = to(&host, "10.60.0.8");
    assert_eq!(hca(&plan), Some("=roce0:1,roce1:1"), "the second rail is in a separate network");
    assert!(why(&plan.devices, "roce2").contains("lead to peers (roce0:1)"), "{:?}", plan.devices);
    let plan = to(&host, "192.168.5.10");
    assert_eq!(hca(&plan), Some("=roce2:1"), "it is not much slower, and the peers are there");
}

#[test]
fn management_addresses_of_peers_do_not_drop_the_fast_ports() {
    let plan = request(&roce_host(), Mode::Auto, &[], None, &["192.168.5.10"]).expect("a plan");
    assert_eq!(hca(&plan), Some("=roce0:1,roce1:1"));
    assert!(
        plan.notes.iter().any(|note| note.contains("network of roce2:1 only")),
        "{:?}",
        plan.notes
    );
    let plan = request(&roce_host(), Mode::Auto, &[], None, &["172.16.0.1"]).expect("a plan");
    assert_eq!(hca(&plan), Some("=roce0:1,roce1:1"));
    assert!(
        plan.notes.iter().any(|note| note.contains("no RoCE port is in a network")),
        "{:?}",
        plan.notes
    );
}

#[test]
fn only_nccl_is_configured_for_omni_path() {
    let driver = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:02.0/driver";
    let machine =
        Machine::default().infiniband("hfi1_0", 0).link(driver, "/sys/bus/pci/drivers/hfi1");
    let plan = auto(&machine, &[]).expect("a plan");
    assert_eq!(our_variables(&plan).keys().copied().collect::<Vec<_>>(), ["NCCL_IB_HCA"]);
    assert!(plan.notes.iter().any(|note| note.contains("psm2")), "{:?}", plan.notes);
}

#[test]
fn each_format_has_the_settings_of_its_reader() {
    let plan = auto(&pod(), &[GIVEN]).expect("a plan");
    assert_eq!(plan.text(Format::NcclConf), "NCCL_IB_HCA==mlx5_4:1\n");
    assert_eq!(plan.text(Format::Mca), "pml = ucx\nosc = ucx\nbtl = ^openib\n");
    assert!(plan.text(Format::Sh).starts_with("export NCCL_IB_HCA='=mlx5_4:1'\n"));
}
