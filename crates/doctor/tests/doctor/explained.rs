//! Error lines, with causes checked on a machine.

use doctor::CheckInput;
use doctor::explain::{CauseState, Explanation, LineEvidence, explain, parse};
use node::Node;

use crate::{changed, tree};

fn on(name: &str, line: &str) -> Explanation {
    let tree = tree(name);
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    explain(parse(line), &input).into_iter().next().unwrap_or_else(|| panic!("{line} is not known"))
}

#[test]
fn for_a_protection_error_iommu_and_acs_are_always_first() {
    let lines = [
        "IBV_WC_LOC_PROT_ERR(4) vendor_err=81",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=4 opcode=0 len=0 \
         vendor err 81 (Send)",
        "ib_mlx5_log.c:177 Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/0)",
        " Failed status 4: wr_id 0 syndrom 0x51",
    ];
    for line in lines {
        for name in ["iommu", "ndr8", "mlx5-roce", "empty"] {
            let explained = on(name, line);
            let first: Vec<Option<&str>> =
                explained.causes.iter().take(2).map(|cause| cause.check).collect();
            assert!(
                first.contains(&Some("iommu")) && first.contains(&Some("acs")),
                "{name}: {first:?}"
            );
        }
    }
}

#[test]
fn the_state_of_the_iommu_has_its_file_as_evidence() {
    let seen = on("iommu", "IBV_WC_LOC_PROT_ERR(4) vendor_err=81");
    let iommu = &seen.causes[0];
    assert_eq!((iommu.check, iommu.state), (Some("iommu"), CauseState::Found));
    let evidence = &iommu.findings[0].evidence[0];
    assert!(
        evidence.source.starts_with("/sys/kernel/iommu_groups/") && evidence.value == "DMA-FQ",
        "{evidence:?}"
    );
    let well = on("ndr8", "IBV_WC_LOC_PROT_ERR(4) vendor_err=81");
    let iommu = well.causes.iter().find(|cause| cause.check == Some("iommu")).expect("a cause");
    assert_eq!(iommu.state, CauseState::NotFound);
    assert_eq!(iommu.findings[0].evidence[0].value, "identity");
}

#[test]
fn causes_found_on_the_machine_come_first() {
    let explained = on("mtu", "Failed status 12: wr_id 0 syndrom 0x81");
    assert_eq!(
        (explained.causes[0].check, explained.causes[0].state),
        (Some("mtu"), CauseState::Found)
    );
    let explained = on("roce-no-ip", "Failed status 12: wr_id 0 syndrom 0x81");
    assert_eq!(
        (explained.causes[0].check, explained.causes[0].state),
        (Some("gid"), CauseState::Found)
    );
    let explained = on("memlock", "NCCL WARN Call to ibv_reg_mr failed");
    assert_eq!(
        (explained.causes[0].check, explained.causes[0].state),
        (Some("memlock"), CauseState::Found)
    );
}

#[test]
fn a_note_is_not_a_cause() {
    let explained = on("cx3-port2", "Failed status 12: wr_id 0 syndrom 0x81");
    let ports = explained.causes.iter().find(|cause| cause.check == Some("ports"));
    assert_eq!(ports.map(|cause| cause.state), Some(CauseState::NotFound));
}

/// A machine without RDMA, where a root user may lock any amount of memory.
fn on_another_machine(line: &str) -> Explanation {
    let tree = changed("memlock", |json| {
        let files = json["files"].as_object_mut().expect("files");
        files.retain(|path, _| !path.contains("infiniband"));
        files["/proc/self/limits"] = "Max locked memory unlimited unlimited bytes\n".into();
        for kind in ["links", "folders", "nodes"] {
            if let Some(entries) = json[kind].as_object_mut() {
                entries.retain(|path, _| !path.contains("infiniband"));
            }
        }
    });
    let node = Node::read(&tree);
    assert!(node.devices.is_empty(), "{:?}", node.devices);
    let input = CheckInput::new(&node, &tree);
    explain(parse(line), &input).into_iter().next().unwrap_or_else(|| panic!("{line} is not known"))
}

