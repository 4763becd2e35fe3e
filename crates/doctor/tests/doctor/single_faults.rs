//! Faults that are added to healthy machines, one at a time: each is found, and nothing else.

use doctor::{Expectations, FindingsReport, Severity};
use node::Tree;
use serde_json::{Value, json};

use crate::{Fault, NOTE, PROBLEM, WARNING, changed, has, report, report_with};

/// A tree with these files added.
fn with_files(name: &str, files: &[(&str, &str)]) -> Tree {
    changed(name, |json| {
        for (path, text) in files {
            json["files"][*path] = Value::from(*text);
        }
    })
}

/// A tree with an answer changed: `/ethtool/ens1np0/pause`.
fn with_answer(name: &str, pointer: &str, value: Value) -> Tree {
    changed(name, |json| {
        let answers = json.get_mut("answers").expect("answers");
        *answers.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
    })
}

#[track_caller]
fn files_give(name: &str, files: &[(&str, &str)], expected: &[Fault<'_>]) {
    has(&report(&with_files(name, files)), expected);
}

#[track_caller]
fn answer_gives(name: &str, pointer: &str, value: Value, expected: &[Fault<'_>]) {
    has(&report(&with_answer(name, pointer, value)), expected);
}

const PORT: &str = "/sys/class/infiniband/mlx5_0/ports/1";
const ROCE: &str = "mlx5_0 port 1";

fn of_port(name: &str) -> String {
    format!("{PORT}/{name}")
}

#[test]
fn a_down_port_is_a_problem_or_a_warning_if_other_models_are_active() {
    let down: &[(&str, &str)] =
        &[(&of_port("state"), "1: DOWN\n"), (&of_port("phys_state"), "2: Polling\n")];
    files_give("mlx5-roce", down, &[("ports", PROBLEM, ROCE)]);
    // One of eight NICs of a model.
    files_give("ndr8", down, &[("ports", PROBLEM, ROCE)]);
    let spare = "/sys/class/infiniband/mlx5_8/ports/1";
    let files =
        [(format!("{spare}/state"), "1: DOWN\n"), (format!("{spare}/phys_state"), "3: Disabled\n")];
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let report = report(&with_files("ndr8", &files));
    assert!(report.counts.problem == 0 && report.counts.warning == 1, "{}", report.line());
}

#[test]
fn what_a_tree_does_not_contain_is_unknown() {
    let without = |folder: &str| {
        let folder = format!("/sys/class/infiniband/mlx5_0/ports{folder}");
        let tree = changed("mlx5-roce", |json| {
            for kind in ["files", "links", "folders", "nodes"] {
                match &mut json[kind] {
                    Value::Object(entries) => entries.retain(|path, _| !is_below(path, &folder)),
                    Value::Array(paths) => {
                        paths.retain(|path| !is_below(path.as_str().unwrap_or_default(), &folder));
                    }
                    _ => {}
                }
            }
        });
        report(&tree)
    };
    for (folder, check) in [("/1/gids", "gid"), ("", "ports")] {
        let report = without(folder);
        let of_check: Vec<_> =
            report.findings.iter().filter(|finding| finding.check == check).collect();
        let severities: Vec<Severity> = of_check.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Unknown], "{check}: {of_check:?}");
        assert!(!report.is_bad(true), "{}", report.line());
    }
}

/// Whether a path, which may go through the device's real folder, is in this folder of `mlx5_0`.
fn is_below(path: &str, folder: &str) -> bool {
    let (_, inner) = folder.split_once("/mlx5_0").expect("a folder of the device");
    path.split_once("/infiniband/mlx5_0").is_some_and(|(_, rest)| rest.starts_with(inner))
}