/// The check of the first cause.
#[track_caller]
fn first_check(explained: &Explanation) -> Option<&'static str> {
    explained.causes.first().and_then(|cause| cause.check)
}

#[test]
fn what_the_line_proves_comes_first_on_any_machine() {
    let lines = [
        (
            "UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. Please set max locked \
             memory (ulimit -l) to 'unlimited' (current: 64 kbytes)",
            "memlock",
        ),
        (
            "DMAR: [DMA Write] Request device [3b:00.0] fault addr 0 [fault reason 05] PTE Write access \
             is not set",
            "iommu",
        ),
        (
            "mlx5_core 0000:3b:00.0: ACCESS_REG(0x805) op_mod(0x1) failed, err(-22)",
            "unreadable-counters",
        ),
    ];
    for (line, check) in lines {
        let machines = ["ndr8", "mlx5-roce", "empty", "mtu"].map(|name| on(name, line));
        for explained in machines.iter().chain([&on_another_machine(line)]) {
            let first = &explained.causes[0];
            assert_eq!(
                (first.check, first.evidence),
                (Some(check), LineEvidence::Proves),
                "{line}"
            );
            assert!(first.is_likely(), "its fix is shown: {line}");
        }
    }
    let plugin = "NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).";
    assert!(on("mtu", plugin).causes[0].cause.contains("plugin"));
}

#[test]
fn the_error_number_selects_the_cause() {
    let registration =
        |error: &str| format!("UCX ERROR ibv_reg_mr(address=0x7f, length=1) failed: {error}");
    let causes = |line: &str| on_another_machine(line).causes;
    let no_memory = on_another_machine(&registration("Cannot allocate memory"));
    assert_eq!(first_check(&no_memory), Some("memlock"), "{:?}", no_memory.causes);
    assert!(no_memory.error.title.ends_with("ENOMEM (12, cannot allocate memory)"));
    let bad_address = on_another_machine(&registration("Bad address"));
    assert_eq!(first_check(&bad_address), Some("gpudirect"), "{:?}", bad_address.causes);
    let creation =
        |error: &str| format!("NCCL WARN Call to ibv_create_qp failed with error {error}");
    assert_eq!(causes(&creation("Cannot allocate memory"))[0].check, Some("memlock"));
    assert!(
        causes(&creation("Invalid argument"))[0].cause.contains("deeper than the device allows")
    );
    assert_eq!(
        causes(&creation("Resource temporarily unavailable"))[0].cause,
        "other processes use all queue pairs"
    );
    let memlock = causes(&creation("Invalid argument"));
    let memlock = memlock.iter().find(|cause| cause.check == Some("memlock")).expect("a cause");
    assert_eq!(memlock.evidence, LineEvidence::Unlikely);
    assert!(!memlock.is_likely(), "its fix is not shown");
}

#[test]
fn a_command_that_efa_refused_for_lack_of_memory_is_not_about_pcie() {
    let line =
        "efa 0000:00:06.0: Failed to process command ALLOC_PD (opcode 14) comp_status 6 err -12";
    for name in ["efa", "empty", "pcie-narrow"] {
        let explained = on(name, line);
        assert!(
            explained.causes[0].cause.starts_with("a limit of the device"),
            "{:?}",
            explained.causes
        );
        let pcie = explained.causes.iter().find(|cause| cause.check == Some("aer"));
        assert_eq!(pcie.map(|cause| cause.evidence), Some(LineEvidence::Unlikely));
    }
}

#[test]
fn a_cause_that_the_line_leaves_open_is_ordered_by_the_machine() {
    let line = "Failed status 12: wr_id 0 syndrom 0x81";
    assert_eq!(first_check(&on("mtu", line)), Some("mtu"));
    // The machine that explains has no RDMA, so that nothing there speaks against a cause.
    assert_eq!(first_check(&on_another_machine(line)), Some("gid"));
}