#[test]
fn the_verdict_on_a_slow_link_depends_on_the_evidence() {
    let slow: &[(&str, &str)] = &[(&of_port("rate"), "200 Gb/sec (4X HDR)\n")];
    // Seven others of the model run at 400.
    files_give("ndr8", slow, &[("rate", WARNING, ROCE)]);
    // The expected InfiniBand rate of a single NIC is not known.
    files_give(
        "saturated",
        slow,
        &[("losses", WARNING, ROCE), ("link-errors", WARNING, ROCE), ("saturated", NOTE, ROCE)],
    );
    let one_lane: &[(&str, &str)] = &[(&of_port("rate"), "100 Gb/sec (1X NDR)\n")];
    files_give("ndr8", one_lane, &[("rate", WARNING, ROCE)]);
    // On Ethernet the link partner decides; without it the cable; without both the NIC, which is a note.
    let fast = json!({"supported_mbps": [10000, 100_000, 200_000], "advertised_mbps": [], "partner_mbps": [100_000, 200_000]});
    answer_gives("mlx5-roce", "/ethtool/ens1np0/modes", fast, &[("rate", PROBLEM, ROCE)]);
    let silent = json!({"supported_mbps": [10000, 100_000, 200_000], "advertised_mbps": [], "partner_mbps": []});
    let tree = changed("mlx5-roce", |json| {
        json["answers"]["ethtool"]["ens1np0"]["modes"] = silent.clone();
        json["answers"]["ethtool"]["ens1np0"]["module"] =
            json!({"form": "QSFP56", "nominal_mbps": 200_000});
    });
    has(&report(&tree), &[("rate", WARNING, ROCE)]);
    let tree = changed("mlx5-roce", |json| {
        json["answers"]["ethtool"]["ens1np0"]["modes"] = silent;
        json["answers"]["ethtool"]["ens1np0"]["module"] = Value::Null;
    });
    has(&report(&tree), &[("rate", NOTE, ROCE)]);
}

#[test]
fn the_rate_of_the_user_takes_precedence() {
    let tree = crate::tree("mlx5-roce");
    let expecting = |mbps| report_with(&tree, Expectations::default().expect_rate_mbps(Some(mbps)));
    has(&expecting(200_000), &[("rate", PROBLEM, ROCE)]);
    has(&expecting(100_000), &[]);
}

#[test]
fn ten_gigabit_of_mlx4_is_not_trusted() {
    let tree = changed("cx3-10g", |json| {
        json["answers"]["ethtool"] = json!({});
        json["files"]["/sys/class/net/enp3s0d1/speed"] = Value::from("25000\n");
    });
    has(&report(&tree), &[("ports", NOTE, "mlx4_0 port 1")]);
}

#[test]
fn degraded_pcie_links_and_slots_that_are_slow_by_design() {
    let nic = "/sys/bus/pci/devices/0000:38:00.0";
    let slow = [(format!("{nic}/current_link_speed"), "2.5 GT/s PCIe\n")];
    files_give("mlx5-roce", &[(&slow[0].0, slow[0].1)], &[("pcie", PROBLEM, "mlx5_0")]);
    let narrow = [(format!("{nic}/current_link_width"), "8\n")];
    files_give("mlx5-roce", &[(&narrow[0].0, narrow[0].1)], &[("pcie", WARNING, "mlx5_0")]);
    let slot = "/sys/bus/pci/devices/0000:37:01.0";
    let small: Vec<(String, &str)> = vec![
        (format!("{nic}/current_link_width"), "2\n"),
        (format!("{slot}/current_link_width"), "2\n"),
        (format!("{slot}/max_link_width"), "2\n"),
    ];
    let small: Vec<(&str, &str)> =
        small.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files_give("mlx5-roce", &small, &[("pcie", NOTE, "mlx5_0")]);
    // An idle GPU has lowered its link speed.
    files_give(
        "iommu",
        &[("/sys/bus/pci/devices/0000:1b:00.0/current_link_speed", "2.5 GT/s PCIe\n")],
        &[
            ("iommu", PROBLEM, "mlx5_0, mlx5_1, GPU 0, GPU 1"),
            ("acs", PROBLEM, "0000:17:00.0, 0000:17:02.0, 0000:a9:00.0, 0000:a9:02.0"),
        ],
    );
}

#[test]
fn translation_without_gpus_is_a_note() {
    let tree = changed("mlx5-roce", |json| {
        for (path, kind) in json["files"].as_object_mut().expect("files") {
            if path.starts_with("/sys/kernel/iommu_groups/") {
                *kind = Value::from("DMA-FQ\n");
            }
        }
    });
    has(&report(&tree), &[("iommu", NOTE, "mlx5_0")]);
}

#[test]
fn counters_of_congestion_and_loss() {
    files_give(
        "mlx5-roce",
        &[(&of_port("hw_counters/rp_cnp_ignored"), "7\n")],
        &[("congestion", WARNING, ROCE)],
    );
    files_give(
        "mlx5-roce",
        &[(&of_port("hw_counters/np_ecn_marked_roce_packets"), "7\n")],
        &[("congestion", WARNING, ROCE)],
    );
    files_give("mlx5-roce", &[(&of_port("hw_counters/out_of_sequence"), "99\n")], &[]);
    files_give(
        "mlx5-roce",
        &[(&of_port("hw_counters/out_of_sequence"), "5000000\n")],
        &[("losses", WARNING, ROCE)],
    );
    files_give(
        "mlx5-roce",
        &[(&of_port("hw_counters/req_transport_retries_exceeded"), "3\n")],
        &[("losses", NOTE, ROCE)],
    );
    files_give(
        "mlx5-roce",
        &[(&of_port("counters/link_downed"), "1\n")],
        &[("link-errors", NOTE, ROCE)],
    );
    files_give(
        "mlx5-roce",
        &[(&of_port("counters/link_downed"), "200\n")],
        &[("link-errors", WARNING, ROCE)],
    );
}

#[test]
fn conflicting_flow_control() {
    let both = json!({"autonegotiation": false, "rx": true, "tx": true});
    answer_gives("mlx5-roce", "/ethtool/ens1np0/pause", both, &[("flow-control", WARNING, ROCE)]);
    answer_gives(
        "mlx5-roce",
        "/dcb/ens1np0/pfc_enabled",
        json!(0),
        &[("flow-control", NOTE, ROCE)],
    );
    answer_gives(
        "mlx5-roce",
        "/dcb/ens1np0/trust",
        json!("pcp"),
        &[("flow-control", WARNING, ROCE)],
    );
}

#[test]
fn ecn_that_is_off() {
    let with = |reaction: &str| {
        changed("mlx5-roce", |json| {
            for priority in 0..8 {
                let file =
                    |part: &str| format!("/sys/class/net/ens1np0/ecn/{part}/enable/{priority}");
                json["files"][file("roce_np")] = Value::from("1\n");
                json["files"][file("roce_rp")] = Value::from(reaction);
            }
        })
    };
    has(&report(&with("1\n")), &[]);
    has(&report(&with("0\n")), &[("ecn", WARNING, ROCE)]);
}

#[test]
fn the_firewall_affects_soft_roce() {
    let closed = json!({"program": "nft", "readable": true, "drops_by_default": true, "udp_let_in": [[53, 53]], "tcp_let_in": []});
    answer_gives("rxe", "/firewall", closed.clone(), &[("firewall", PROBLEM, "host")]);
    answer_gives("mlx5-roce", "/firewall", closed, &[("firewall", NOTE, "host")]);
    let open = json!({"program": "nft", "readable": true, "drops_by_default": true, "udp_let_in": [[4000, 5000]], "tcp_let_in": []});
    answer_gives("rxe", "/firewall", open, &[]);
}

#[test]
fn lines_of_the_kernel_log() {
    let with = |kind: &str, text: &str| json!([{"at_us": 1, "kind": kind, "text": text}]);
    for (kind, text, severity) in [
        (
            "health",
            "mlx5_core 0000:38:00.0: device's health compromised - reached miss count",
            PROBLEM,
        ),
        ("health", "mlx5_core 0000:38:00.0: ACCESS_REG(0x805) failed, syndrome (0x9a6171)", NOTE),
        ("pcie_error", "pcieport 0000:37:01.0: AER: Corrected error received", NOTE),
        ("pcie_error", "pcieport 0000:37:01.0: AER: Uncorrectable (Fatal) error received", PROBLEM),
        ("xid", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", PROBLEM),
        ("xid", "NVRM: Xid (PCI:0000:1b:00): 31, pid=1, name=python", WARNING),
        ("iommu", "DMAR: [DMA Read] Request device [38:00.0] fault addr 0x1", PROBLEM),
        ("iommu", "DMAR: [DMA Read] Request device [00:02.0] fault addr 0x1", WARNING),
        (
            "link",
            "mlx5_core 0000:38:00.0: Port module event[error]: module 0, Cable error, High \
             Temperature",
            WARNING,
        ),
        ("health", "mlx5_core 0000:38:00.0: Detected insufficient power on the PCIe slot", WARNING),
        ("pcie_error", "pcieport 0000:37:01.0: DPC: containment event, status:0x1f01", PROBLEM),
    ] {
        answer_gives(
            "mlx5-roce",
            "/kernel_log/lines",
            with(kind, text),
            &[("kernel-log", severity, "host")],
        );
    }
    for (kind, text) in [
        ("link", "mlx5_core: Link up"),
        ("pcie_error", "pcieport 0000:00:1c.0: AER: enabled with IRQ 122"),
    ] {
        answer_gives("mlx5-roce", "/kernel_log/lines", with(kind, text), &[]);
    }
}

#[test]
fn pcie_error_counters() {
    let file = |name: &str| format!("/sys/bus/pci/devices/0000:38:00.0/aer_dev_{name}");
    files_give("mlx5-roce", &[(&file("fatal"), "DLP 1\n")], &[("aer", PROBLEM, "mlx5_0")]);
    files_give("mlx5-roce", &[(&file("nonfatal"), "CmpltTO 2\n")], &[("aer", WARNING, "mlx5_0")]);
    files_give("mlx5-roce", &[(&file("nonfatal"), "UnsupReq 2\n")], &[]);
    files_give("mlx5-roce", &[(&file("correctable"), "RxErr 40\n")], &[]);
    files_give(
        "mlx5-roce",
        &[(&file("correctable"), "RxErr 400000\n")],
        &[("aer", WARNING, "mlx5_0")],
    );
}

#[test]
fn device_nodes_that_this_user_may_not_open() {
    let tree = changed("memlock", |json| {
        json["nodes"]["/dev/infiniband/uverbs0"]["mode"] = json!(0o020_600);
    });
    has(&report(&tree), &[("permissions", PROBLEM, "mlx5_0"), ("memlock", PROBLEM, "host")]);
    let tree = changed("pod", |json| {
        let nodes = json["nodes"].as_object_mut().expect("nodes");
        nodes.retain(|path, _| !path.contains("uverbs"));
    });
    let report = report(&tree);
    assert!(
        report.findings[0].summary.contains("no RDMA device is assigned"),
        "{:?}",
        report.findings[0]
    );
}

#[test]
fn missing_modules() {
    let without = |gone: &str| {
        changed("mlx5-roce", |json| {
            let folders = json["folders"].as_object_mut().expect("folders");
            folders.remove(&format!("/sys/module/{gone}")).expect("a module");
        })
    };
    has(&report(&without("rdma_ucm")), &[("modules", WARNING, "host")]);
    // The class shows that this one is built into the kernel.
    has(&report(&without("ib_uverbs")), &[]);
}

#[test]
fn limits_of_the_cgroup() {
    let file = "/sys/fs/cgroup/user.slice/user-0.slice/session-4.scope/rdma.max";
    files_give("mlx5-roce", &[(file, "mlx5_0 hca_handle=max hca_object=max\n")], &[]);
    files_give(
        "mlx5-roce",
        &[(file, "mlx5_0 hca_handle=2 hca_object=20\n")],
        &[("cgroup", WARNING, "mlx5_0")],
    );
    files_give(
        "mlx5-roce",
        &[(file, "mlx5_0 hca_handle=0 hca_object=20\n")],
        &[("cgroup", PROBLEM, "mlx5_0")],
    );
}

#[test]
fn governor_and_idle_states_are_notes() {
    let cpu = "/sys/devices/system/cpu/cpu0";
    files_give(
        "mlx5-roce",
        &[(&format!("{cpu}/cpufreq/scaling_governor"), "powersave\n")],
        &[("governor", NOTE, "host")],
    );
    files_give(
        "mlx5-roce",
        &[(&format!("{cpu}/cpuidle/state1/latency"), "890\n")],
        &[("idle", NOTE, "host")],
    );
}

#[test]
fn different_firmware_and_a_gpu_without_a_near_nic() {
    files_give(
        "ndr8",
        &[("/sys/class/infiniband/mlx5_3/fw_ver", "28.39.1002\n")],
        &[("versions", NOTE, "host")],
    );
    let far = "/sys/bus/pci/devices/0000:aa:00.0/numa_node";
    files_give(
        "pcie-narrow",
        &[(far, "0\n")],
        &[("pcie", PROBLEM, "mlx5_1"), ("numa", WARNING, "GPU 1")],
    );
}

#[test]
fn a_port_without_an_address_is_a_note_if_it_may_be_unused() {
    let member = |master: &str| {
        changed("roce-no-ip", |json| {
            json["links"][format!("{NETDEV}/master")] =
                Value::from(format!("/sys/devices/virtual/net/{master}"));
            json["files"][format!("/sys/devices/virtual/net/{master}/type")] = Value::from("1\n");
        })
    };
    for master in ["bond0", "vmbr0", "ovs-system"] {
        has_address_note(&report(&member(master)), ROCE);
    }
    let parent = with_files("roce-no-ip", &[(&format!("{NIC}/sriov_numvfs"), "8\n")]);
    has_address_note(&report(&parent), ROCE);
    let beside = changed("bnxt", |json| {
        for index in 0..16 {
            let gid = format!("/sys/class/infiniband/bnxt_re1/ports/1/gids/{index}");
            json["files"][gid] = Value::from("0000:0000:0000:0000:0000:0000:0000:0000\n");
        }
    });
    has_address_note(&report(&beside), "bnxt_re1 port 1");
}

#[track_caller]
fn has_address_note(report: &FindingsReport, port: &str) {
    has(report, &[("gid", NOTE, port)]);
    let fixes = &report.findings[0].fix;
    assert!(!fixes.iter().any(|fix| fix.contains("ip addr add")), "{fixes:?}");
}

const NIC: &str = "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0";
const NETDEV: &str = "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/net/ens1np0";

#[test]
fn a_virtual_function_on_a_host_may_be_without_link_and_address() {
    // The same port, now of a virtual function of the NIC next to it.
    let virtual_one = |name: &str, files: &[(&str, &str)]| {
        changed(name, |json| {
            json["links"][format!("{NIC}/physfn")] =
                Value::from("/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.1");
            for (path, text) in files {
                json["files"][*path] = Value::from(*text);
            }
        })
    };
    has_address_note(&report(&virtual_one("roce-no-ip", &[])), ROCE);
    let down: &[(&str, &str)] =
        &[(&of_port("state"), "1: DOWN\n"), (&of_port("phys_state"), "3: Disabled\n")];
    has(&report(&virtual_one("mlx5-roce", down)), &[("ports", NOTE, ROCE)]);
}

#[test]
fn only_gpus_that_compute_make_translation_a_problem() {
    let gpus = ["0000:1b:00.0", "0000:ad:00.0"];
    let with = |vendor: &str, class: &str, driver: &str| {
        let tree = changed("iommu", |json| {
            for (path, text) in json["files"].as_object_mut().expect("files") {
                match gpus.iter().any(|gpu| path.contains(gpu)) {
                    true if path.ends_with("/vendor") => *text = Value::from(vendor),
                    true if path.ends_with("/class") => *text = Value::from(class),
                    _ => {}
                }
            }
            for (path, target) in json["links"].as_object_mut().expect("links") {
                if path.ends_with("/driver") && gpus.iter().any(|gpu| path.contains(gpu)) {
                    *target = Value::from(format!("/sys/bus/pci/drivers/{driver}"));
                }
            }
        });
        let report = report(&tree);
        let found = report.findings.into_iter().find(|finding| finding.check == "iommu");
        found.expect("a finding").severity
    };
    assert_eq!(with("0x10de", "0x030200", "nvidia"), PROBLEM);
    assert_eq!(with("0x10de", "0x030000", "nouveau"), NOTE);
    assert_eq!(with("0x1002", "0x038000", "amdgpu"), PROBLEM);
    assert_eq!(with("0x1002", "0x120000", "amdgpu"), PROBLEM);
    assert_eq!(with("0x1002", "0x030000", "amdgpu"), NOTE);
    assert_eq!(with("0x8086", "0x038000", "i915"), NOTE);
    assert_eq!(with("0x1da3", "0x120000", "habanalabs"), PROBLEM);
}

#[test]
fn efa_needs_fewer_kernel_modules() {
    let closed = "NVRM version: NVIDIA UNIX Kernel Module for x86_64  550.90.07\n";
    let efa = |module: &str| {
        changed("efa", |json| {
            json["files"]["/proc/driver/nvidia/version"] = Value::from(closed);
            let files = json["files"].as_object_mut().expect("files");
            files.remove("/sys/module/nvidia_peermem/version").expect("a module");
            files.insert(format!("/sys/module/{module}/refcnt"), Value::from("0\n"));
            for part in ["files", "folders"] {
                if let Some(paths) = json[part].as_object_mut() {
                    paths.retain(|path, _| !path.starts_with("/sys/module/rdma_ucm"));
                }
            }
        })
    };
    has(&report(&efa("efa_nv_peermem")), &[]);
    has(&report(&efa("other")), &[("gpudirect", WARNING, "host")]);
}

#[test]
fn ipc_lock_has_no_effect_in_a_user_namespace() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max locked memory         8388608              8388608              bytes     \n";
    let with = |map: &str| {
        report(&with_files("mlx5-roce", &[("/proc/self/limits", limits), (UID_MAP, map)]))
    };
    has(&with("         0          0 4294967295\n"), &[]);
    has(&with("         0       1000          1\n"), &[("memlock", PROBLEM, "host")]);
    // If the map is not known, the capability counts.
    has(&report(&with_files("mlx5-roce", &[("/proc/self/limits", limits)])), &[]);
}

const UID_MAP: &str = "/proc/self/uid_map";

#[test]
fn an_ipv6_fabric_is_a_note_and_foreign_addresses_are_a_problem() {
    let sixes = "fd00:0000:0000:0000:0000:0000:0000:0007\n";
    files_give(
        "mlx5-roce",
        &[(&of_port("gids/2"), sixes), (&of_port("gids/3"), sixes)],
        &[("gid", NOTE, ROCE)],
    );
    let tree = changed("mlx5-roce", |json| {
        for index in 0..4 {
            for part in ["types", "ndevs"] {
                json["files"][of_port(&format!("gid_attrs/{part}/{index}"))] =
                    json!({"refused": 22});
            }
        }
    });
    let report = report(&tree);
    assert!(
        report.findings[0].summary.contains("another network namespace"),
        "{:?}",
        report.findings[0]
    );
}

#[test]
fn a_limit_that_can_be_raised_is_a_warning() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max locked memory         8388608              unlimited            bytes     \n";
    files_give("memlock", &[("/proc/self/limits", limits)], &[("memlock", WARNING, "host")]);
}

#[test]
fn bond_modes_without_roce_support() {
    let with_mode = |mode: &str| {
        with_files(
            "mlx5-roce",
            &[
                ("/sys/class/net/bond0/type", "1\n"),
                ("/sys/class/net/bond0/bonding/mode", mode),
                ("/sys/class/net/bond0/bonding/slaves", "ens1np0\n"),
            ],
        )
    };
    has(&report(&with_mode("balance-rr 0\n")), &[("bond", WARNING, "bond0")]);
    has(&report(&with_mode("802.3ad 4\n")), &[("bond", NOTE, "bond0")]);
}

#[test]
fn a_degraded_link_is_named_by_the_bridge_above_it() {
    let nic = "/sys/bus/pci/devices/0000:38:00.0";
    let tree = with_files("mlx5-roce", &[(&format!("{nic}/current_link_width"), "4\n")]);
    let report = report(&tree);
    let finding = &report.findings[0];
    assert!(finding.summary.contains("below 0000:37:01.0 runs at 16 GT/s x4"), "{finding:?}");
}
